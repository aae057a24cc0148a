use crate::error::{Class, Error, Result};
use crate::schema::TableDefinition;
use crate::types::{DataType, Decimal, ValueRef};

/// How the rows of a table are written.
///
/// ```text
/// image := nulls (1 bit per column) | fixed part | texts and bytes, in the order of their columns
///
/// fixed part: BOOLEAN 1, SMALLINT 2, INTEGER and DATE 4, BIGINT, DOUBLE, TIMESTAMP and DECIMAL up to
///             18 digits 8, longer DECIMAL 16 bytes; of TEXT, VARCHAR and BYTEA the end of its bytes
///             behind the fixed part, 2 bytes where the definition bounds it, else 4
/// ```
///
/// All numbers are little-endian. An image is canonical: NULL has zeros in the fixed part and no bytes
/// behind it, and nothing is padded. So equal rows are equal bytes, wherever they come from, and an
/// image is also what snapshots and logs hold and what state hashes are made of.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<Field>,
    /// Bytes of nulls and fixed part.
    fixed: usize,
    /// Bytes of an end offset: 2 or 4.
    end_bytes: usize,
    /// Offsets of the ends, in order.
    ends: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Field {
    name: Box<str>,
    nullable: bool,
    kind: Kind,
    /// Offset in the image.
    at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Int2,
    Int4,
    Int8,
    Float,
    Date,
    Timestamp,
    Decimal8 {
        scale: u8,
    },
    Decimal16 {
        scale: u8,
    },
    /// The n-th of the variable columns.
    Text(usize),
    Bytes(usize),
}

/// Decimals of up to this many digits fit into 64 bits.
const DIGITS_IN_8_BYTES: u8 = 18;

impl Kind {
    fn new(data_type: DataType, variable: usize) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::SmallInt => Self::Int2,
            DataType::Integer => Self::Int4,
            DataType::BigInt => Self::Int8,
            DataType::Double => Self::Float,
            DataType::Date => Self::Date,
            DataType::Timestamp => Self::Timestamp,
            DataType::Decimal { precision, scale } if precision <= DIGITS_IN_8_BYTES => Self::Decimal8 { scale },
            DataType::Decimal { scale, .. } => Self::Decimal16 { scale },
            DataType::Text | DataType::Varchar(_) => Self::Text(variable),
            DataType::Bytea => Self::Bytes(variable),
            DataType::Numeric => return Err(Error::internal("a column of type NUMERIC without precision")),
        })
    }

    fn width(self, end_bytes: usize) -> usize {
        match self {
            Self::Boolean => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Date => 4,
            Self::Int8 | Self::Float | Self::Timestamp | Self::Decimal8 { .. } => 8,
            Self::Decimal16 { .. } => 16,
            Self::Text(_) | Self::Bytes(_) => end_bytes,
        }
    }
}

/// The most bytes that values of a variable type take, if there is a bound.
fn bytes_max(data_type: DataType) -> Option<usize> {
    match data_type {
        // A character of UTF-8 has up to four bytes.
        DataType::Varchar(characters) => Some(4 * characters as usize),
        DataType::Text | DataType::Bytea => None,
        _ => Some(0),
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// False if there are not that many bytes.
#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: usize, part: [u8; N]) -> bool {
    let place = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
    place.map(|place| *place = part).is_some()
}

fn put_slice(bytes: &mut [u8], at: usize, part: &[u8]) {
    if let Some(bytes) = bytes.get_mut(at..at + part.len()) {
        bytes.copy_from_slice(part);
    }
}

#[inline]
fn is_null(image: &[u8], column: usize) -> bool {
    image.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1)
}

#[inline]
fn set_null(image: &mut [u8], column: usize, null: bool) {
    if let Some(byte) = image.get_mut(column / 8) {
        *byte = *byte & !(1 << (column % 8)) | u8::from(null) << (column % 8);
    }
}

