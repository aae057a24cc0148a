//! Cutting an object at record ends.

use super::bom::BomFilter;
use super::error::{CsvError, excerpt};
use super::field::unquote;
use super::mask::{BLOCK_BYTES, Block, Kernel, dispatch};
use super::options::{CsvOptions, Dialect, MAX_RECORD_BYTES};
use super::records::RecordIndex;
use super::scan::{Scanner, Step};

/// A byte range of an object that holds whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvSplit {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset behind its last byte.
    pub end: u64,
    /// Number of records in it.
    pub rows: u64,
}

/// Result of a [`SplitScanner`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvSplits {
    /// Column names; `None` if the options say there are none, or the object
    /// has no record.
    pub header: Option<Vec<String>>,
    /// All data rows in order, without gaps, header and byte order mark left
    /// out. No split is without rows.
    pub splits: Vec<CsvSplit>,
}

/// Finds places where an object can be cut between two records, and counts the
/// records in between.
///
/// Feed the whole object in order with [`Self::push`], then [`Self::finish`].
/// Whether empty lines are records depends on the number of columns, which is
/// taken from the first other record; an object of empty lines only has no
/// records.
#[derive(Debug)]
pub struct SplitScanner {
    dialect: Dialect,
    has_header: bool,
    target_bytes: u64,
    bom: BomFilter,
    phase: Phase,
    /// At the end of the bytes received; its offsets are those of the object.
    scanner: Scanner,
    /// Whether empty lines are records.
    is_one_column: bool,
    /// Last byte received.
    last_byte: u8,
    /// Where the record that is not complete yet starts.
    record_start: u64,
    /// Where the split that is not complete yet starts.
    split_start: u64,
    /// Complete records of that split.
    split_rows: u64,
    /// Complete records before it.
    rows_before: u64,
    found: CsvSplits,
}

#[derive(Debug)]
enum Phase {
    /// Before the end of the first record that is no empty line.
    FirstRecord {
        /// The bytes of that record so far.
        bytes: Vec<u8>,
        empty_lines: u64,
    },
    Body,
}

impl SplitScanner {
    /// A scanner that cuts at the first record end after each `target_bytes`.
    ///
    /// # Errors
    ///
    /// [`CsvError::InvalidOptions`].
    pub fn try_new(options: &CsvOptions, target_bytes: u64) -> Result<Self, CsvError> {
        options.validate()?;
        let dialect = options.dialect();
        Ok(Self {
            dialect,
            has_header: options.has_header,
            target_bytes,
            bom: BomFilter::new(true),
            phase: Phase::FirstRecord { bytes: Vec::new(), empty_lines: 0 },
            scanner: Scanner::new(dialect, 0),
            is_one_column: false,
            last_byte: b'\n',
            record_start: 0,
            split_start: 0,
            split_rows: 0,
            rows_before: 0,
            found: CsvSplits::default(),
        })
    }

    /// Memory that it holds: the first record while it is incomplete, and the splits found.
    pub fn memory_bytes(&self) -> usize {
        let record = match &self.phase {
            Phase::FirstRecord { bytes, .. } => bytes.capacity(),
            Phase::Body => 0,
        };
        let names = self.found.header.iter().flatten().map(|name| size_of::<String>() + name.len()).sum::<usize>();
        record + names + self.found.splits.capacity() * size_of::<CsvSplit>()
    }

