//! Positions of the fields of a piece of the file.
//!
//! [`RecordIndex::scan`] writes the position of every field end into one flat array. In a regular piece, where every
//! record has exactly as many fields as the table, that array already is the answer: field `(row, column)` lies between
//! entries `row * columns + column` and the next, and no work at all is spent on columns that are not wanted. Anything
//! else (empty lines, wrong field counts) is regrouped record by record.
#![expect(
    clippy::indexing_slicing,
    reason = "entries of `ends` are positions of bytes of the scanned data, and row and column \
              numbers are below the counts that built the array; `Records` borrows both, so \
              neither can change in between"
)]

use super::mask::{BLOCK_BYTES, Block, Kernel, dispatch};
use super::options::Dialect;
use super::scan::{Masks, Scanner};

/// Entry before the first field: one less than its start, modulo 2^32.
const BEFORE_FIRST: u32 = u32::MAX;

/// Reusable arrays of field positions.
#[derive(Debug)]
pub(super) struct RecordIndex {
    dialect: Dialect,
    /// Positions of field ends after [`BEFORE_FIRST`]; longer than what the
    /// last scan wrote.
    ends: Vec<u32>,
    /// The same with one start entry per record, if regrouped.
    grouped: Vec<u32>,
}

/// Result of a scan besides the field ends.
#[derive(Debug, Clone, Copy, Default)]
struct Scanned {
    /// Entries of `ends` in use.
    entries: usize,
    newlines: usize,
    /// Length of all complete records, in bytes.
    consumed: usize,
    /// Position of text after a closing quote.
    broken: Option<usize>,
}

/// The complete records at the start of a piece of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records<'a> {
    data: &'a [u8],
    ends: &'a [u32],
    /// Entries of `ends` per row.
    stride: usize,
    columns: usize,
    /// Number of records.
    pub(super) rows: usize,
    /// Their length in bytes, skipped lines included.
    pub(super) consumed: usize,
    /// Defect after these records, if the following text cannot be read.
    pub(super) defect: Option<Defect>,
}

/// A record that breaks the grammar. Positions are relative to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    FieldCount { start: usize, end: usize, found: usize },
    TextAfterQuote { at: usize },
}

impl RecordIndex {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, ends: Vec::new(), grouped: Vec::new() }
    }

    /// The index, leaving one without arrays.
    pub(super) fn take(&mut self) -> Self {
        let without_arrays = Self::new(self.dialect);
        std::mem::replace(self, without_arrays)
    }

    /// Finds the complete records of `data`, which starts with a record, is
    /// shorter than 4 GiB, and belongs to a table of `columns` > 0 columns.
    pub(super) fn records<'a>(&'a mut self, data: &'a [u8], columns: usize) -> Records<'a> {
        let scanned = self.scan(data);
        let broken = scanned.broken.map(|at| Defect::TextAfterQuote { at });
        if self.is_regular(data, columns, scanned) {
            return Records {
                data,
                ends: &self.ends,
                stride: columns,
                columns,
                rows: scanned.newlines,
                consumed: scanned.consumed,
                defect: broken,
            };
        }
        let (rows, defect) = self.regroup(data, columns, scanned);
        Records {
            data,
            ends: &self.grouped,
            stride: columns + 1,
            columns,
            rows,
            consumed: scanned.consumed,
            defect: defect.or(broken),
        }
    }

    /// Number of fields of `record`, one complete record.
    pub(super) fn count_fields(&mut self, record: &[u8]) -> usize {
        self.scan(record).entries - 1
    }

    fn scan(&mut self, data: &[u8]) -> Scanned {
        dispatch(Scan { index: self, data })
    }

    /// Makes room for the ends of one more block after `entries` entries.
    #[inline(always)]
    fn reserve(&mut self, entries: usize) {
        if self.ends.len() < entries + BLOCK_BYTES {
            self.ends.resize(2 * (entries + BLOCK_BYTES), 0);
        }
    }

    /// Takes the field ends of the block at position `base`.
    #[inline(always)]
    fn take_block(&mut self, scanned: &mut Scanned, masks: Masks, base: usize) {
        if masks.newlines != 0 {
            scanned.newlines += masks.newlines.count_ones() as usize;
            scanned.consumed = base + masks.newlines.ilog2() as usize + 1;
        }
        self.push(&mut scanned.entries, masks.delimiters | masks.newlines, base);
    }

    /// Appends `base` plus the positions of the set bits.
    #[inline(always)]
    fn push(&mut self, entries: &mut usize, mut bits: u64, base: usize) {
        self.reserve(*entries);
        let count = bits.count_ones() as usize;
        for end in &mut self.ends[*entries..*entries + count] {
            *end = base as u32 + bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
        }
        *entries += count;
    }

    /// Whether every record has exactly `columns` fields.
    ///
    /// It is enough that every `columns`-th end is a newline: as there are no
    /// more newlines than that, all other ends are delimiters.
    fn is_regular(&self, data: &[u8], columns: usize, scanned: Scanned) -> bool {
        scanned.newlines * columns < scanned.entries
            && self.ends[1..]
                .chunks_exact(columns)
                .take(scanned.newlines)
                .all(|record| data[record[columns - 1] as usize] == b'\n')
    }

    /// Fills `grouped`, up to the first record with a wrong field count.
    fn regroup(&mut self, data: &[u8], columns: usize, scanned: Scanned) -> (usize, Option<Defect>) {
        self.grouped.clear();
        let mut rows = 0;
        let mut start = 0;
        let mut before_record = BEFORE_FIRST;
        let mut record_start = 1;
        for (entry, &end) in self.ends[..scanned.entries].iter().enumerate().skip(1) {
            let end_at = end as usize;
            if data[end_at] != b'\n' {
                continue;
            }
            let ends = &self.ends[record_start..=entry];
            let is_empty_line = columns > 1 && matches!(data[start..end_at], [] | [b'\r']);
            if !is_empty_line {
                if ends.len() != columns {
                    let defect = Defect::FieldCount { start, end: end_at, found: ends.len() };
                    return (rows, Some(defect));
                }
                self.grouped.push(before_record);
                self.grouped.extend_from_slice(ends);
                rows += 1;
            }
            before_record = end;
            start = end_at + 1;
            record_start = entry + 1;
        }
        (rows, None)
    }
}