impl Layout {
    /// The layout of a table's rows.
    pub fn new(table: &TableDefinition) -> Result<Self> {
        let bound: Option<usize> = table.columns.iter().map(|column| bytes_max(column.data_type)).sum();
        let end_bytes = if bound.is_some_and(|bytes| bytes <= u16::MAX as usize) { 2 } else { 4 };
        let mut at = table.columns.len().div_ceil(8);
        let (mut columns, mut ends) = (Vec::with_capacity(table.columns.len()), Vec::new());
        for column in &table.columns {
            let kind = Kind::new(column.data_type, ends.len())?;
            if matches!(kind, Kind::Text(_) | Kind::Bytes(_)) {
                ends.push(at);
            }
            columns.push(Field { name: column.name.clone(), nullable: column.nullable, kind, at });
            at += kind.width(end_bytes);
        }
        Ok(Self { columns, fixed: at, end_bytes, ends })
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of every image, if all have the same.
    pub fn length(&self) -> Option<usize> {
        self.ends.is_empty().then_some(self.fixed)
    }

    /// Where the n-th variable column ends.
    fn end(&self, image: &[u8], variable: usize) -> usize {
        let Some(at) = self.ends.get(variable) else { return 0 };
        if self.end_bytes == 2 {
            chunk(image, *at).map_or(0, |end| u16::from_le_bytes(end) as usize)
        } else {
            chunk(image, *at).map_or(0, |end| u32::from_le_bytes(end) as usize)
        }
    }

    fn range(&self, image: &[u8], variable: usize) -> std::ops::Range<usize> {
        let start = if variable == 0 { 0 } else { self.end(image, variable - 1) };
        self.fixed + start..self.fixed + self.end(image, variable)
    }

    fn put_end(&self, image: &mut [u8], variable: usize, end: usize) {
        let Some(at) = self.ends.get(variable) else { return };
        if self.end_bytes == 2 {
            put(image, *at, (end as u16).to_le_bytes());
        } else {
            put(image, *at, (end as u32).to_le_bytes());
        }
    }

    /// Writes the image of the row with these values.
    pub fn encode<'a>(&self, image: &mut Vec<u8>, value: impl Fn(usize) -> ValueRef<'a>) -> Result<()> {
        image.clear();
        image.resize(self.fixed, 0);
        for (position, field) in self.columns.iter().enumerate() {
            let value = value(position);
            match (field.kind, value) {
                (Kind::Text(variable), ValueRef::Text(text)) => {
                    image.extend_from_slice(text.as_bytes());
                    let end = image.len() - self.fixed;
                    self.put_end(image, variable, end);
                }
                (Kind::Bytes(variable), ValueRef::Bytes(bytes)) => {
                    image.extend_from_slice(bytes);
                    let end = image.len() - self.fixed;
                    self.put_end(image, variable, end);
                }
                (kind, ValueRef::Null) => {
                    if !field.nullable {
                        let name = &field.name;
                        return Err(
                            Class::NotNullViolation.error(format_args!("NULL in column \"{name}\", which is NOT NULL"))
                        );
                    }
                    set_null(image, position, true);
                    if let Kind::Text(variable) | Kind::Bytes(variable) = kind {
                        let end = image.len() - self.fixed;
                        self.put_end(image, variable, end);
                    }
                }
                (_, value) => field.put_fixed(image, value)?,
            }
        }
        if self.end_bytes == 2 && image.len() - self.fixed > u16::MAX as usize {
            return Err(Error::internal("texts that are longer than their columns"));
        }
        Ok(())
    }