    /// Takes the next bytes of the object.
    ///
    /// # Errors
    ///
    /// [`CsvError::TextAfterQuote`]; in the first record also
    /// [`CsvError::RecordTooLong`] and [`CsvError::InvalidUtf8`].
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), CsvError> {
        let (held, rest, found) = self.bom.push(chunk);
        if found {
            self.scanner = Scanner::new(self.dialect, BomFilter::LEN);
            self.record_start = BomFilter::LEN;
            self.split_start = BomFilter::LEN;
        }
        self.scan(held)?;
        self.scan(rest)
    }

    /// Ends the object.
    ///
    /// # Errors
    ///
    /// As [`Self::push`], and [`CsvError::UnclosedQuote`].
    pub fn finish(mut self) -> Result<CsvSplits, CsvError> {
        let held = self.bom.finish();
        self.scan(held)?;
        if let Some(offset) = self.scanner.unclosed() {
            return Err(CsvError::UnclosedQuote { row: self.current_row(), offset });
        }
        let end = self.scanner.offset();
        let is_empty_line = match end - self.record_start {
            0 => true,
            1 => self.last_byte == b'\r' && !self.is_one_column,
            _ => false,
        };
        if !is_empty_line {
            match &mut self.phase {
                Phase::FirstRecord { bytes, .. } => {
                    bytes.push(b'\n');
                    self.end_first_record(end)?;
                }
                Phase::Body => self.split_rows += 1,
            }
        }
        self.end_split(end);
        Ok(self.found)
    }

    fn scan(&mut self, chunk: &[u8]) -> Result<(), CsvError> {
        let rest = self.scan_first_record(chunk)?;
        dispatch(ScanBody { splits: self, data: rest });
        self.check_broken()
    }

    /// Takes bytes up to the end of the first record, returns the others.
    fn scan_first_record<'a>(&mut self, mut chunk: &'a [u8]) -> Result<&'a [u8], CsvError> {
        while let Phase::FirstRecord { bytes, empty_lines } = &mut self.phase {
            let end = chunk.iter().position(|&byte| self.scanner.step(byte) == Step::Newline);
            let (record, rest) = chunk.split_at(end.map_or(chunk.len(), |at| at + 1));
            bytes.extend_from_slice(record);
            self.last_byte = record.last().copied().unwrap_or(self.last_byte);
            let is_too_long = bytes.len() > MAX_RECORD_BYTES;
            let is_empty_line = matches!(bytes.as_slice(), b"\n" | b"\r\n");
            if is_empty_line {
                bytes.clear();
                *empty_lines += 1;
            }
            self.check_broken()?;
            if is_too_long {
                return Err(CsvError::RecordTooLong {
                    row: self.current_row(),
                    offset: self.record_start,
                    limit: MAX_RECORD_BYTES,
                });
            }
            if end.is_none() {
                return Ok(rest);
            }
            let end = self.scanner.offset();
            if is_empty_line {
                self.record_start = end;
            } else {
                self.end_first_record(end)?;
            }
            chunk = rest;
        }
        Ok(chunk)
    }

    /// Learns from the first record, which ends at offset `end`.
    fn end_first_record(&mut self, end: u64) -> Result<(), CsvError> {
        let Phase::FirstRecord { bytes, empty_lines } = std::mem::replace(&mut self.phase, Phase::Body) else {
            return Ok(());
        };
        let mut index = RecordIndex::new(self.dialect);
        let columns = index.count_fields(&bytes);
        self.is_one_column = columns == 1;
        let records = index.records(&bytes, columns);
        let fields = (0..columns).map(|column| {
            let (start, end) = records.field(0, column);
            (column, start, bytes.get(start..end).unwrap_or_default())
        });
        for (_, start, raw) in fields.clone() {
            let is_quoted = raw.first().is_some_and(|first| Some(*first) == self.dialect.quote);
            if !is_quoted && let Some(at) = raw.iter().position(|byte| *byte == b'\r') {
                let offset = self.record_start + (start + at) as u64;
                return Err(CsvError::LoneCarriageReturn { row: u64::from(!self.has_header), offset });
            }
        }
        if self.has_header {
            let names = fields.map(|(column, start, raw)| {
                let mut scratch = Vec::new();
                let name = unquote(raw, self.dialect, &mut scratch).unwrap_or(raw);
                match std::str::from_utf8(name) {
                    Ok(name) => Ok(name.to_owned()),
                    Err(_) => Err(CsvError::InvalidUtf8 {
                        row: 0,
                        offset: self.record_start + start as u64,
                        column: (column + 1).to_string(),
                        text: excerpt(raw),
                    }),
                }
            });
            self.found.header = Some(names.collect::<Result<_, _>>()?);
            self.split_start = end;
        } else {
            self.split_rows = 1;
            if self.is_one_column {
                self.split_rows += empty_lines;
            }
            if end - self.split_start >= self.target_bytes {
                self.end_split(end);
            }
        }
        self.record_start = end;
        Ok(())
    }

    /// Takes the record ends `newlines` among `bytes`, at most a block, which
    /// start at offset `base`.
    #[inline(always)]
    fn end_records(&mut self, newlines: u64, base: u64, bytes: &[u8]) {
        let mut records = newlines;
        if !self.is_one_column {
            // An empty line is shorter than 2 bytes, so its newline follows
            // another one, or the start of the open record, at once or after
            // one byte.
            let follows = match base - self.record_start {
                0 => 0b11,
                1 => 0b01,
                _ => 0,
            };
            if newlines & (newlines << 1 | newlines << 2 | follows) != 0 {
                records &= !self.empty_lines(newlines, base, bytes);
            }
        }
        if base + BLOCK_BYTES as u64 >= self.split_start.saturating_add(self.target_bytes) {
            self.cut(newlines, records, base);
        } else {
            self.split_rows += u64::from(records.count_ones());
        }
        self.record_start = base + u64::from(newlines.ilog2()) + 1;
    }

    /// Those of `newlines` that end an empty line.
    #[inline(never)]
    fn empty_lines(&self, newlines: u64, base: u64, bytes: &[u8]) -> u64 {
        let mut start = self.record_start;
        let mut empty = 0;
        for bit in bits(newlines) {
            let end = base + u64::from(bit);
            let before = match bit.checked_sub(1) {
                Some(at) => bytes.get(at as usize).copied().unwrap_or_default(),
                None => self.last_byte,
            };
            if end == start || (end == start + 1 && before == b'\r') {
                empty |= 1 << bit;
            }
            start = end + 1;
        }
        empty
    }

    /// Counts `records` and ends a split at each of `newlines` where it has
    /// its size.
    #[inline(never)]
    fn cut(&mut self, newlines: u64, records: u64, base: u64) {
        for bit in bits(newlines) {
            self.split_rows += records >> bit & 1;
            let end = base + u64::from(bit) + 1;
            if self.split_rows > 0 && end - self.split_start >= self.target_bytes {
                self.end_split(end);
            }
        }
    }

    /// Ends the open split at offset `end`. One without rows, which has empty
    /// lines at most, becomes part of the one before.
    fn end_split(&mut self, end: u64) {
        if self.split_rows > 0 {
            self.found.splits.push(CsvSplit { start: self.split_start, end, rows: self.split_rows });
        } else if let Some(split) = self.found.splits.last_mut() {
            split.end = end;
        }
        self.rows_before += self.split_rows;
        self.split_rows = 0;
        self.split_start = end;
    }

    fn check_broken(&self) -> Result<(), CsvError> {
        match self.scanner.broken() {
            None => Ok(()),
            Some(offset) => Err(CsvError::TextAfterQuote { row: self.current_row(), offset }),
        }
    }

    /// Number of the record that is not complete yet.
    fn current_row(&self) -> u64 {
        let is_header = self.has_header && matches!(self.phase, Phase::FirstRecord { .. });
        if is_header { 0 } else { self.rows_before + self.split_rows + 1 }
    }
}

/// Takes bytes behind the first record.
struct ScanBody<'a> {
    splits: &'a mut SplitScanner,
    data: &'a [u8],
}

impl Kernel for ScanBody<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: Block>(self) {
        let Self { splits, data } = self;
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            let base = splits.scanner.offset();
            let newlines = splits.scanner.scan_block::<B>(block).newlines;
            if newlines != 0 {
                splits.end_records(newlines, base, block);
            }
            let [.., last] = *block;
            splits.last_byte = last;
        }
        let base = splits.scanner.offset();
        let newlines = splits.scanner.scan_partial(rest).newlines;
        if newlines != 0 {
            splits.end_records(newlines, base, rest);
        }
        splits.last_byte = rest.last().copied().unwrap_or(splits.last_byte);
    }
}

/// Positions of the set bits, ascending.
fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}
