//! Results as rows in packed buffers.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use thermocline_tables::table::{Cell as InRow, Charge, Row, StatementMemory, Working, out_of_memory};
use thermocline_types::{Class, DataType, Decimal, Error, Interval, Result, UUID_BYTES, ValueRef};

/// Limit on bytes of a result; a larger result is an error.
pub const RESULT_BYTES_MAX: usize = 256 << 20;

/// Recent bytes of text in a statement's results, the initial capacity of the next one.
#[derive(Debug, Default)]
pub(crate) struct TextHint(AtomicU32);

/// Limit on the initial capacity for text, in bytes.
const HINT_BYTES_MAX: usize = 4096;

impl Clone for TextHint {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

impl TextHint {
    /// An empty result with `width` columns.
    pub fn rows(&self, width: usize) -> Rows {
        let text = Vec::with_capacity(self.0.load(Ordering::Relaxed) as usize);
        Rows { text, ..Rows::new(width) }
    }

    /// Adjusts the hint to a result.
    #[inline]
    pub fn note(&self, rows: &Rows) {
        let (known, now) = (self.0.load(Ordering::Relaxed) as usize, rows.text.len().min(HINT_BYTES_MAX));
        if now > known || now < known / 4 {
            self.0.store(now as u32, Ordering::Relaxed);
        }
    }
}

/// Bytes up to which a result is not charged.
const UNTOLD_BYTES: usize = 64 << 10;
/// Bytes up to which buffers double; larger buffers grow by half.
const DOUBLING_BYTES: usize = 1 << 20;

/// Limit on values of a result.
const CELLS_MAX: usize = RESULT_BYTES_MAX / size_of::<Cell>();
/// Smallest capacity of the text buffer, in bytes.
const TEXT_BYTES_MIN: usize = 256;

/// Rows and row count of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Rows of a query or of `RETURNING`.
    pub rows: Rows,
    /// Number of rows inserted, updated or deleted, or in the result of a query.
    pub affected: u64,
}

/// Results of the runs of one statement with several sets of parameters, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// The concatenated rows of all runs, and the sum of their row counts.
    pub outcome: Outcome,
    /// Number of rows up to the end of each run.
    ends: Vec<usize>,
}

impl Batch {
    /// An empty batch with room for `runs` runs, whose rows are appended to `rows`.
    pub(crate) fn new(rows: Rows, runs: usize) -> Self {
        Self { outcome: Outcome { rows, affected: 0 }, ends: Vec::with_capacity(runs) }
    }

    /// Ends a run.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.ends.push(self.outcome.rows.len());
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.ends.len()
    }

    /// The range of a run's rows; empty if there was no such run.
    pub fn rows_of(&self, run: usize) -> Range<usize> {
        let from = run.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        match (from, self.ends.get(run)) {
            (Some(from), Some(to)) => from..*to,
            _ => 0..0,
        }
    }
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputColumn {
    /// Name: the alias, see [`output_name`](fn@super::output_name) without one.
    pub name: Box<str>,
    /// Type; NULL and untyped parameters are TEXT.
    pub data_type: DataType,
}

/// Rows of values, in three buffers.
///
/// ```
/// use thermocline_statements::Rows;
/// use thermocline_types::ValueRef;
///
/// let mut rows = Rows::new(2);
/// rows.push(ValueRef::Int(1)).unwrap();
/// rows.push(ValueRef::Text("one")).unwrap();
/// assert_eq!(rows.len(), 1);
/// assert_eq!(rows.value(0, 1), ValueRef::Text("one"));
/// ```
///
/// Rows that a statement makes charge their buffers to the budget before these grow, except for small ones, until they
/// are dropped. Clones are not charged.
#[derive(Debug, Default)]
pub struct Rows {
    width: usize,
    cells: Vec<Cell>,
    /// UTF-8, validated when read: rows of tables are copied as bytes.
    text: Vec<u8>,
    bytes: Vec<u8>,
    /// Charge of the buffers; `None` while they are small, or where memory is not counted.
    charge: Option<Box<Charge>>,
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        let Self { width, cells, text, bytes, .. } = self;
        Self { width: *width, cells: cells.clone(), text: text.clone(), bytes: bytes.clone(), charge: None }
    }
}