/// Fills `ends` of an index.
struct Scan<'a> {
    index: &'a mut RecordIndex,
    data: &'a [u8],
}

impl Kernel for Scan<'_> {
    type Output = Scanned;

    #[inline(always)]
    fn run<B: Block>(self) -> Scanned {
        let Self { index, data } = self;
        let mut scanner = Scanner::new(index.dialect, 0);
        let mut scanned = Scanned { entries: 1, ..Scanned::default() };
        index.reserve(0);
        index.ends[0] = BEFORE_FIRST;
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        let mut base = 0;
        for block in blocks {
            let masks = scanner.scan_block::<B>(block);
            index.take_block(&mut scanned, masks, base);
            base += BLOCK_BYTES;
        }
        let masks = scanner.scan_partial(rest);
        index.take_block(&mut scanned, masks, base);
        scanned.broken = scanner.broken().map(|at| at as usize);
        scanned
    }
}

impl<'a> Records<'a> {
    /// The bytes that positions refer to.
    pub(super) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Start and end of a record, without the newline.
    pub(super) fn record(&self, row: usize) -> (usize, usize) {
        let entry = row * self.stride;
        (self.ends[entry].wrapping_add(1) as usize, self.ends[entry + self.columns] as usize)
    }

    /// Start and end of a field, quotes included, record end excluded.
    #[inline(always)]
    pub(super) fn field(&self, row: usize, column: usize) -> (usize, usize) {
        let entry = row * self.stride + column;
        let start = self.ends[entry].wrapping_add(1) as usize;
        let end = self.ends[entry + 1] as usize;
        let has_return = column + 1 == self.columns && end > start && self.data[end - 1] == b'\r';
        (start, end - usize::from(has_return))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::CsvOptions;

    fn read(data: &str, columns: usize) -> (Vec<Vec<&str>>, usize, Option<Defect>) {
        let mut index = RecordIndex::new(CsvOptions::default().dialect());
        let records = index.records(data.as_bytes(), columns);
        let rows = (0..records.rows)
            .map(|row| {
                (0..columns)
                    .map(|column| {
                        let (start, end) = records.field(row, column);
                        &data[start..end]
                    })
                    .collect()
            })
            .collect();
        (rows, records.consumed, records.defect)
    }

    #[test]
    fn complete_records_only() {
        let (rows, consumed, defect) = read("a,b\nc,d\r\ne,", 2);
        assert_eq!(rows, [["a", "b"], ["c", "d"]]);
        assert_eq!((consumed, defect), (9, None));
        assert_eq!(read("", 2), (vec![], 0, None));
    }

    #[test]
    fn where_records_are() {
        let data = "a,b\r\n\n\"c\n\",d\n";
        let mut index = RecordIndex::new(CsvOptions::default().dialect());
        let records = index.records(data.as_bytes(), 2);
        let found: Vec<_> =
            (0..records.rows).map(|row| records.record(row)).map(|(start, end)| &data[start..end]).collect();
        assert_eq!(found, ["a,b\r", "\"c\n\",d"]);
    }

    #[test]
    fn empty_lines() {
        let (rows, consumed, _) = read("\n\r\na,b\n\nc,d\n\n", 2);
        assert_eq!((rows, consumed), (vec![vec!["a", "b"], vec!["c", "d"]], 13));
        let (rows, ..) = read("\na\n\r\n", 1);
        assert_eq!(rows, [[""], ["a"], [""]]);
    }

    #[test]
    fn quoted_fields() {
        let (rows, ..) = read("\"a\n,\",b\"c\nd,\"e\"\"\"\r\n", 2);
        assert_eq!(rows, [["\"a\n,\"", "b\"c"], ["d", "\"e\"\"\""]]);
    }

    #[test]
    fn defects_follow_good_records() {
        let (rows, _, defect) = read("a,b\nc\nd,e\n", 2);
        assert_eq!(rows.len(), 1);
        let expected = Defect::FieldCount { start: 4, end: 5, found: 1 };
        assert_eq!(defect, Some(expected));
        let (rows, _, defect) = read("a,b\n\"c\"x,d\n", 2);
        assert_eq!(rows.len(), 1);
        assert_eq!(defect, Some(Defect::TextAfterQuote { at: 7 }));
    }
}