    /// Writes the changed values into an image, if that leaves all others where they are; else `false`,
    /// and the image is as it was.
    pub fn patch(&self, image: &mut [u8], changes: &[(usize, ValueRef<'_>)]) -> Result<bool> {
        for (position, value) in changes {
            let Some(field) = self.columns.get(*position) else { return Ok(false) };
            let fits = match (field.kind, value) {
                (Kind::Text(variable), ValueRef::Text(text)) => {
                    !is_null(image, *position) && self.range(image, variable).len() == text.len()
                }
                (Kind::Bytes(variable), ValueRef::Bytes(bytes)) => {
                    !is_null(image, *position) && self.range(image, variable).len() == bytes.len()
                }
                (Kind::Text(_) | Kind::Bytes(_), _) => false,
                (_, ValueRef::Null) => field.nullable,
                (_, value) => field.accepts(*value),
            };
            if !fits {
                return Ok(false);
            }
        }
        for (position, value) in changes {
            let Some(field) = self.columns.get(*position) else { return Ok(false) };
            match (field.kind, value) {
                (Kind::Text(variable), ValueRef::Text(text)) => {
                    let at = self.range(image, variable).start;
                    put_slice(image, at, text.as_bytes());
                }
                (Kind::Bytes(variable), ValueRef::Bytes(bytes)) => {
                    let at = self.range(image, variable).start;
                    put_slice(image, at, bytes);
                }
                (kind, ValueRef::Null) => {
                    set_null(image, *position, true);
                    if let Some(bytes) = image.get_mut(field.at..field.at + kind.width(self.end_bytes)) {
                        bytes.fill(0);
                    }
                }
                (_, value) => {
                    if field.nullable {
                        set_null(image, *position, false);
                    }
                    field.put_fixed(image, *value)?;
                }
            }
        }
        Ok(true)
    }

    /// Checks that bytes from outside are an image of this layout: every value can be read, and they are
    /// the bytes that encoding these values would give.
    pub fn validate(&self, image: &[u8]) -> Result<()> {
        let wrong = || Error::Corrupt("the bytes of a row do not fit its table's columns".into());
        let mut end = self.fixed;
        for variable in 0..self.ends.len() {
            let range = self.range(image, variable);
            if range.start != end || range.end < range.start {
                return Err(wrong());
            }
            end = range.end;
        }
        if end != image.len() {
            return Err(wrong());
        }
        let row = Row { layout: self, image };
        for (position, field) in self.columns.iter().enumerate() {
            if let Kind::Text(variable) = field.kind
                && image.get(self.range(image, variable)).is_none_or(|text| std::str::from_utf8(text).is_err())
            {
                return Err(wrong());
            }
            if row.is_null(position) && !field.nullable {
                return Err(wrong());
            }
        }
        let mut again = Vec::with_capacity(image.len());
        self.encode(&mut again, |position| row.value(position))?;
        if again == image { Ok(()) } else { Err(wrong()) }
    }
}

impl Field {
    /// Can [`Field::put_fixed`] write the value?
    fn accepts(&self, value: ValueRef<'_>) -> bool {
        match (self.kind, value) {
            (Kind::Boolean, ValueRef::Boolean(_))
            | (Kind::Int8, ValueRef::Int(_))
            | (Kind::Float, ValueRef::Float(_))
            | (Kind::Date, ValueRef::Date(_))
            | (Kind::Timestamp, ValueRef::Timestamp(_)) => true,
            (Kind::Int2, ValueRef::Int(number)) => i16::try_from(number).is_ok(),
            (Kind::Int4, ValueRef::Int(number)) => i32::try_from(number).is_ok(),
            (Kind::Decimal8 { scale }, ValueRef::Decimal(number)) => {
                number.scale() == scale && i64::try_from(number.units()).is_ok()
            }
            (Kind::Decimal16 { scale }, ValueRef::Decimal(number)) => number.scale() == scale,
            _ => false,
        }
    }

    #[inline]
    fn put_fixed(&self, image: &mut [u8], value: ValueRef<'_>) -> Result<()> {
        let at = self.at;
        let written = match (self.kind, value) {
            (Kind::Boolean, ValueRef::Boolean(value)) => put(image, at, [value.into()]),
            (Kind::Int2, ValueRef::Int(number)) => {
                i16::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
            }
            (Kind::Int4, ValueRef::Int(number)) => {
                i32::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
            }
            (Kind::Int8, ValueRef::Int(number)) => put(image, at, number.to_le_bytes()),
            (Kind::Float, ValueRef::Float(number)) => put(image, at, number.to_bits().to_le_bytes()),
            (Kind::Date, ValueRef::Date(days)) => put(image, at, days.to_le_bytes()),
            (Kind::Timestamp, ValueRef::Timestamp(micros)) => put(image, at, micros.to_le_bytes()),
            (Kind::Decimal8 { scale }, ValueRef::Decimal(number)) if number.scale() == scale => {
                i64::try_from(number.units()).is_ok_and(|units| put(image, at, units.to_le_bytes()))
            }
            (Kind::Decimal16 { scale }, ValueRef::Decimal(number)) if number.scale() == scale => {
                put(image, at, number.units().to_le_bytes())
            }
            _ => false,
        };
        if written { Ok(()) } else { Err(self.unfit(value)) }
    }

    #[cold]
    fn unfit(&self, value: ValueRef<'_>) -> Error {
        Error::internal(format_args!("value {value} for column \"{}\"", self.name))
    }
}

/// A row in memory, borrowed from its table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    layout: &'a Layout,
    image: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row of an image of this layout.
    pub fn new(layout: &'a Layout, image: &'a [u8]) -> Self {
        Self { layout, image }
    }

    /// The row's bytes, which are the same wherever the row came from.
    pub fn image(self) -> &'a [u8] {
        self.image
    }

    /// Number of columns.
    pub fn columns(self) -> usize {
        self.layout.columns()
    }

    /// Is the column NULL?
    #[inline]
    pub fn is_null(self, column: usize) -> bool {
        is_null(self.image, column)
    }

    /// The value of a column; NULL for a column that the table does not have.
    #[inline]
    pub fn value(self, column: usize) -> ValueRef<'a> {
        if self.is_null(column) {
            return ValueRef::Null;
        }
        self.not_null(column).unwrap_or(ValueRef::Null)
    }

    #[inline]
    fn not_null(self, column: usize) -> Option<ValueRef<'a>> {
        let field = self.layout.columns.get(column)?;
        let (image, at) = (self.image, field.at);
        Some(match field.kind {
            Kind::Boolean => ValueRef::Boolean(*image.get(at)? != 0),
            Kind::Int2 => ValueRef::Int(i16::from_le_bytes(chunk(image, at)?).into()),
            Kind::Int4 => ValueRef::Int(i32::from_le_bytes(chunk(image, at)?).into()),
            Kind::Int8 => ValueRef::Int(i64::from_le_bytes(chunk(image, at)?)),
            Kind::Float => ValueRef::Float(f64::from_bits(u64::from_le_bytes(chunk(image, at)?))),
            Kind::Date => ValueRef::Date(i32::from_le_bytes(chunk(image, at)?)),
            Kind::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(chunk(image, at)?)),
            Kind::Decimal8 { scale } => {
                ValueRef::Decimal(Decimal::new(i64::from_le_bytes(chunk(image, at)?).into(), scale).ok()?)
            }
            Kind::Decimal16 { scale } => {
                ValueRef::Decimal(Decimal::new(i128::from_le_bytes(chunk(image, at)?), scale).ok()?)
            }
            Kind::Text(variable) => {
                ValueRef::Text(std::str::from_utf8(image.get(self.layout.range(image, variable))?).ok()?)
            }
            Kind::Bytes(variable) => ValueRef::Bytes(image.get(self.layout.range(image, variable))?),
        })
    }
}