/// A value; text and bytes are ranges of the buffers.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Boolean(bool),
    Int(i64),
    Real(f32),
    Float(f64),
    Decimal(Decimal),
    Text {
        from: u32,
        to: u32,
    },
    Bytes {
        from: u32,
        to: u32,
    },
    Date(i32),
    Timestamp(i64),
    TimestampTz(i64),
    Interval(Interval),
    Uuid([u8; UUID_BYTES]),
    /// A range of `text`.
    Jsonb {
        from: u32,
        to: u32,
    },
}

const _: () = assert!(size_of::<Cell>() == 24 && RESULT_BYTES_MAX < u32::MAX as usize);

impl Rows {
    /// An empty result with `width` columns.
    pub const fn new(width: usize) -> Self {
        Self { width, cells: Vec::new(), text: Vec::new(), bytes: Vec::new(), charge: None }
    }

    /// An empty result with `width` columns and room for `rows` rows.
    pub fn with_capacity(width: usize, rows: usize) -> Self {
        let cells = Vec::with_capacity(width.saturating_mul(rows).min(CELLS_MAX));
        Self { cells, ..Self::new(width) }
    }

    /// Reserves `bytes` bytes of text.
    pub fn reserve_text(&mut self, bytes: usize) {
        self.text.reserve(bytes.min(RESULT_BYTES_MAX));
    }

    /// Reserves `rows` more rows.
    pub fn reserve(&mut self, rows: usize) {
        self.cells.reserve(self.width.saturating_mul(rows).min(CELLS_MAX.saturating_sub(self.cells.len())));
    }

    /// Number of columns.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Number of complete rows; 0 without columns.
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Bytes that the buffers hold.
    pub fn byte_size(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.text.len() + self.bytes.len()
    }

    /// Capacity of the buffers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.text.capacity() + self.bytes.capacity()
    }

    /// Bytes charged to the budget.
    pub fn charged_bytes(&self) -> usize {
        self.charge.as_ref().map_or(0, |charge| charge.bytes())
    }

    /// Appends the next value.
    #[inline]
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<()> {
        self.push_within(value, None)
    }

    /// [`Self::push`] charged to the running statement; an error if the budget is exhausted.
    #[inline]
    pub fn push_within(&mut self, value: ValueRef<'_>, memory: Option<&StatementMemory>) -> Result<()> {
        if self.cells.len() == self.cells.capacity() {
            self.grow(1, memory)?;
        }
        let cell = self.cell_of(value, memory)?;
        self.cells.push(cell);
        Ok(())
    }

    /// Makes the cell of a value and appends its text or bytes to the buffers.
    #[inline(always)]
    fn cell_of(&mut self, value: ValueRef<'_>, memory: Option<&StatementMemory>) -> Result<Cell> {
        Ok(match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Boolean(value) => Cell::Boolean(value),
            ValueRef::Int(value) => Cell::Int(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Float(value) => Cell::Float(value),
            ValueRef::Decimal(value) => Cell::Decimal(value),
            ValueRef::Text(value) => self.push_text(value.as_bytes(), memory)?,
            ValueRef::Bytes(value) => self.push_bytes(value, memory)?,
            ValueRef::Date(value) => Cell::Date(value),
            ValueRef::Timestamp(value) => Cell::Timestamp(value),
            ValueRef::TimestampTz(value) => Cell::TimestampTz(value),
            ValueRef::Interval(value) => Cell::Interval(value),
            ValueRef::Uuid(value) => Cell::Uuid(value),
            ValueRef::Jsonb(value) => match self.push_text(value.as_bytes(), memory)? {
                Cell::Text { from, to } => Cell::Jsonb { from, to },
                other => other,
            },
        })
    }

    #[inline(never)]
    fn push_bytes(&mut self, value: &[u8], memory: Option<&StatementMemory>) -> Result<Cell> {
        let (from, to) = (self.bytes.len(), self.bytes.len() + value.len());
        if to > self.bytes.capacity() {
            self.grow_bytes(value.len(), memory)?;
        }
        self.bytes.extend_from_slice(value);
        Ok(Cell::Bytes { from: from as u32, to: to as u32 })
    }

    /// Appends a column of a table row.
    #[inline(always)]
    pub(crate) fn push_column(&mut self, row: Row<'_>, column: usize, memory: Option<&StatementMemory>) -> Result<()> {
        if self.cells.len() == self.cells.capacity() {
            self.grow(1, memory)?;
        }
        let cell = match row.cell(column) {
            InRow::Value(value) => self.cell_of(value, memory)?,
            InRow::Text(text) => self.push_text(text, memory)?,
        };
        self.cells.push(cell);
        Ok(())
    }

    #[inline]
    fn push_text(&mut self, text: &[u8], memory: Option<&StatementMemory>) -> Result<Cell> {
        let (from, to) = (self.text.len(), self.text.len() + text.len());
        if to > self.text.capacity() {
            self.grow_text(text.len(), memory)?;
        }
        self.text.extend_from_slice(text);
        Ok(Cell::Text { from: from as u32, to: to as u32 })
    }

    /// Makes room for more values: at first for one row, because most results have only one.
    #[cold]
    fn grow(&mut self, cells: usize, memory: Option<&StatementMemory>) -> Result<()> {
        let (held, capacity) = (self.cells.len(), self.cells.capacity());
        let needed = held.saturating_add(cells);
        if needed > CELLS_MAX {
            return Err(too_large());
        }
        let more = if capacity > DOUBLING_BYTES / size_of::<Cell>() { capacity / 2 } else { capacity };
        let more = more.max(self.width).min(CELLS_MAX - capacity).max(needed - capacity);
        self.tell(more * size_of::<Cell>(), memory)?;
        self.cells.reserve_exact(capacity - held + more);
        Ok(())
    }

    #[cold]
    fn grow_text(&mut self, bytes: usize, memory: Option<&StatementMemory>) -> Result<()> {
        let more = more_bytes(self.text.len(), self.text.capacity(), bytes)?;
        self.tell(more, memory)?;
        self.text.reserve_exact(self.text.capacity() - self.text.len() + more);
        Ok(())
    }

    #[cold]
    fn grow_bytes(&mut self, bytes: usize, memory: Option<&StatementMemory>) -> Result<()> {
        let more = more_bytes(self.bytes.len(), self.bytes.capacity(), bytes)?;
        self.tell(more, memory)?;
        self.bytes.reserve_exact(self.bytes.capacity() - self.bytes.len() + more);
        Ok(())
    }

    /// Charges `more` bytes by which the buffers are about to grow.
    fn tell(&mut self, more: usize, memory: Option<&StatementMemory>) -> Result<()> {
        let bytes = self.memory_bytes().saturating_add(more);
        if self.charge.is_none() {
            let Some(memory) = memory.filter(|_| bytes > UNTOLD_BYTES) else { return Ok(()) };
            self.charge = Some(Box::new(memory.charge(Working::Results)));
        }
        match &mut self.charge {
            Some(charge) => charge.resize_exactly(bytes).map_err(|full| out_of_memory("a result", full)),
            None => Ok(()),
        }
    }

    /// The value in a row and a column; NULL if out of range.
    #[inline]
    pub fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        match self.cells.get(row * self.width + column) {
            Some(cell) if column < self.width => self.resolve(*cell),
            _ => ValueRef::Null,
        }
    }

    /// Whether [`Self::value`] is NULL.
    #[inline]
    pub fn is_null(&self, row: usize, column: usize) -> bool {
        column >= self.width || matches!(self.cells.get(row * self.width + column), None | Some(Cell::Null))
    }

    /// The bytes of the text in a row and a column; `None` if it is not a text.
    #[inline]
    pub fn text_bytes(&self, row: usize, column: usize) -> Option<&[u8]> {
        match self.cells.get(row * self.width + column) {
            Some(Cell::Text { from, to }) if column < self.width => self.text.get(*from as usize..*to as usize),
            _ => None,
        }
    }

    /// The values of a row.
    pub fn row(&self, row: usize) -> impl ExactSizeIterator<Item = ValueRef<'_>> {
        let from = row * self.width;
        self.cells.get(from..from + self.width).unwrap_or_default().iter().map(|cell| self.resolve(*cell))
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = impl ExactSizeIterator<Item = ValueRef<'_>>> {
        (0..self.len()).map(|row| self.row(row))
    }

    /// Appends the value in a row and a column of another result; NULL if out of range.
    pub fn push_from(&mut self, other: &Self, row: usize, column: usize) -> Result<()> {
        self.push_from_within(other, row, column, None)
    }

    #[inline]
    fn push_from_within(
        &mut self,
        other: &Self,
        row: usize,
        column: usize,
        memory: Option<&StatementMemory>,
    ) -> Result<()> {
        if self.cells.len() == self.cells.capacity() {
            self.grow(1, memory)?;
        }
        let cell = match other.cells.get(row * other.width + column) {
            Some(Cell::Text { from, to }) if column < other.width => {
                let text = other.text.get(*from as usize..*to as usize);
                self.push_text(text.unwrap_or_default(), memory)?
            }
            Some(Cell::Jsonb { from, to }) if column < other.width => {
                let text = other.text.get(*from as usize..*to as usize).unwrap_or_default();
                match self.push_text(text, memory)? {
                    Cell::Text { from, to } => Cell::Jsonb { from, to },
                    cell => cell,
                }
            }
            Some(Cell::Bytes { from, to }) if column < other.width => {
                let bytes = other.bytes.get(*from as usize..*to as usize);
                self.push_bytes(bytes.unwrap_or_default(), memory)?
            }
            Some(cell) if column < other.width => *cell,
            _ => Cell::Null,
        };
        self.cells.push(cell);
        Ok(())
    }

    /// Appends the leading values of a row of another result, up to the width of this one.
    pub fn push_row(&mut self, other: &Self, row: usize) -> Result<()> {
        self.push_row_within(other, row, None)
    }

    /// [`Self::push_row`] charged to the running statement.
    pub(crate) fn push_row_within(&mut self, other: &Self, row: usize, memory: Option<&StatementMemory>) -> Result<()> {
        (0..self.width.min(other.width)).try_for_each(|column| self.push_from_within(other, row, column, memory))
    }

    /// Appends all rows of another result with as many columns.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        self.append_within(other, None)
    }

    /// [`Self::append`] charged to the running statement.
    pub(crate) fn append_within(&mut self, other: &Self, memory: Option<&StatementMemory>) -> Result<()> {
        if other.width != self.width {
            return Err(Error::internal(format_args!(
                "rows of {} columns behind those of {}",
                other.width, self.width
            )));
        }
        let (text, bytes) = (self.text.len(), self.bytes.len());
        place(text + other.text.len())?;
        place(bytes + other.bytes.len())?;
        if self.cells.len() + other.cells.len() > CELLS_MAX {
            return Err(too_large());
        }
        if self.text.capacity() - text < other.text.len() {
            self.grow_text(other.text.len(), memory)?;
        }
        if self.bytes.capacity() - bytes < other.bytes.len() {
            self.grow_bytes(other.bytes.len(), memory)?;
        }
        if self.cells.capacity() - self.cells.len() < other.cells.len() {
            self.grow(other.cells.len(), memory)?;
        }
        self.text.extend_from_slice(&other.text);
        self.bytes.extend_from_slice(&other.bytes);
        self.cells.extend(other.cells.iter().map(|cell| match *cell {
            Cell::Text { from, to } => Cell::Text { from: from + text as u32, to: to + text as u32 },
            Cell::Jsonb { from, to } => Cell::Jsonb { from: from + text as u32, to: to + text as u32 },
            Cell::Bytes { from, to } => Cell::Bytes { from: from + bytes as u32, to: to + bytes as u32 },
            other => other,
        }));
        Ok(())
    }

    /// Removes all rows and keeps the capacity.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
        self.bytes.clear();
    }

    #[inline]
    fn resolve(&self, cell: Cell) -> ValueRef<'_> {
        match cell {
            Cell::Null => ValueRef::Null,
            Cell::Boolean(value) => ValueRef::Boolean(value),
            Cell::Int(value) => ValueRef::Int(value),
            Cell::Real(value) => ValueRef::Real(value),
            Cell::Float(value) => ValueRef::Float(value),
            Cell::Decimal(value) => ValueRef::Decimal(value),
            Cell::Text { from, to } => ValueRef::Text(self.text_at(from, to)),
            Cell::Jsonb { from, to } => ValueRef::Jsonb(self.text_at(from, to)),
            Cell::Bytes { from, to } => ValueRef::Bytes(self.bytes.get(from as usize..to as usize).unwrap_or_default()),
            Cell::Date(value) => ValueRef::Date(value),
            Cell::Timestamp(value) => ValueRef::Timestamp(value),
            Cell::TimestampTz(value) => ValueRef::TimestampTz(value),
            Cell::Interval(value) => ValueRef::Interval(value),
            Cell::Uuid(value) => ValueRef::Uuid(value),
        }
    }

    #[inline]
    fn text_at(&self, from: u32, to: u32) -> &str {
        let text = self.text.get(from as usize..to as usize).map(std::str::from_utf8);
        text.and_then(std::result::Result::ok).unwrap_or_default()
    }
}

/// Compares values, not their places in the buffers.
impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width && self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a.eq(b))
    }
}

#[inline]
fn place(offset: usize) -> Result<u32> {
    match u32::try_from(offset) {
        Ok(place) if offset <= RESULT_BYTES_MAX => Ok(place),
        _ => Err(too_large()),
    }
}

/// The number of bytes to grow a buffer by that lacks room for `bytes` more.
fn more_bytes(held: usize, capacity: usize, bytes: usize) -> Result<usize> {
    let needed = held.saturating_add(bytes);
    if needed > RESULT_BYTES_MAX {
        return Err(too_large());
    }
    let more = if capacity > DOUBLING_BYTES { capacity / 2 } else { capacity.max(TEXT_BYTES_MIN) };
    Ok(more.min(RESULT_BYTES_MAX.saturating_sub(capacity)).max(needed - capacity))
}

#[cold]
fn too_large() -> Error {
    Class::LimitExceeded.error(format_args!("a result of more than {RESULT_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let mut rows = Rows::new(3);
        for number in 0..10 {
            rows.push(ValueRef::Int(number)).unwrap();
            rows.push(ValueRef::Text(&"ä".repeat(number as usize))).unwrap();
            rows.push(if number % 2 == 0 { ValueRef::Null } else { ValueRef::Bytes(&[1, 2]) }).unwrap();
        }
        assert_eq!(rows.len(), 10);
        assert_eq!(rows.value(3, 1), ValueRef::Text("äää"));
        assert_eq!(rows.value(3, 2), ValueRef::Bytes(&[1, 2]));
        assert_eq!(rows.value(3, 3), ValueRef::Null);
        assert_eq!(rows.value(10, 0), ValueRef::Null);
        let mut twice = rows.clone();
        twice.append(&rows).unwrap();
        assert_eq!(twice.len(), 20);
        assert!((0..20).all(|row| twice.row(row).eq(rows.row(row % 10))));
        assert!(twice.append(&Rows::new(2)).is_err());
        let mut copy = Rows::new(2);
        copy.push_row(&rows, 4).unwrap();
        assert_eq!(copy.row(0).collect::<Vec<_>>(), [ValueRef::Int(4), ValueRef::Text("ääää")]);
    }
}
