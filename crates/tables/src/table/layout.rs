//! Encoding of rows as images: places of columns, and conversion from and to values.

use std::ops::Range;

use thermocline_types::{Class, DataType, Decimal, Error, Result, ValueRef, json};

use super::patch::IntegerPlace;
use crate::schema::TableDefinition;

/// Encoding of the rows of a table.
///
/// ```text
/// image := nulls (1 bit per column) | fixed part | texts and bytes, in the order of their columns
///
/// fixed part: BOOLEAN 1, SMALLINT 2, INTEGER, REAL and DATE 4, BIGINT, DOUBLE, TIMESTAMP with and without
///             time zone and DECIMAL up to 18 digits 8, INTERVAL, UUID and longer DECIMAL 16
///             bytes; of TEXT, VARCHAR, CHAR, JSONB and BYTEA the end of its bytes behind the fixed part,
///             2 bytes where the definition bounds all of them to 65 535 bytes, else 4
/// ```
///
/// All numbers are little-endian. An image is canonical: NULL has zeros in the fixed part and no bytes after it, and
/// there is no padding. So equal rows have equal bytes, wherever they come from; snapshots, logs and state hashes use
/// the image as well.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<Field>,
    names: Vec<Box<str>>,
    /// Bytes of nulls and fixed part.
    fixed: usize,
    /// Whether an end offset has 2 bytes instead of 4.
    short_ends: bool,
    /// Number of variable columns.
    variable: usize,
}

/// Place of a column, and the values that it stores unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub kind: Kind,
    pub nullable: bool,
    /// Offset in the image: of the value, or of the end of a variable one.
    at: u32,
    /// Offset of the end of the variable column before this one; 0, where no end is, for the first.
    before: u32,
    /// Bytes of text that cannot exceed the column's number of characters.
    bytes_max: u32,
}

impl Field {
    #[inline]
    pub fn at(self) -> usize {
        self.at as usize
    }

    #[inline]
    pub fn bytes_max(self) -> usize {
        self.bytes_max as usize
    }

    /// The same field in an image that consists of it alone.
    #[inline]
    pub fn at_start(self) -> Self {
        Self { at: 0, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Int2,
    Int4,
    Int8,
    Real,
    Float,
    Date,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Decimal8 { precision: u8, scale: u8 },
    Decimal16 { precision: u8, scale: u8 },
    Text,
    Bytes,
    Jsonb,
}

/// Decimals of up to this many digits fit into 64 bits.
const DIGITS_IN_8_BYTES: u8 = 18;

impl Kind {
    fn new(data_type: DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::SmallInt => Self::Int2,
            DataType::Integer => Self::Int4,
            DataType::BigInt => Self::Int8,
            DataType::Real => Self::Real,
            DataType::Double => Self::Float,
            DataType::Date => Self::Date,
            DataType::Timestamp => Self::Timestamp,
            DataType::TimestampTz => Self::TimestampTz,
            DataType::Interval => Self::Interval,
            DataType::Uuid => Self::Uuid,
            DataType::Decimal { precision, scale } if precision <= DIGITS_IN_8_BYTES => {
                Self::Decimal8 { precision, scale }
            }
            DataType::Decimal { precision, scale } => Self::Decimal16 { precision, scale },
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => Self::Text,
            DataType::Bytea => Self::Bytes,
            DataType::Jsonb => Self::Jsonb,
            DataType::Numeric => return Err(Error::internal("a column of type NUMERIC without precision")),
        })
    }

    pub const fn is_variable(self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Jsonb)
    }

    /// Bytes in the fixed part, for a type that is not variable.
    pub const fn width(self) -> usize {
        match self {
            Self::Boolean => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Real | Self::Date => 4,
            Self::Int8 | Self::Float | Self::Timestamp | Self::TimestampTz | Self::Decimal8 { .. } => 8,
            Self::Decimal16 { .. } | Self::Interval | Self::Uuid => 16,
            Self::Text | Self::Bytes | Self::Jsonb => 0,
        }
    }
}

/// Maximum bytes of values of a variable type, if bounded.
fn bytes_max(data_type: DataType) -> Option<usize> {
    match data_type {
        // A character of UTF-8 has up to four bytes.
        DataType::Varchar(characters) | DataType::Char(characters) => Some(4 * characters as usize),
        DataType::Text | DataType::Bytea | DataType::Jsonb => None,
        _ => Some(0),
    }
}

#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns false if there are not that many bytes.
#[inline]
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, part: [u8; N]) -> bool {
    let place = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
    place.map(|place| *place = part).is_some()
}

pub(super) fn put_slice(bytes: &mut [u8], at: usize, part: &[u8]) {
    if let Some(bytes) = bytes.get_mut(at..at + part.len()) {
        bytes.copy_from_slice(part);
    }
}

#[inline]
pub(super) fn is_null(image: &[u8], column: usize) -> bool {
    image.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1)
}

#[inline]
pub(super) fn set_null(image: &mut [u8], column: usize, null: bool) {
    if let Some(byte) = image.get_mut(column / 8) {
        *byte = *byte & !(1 << (column % 8)) | u8::from(null) << (column % 8);
    }
}

impl Layout {
    /// The layout of a table's rows.
    pub fn new(table: &TableDefinition) -> Result<Self> {
        let bound: Option<usize> = table.columns.iter().map(|column| bytes_max(column.data_type)).sum();
        let short_ends = bound.is_some_and(|bytes| bytes <= u16::MAX as usize);
        let too_wide = |_| Error::internal("a row whose fixed part is longer than any row");
        let mut at = u32::try_from(table.columns.len().div_ceil(8)).map_err(too_wide)?;
        let mut columns = Vec::with_capacity(table.columns.len());
        let (mut before, mut variable) = (0, 0);
        for column in &table.columns {
            let kind = Kind::new(column.data_type)?;
            let bytes_max = match column.data_type {
                DataType::Varchar(characters) => characters,
                // Longer values may end with blanks.
                DataType::Char(_) => 0,
                _ => u32::MAX,
            };
            columns.push(Field { kind, nullable: column.nullable, at, before, bytes_max });
            if kind.is_variable() {
                before = at;
                variable += 1;
                at += if short_ends { 2 } else { 4 };
            } else {
                at += kind.width() as u32;
            }
        }
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Self { columns, names, fixed: at as usize, short_ends, variable })
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Length of every image, if all have the same.
    pub fn length(&self) -> Option<usize> {
        (self.variable == 0).then_some(self.fixed)
    }

    #[inline]
    pub(super) fn field(&self, column: usize) -> Option<Field> {
        self.columns.get(column).copied()
    }

    /// Place of a column's integer; `None` for a column of another type.
    pub fn integer_place(&self, column: usize) -> Option<IntegerPlace> {
        let field = self.field(column)?;
        matches!(field.kind, Kind::Int2 | Kind::Int4 | Kind::Int8).then_some(IntegerPlace { column, field })
    }

    /// The offsets of these columns, if all are of type INTEGER and never NULL.
    pub(super) fn integers_at(&self, columns: impl Iterator<Item = usize>) -> Option<Box<[usize]>> {
        let offset = |column| {
            let field = self.field(column)?;
            (field.kind == Kind::Int4 && !field.nullable).then(|| field.at())
        };
        columns.map(offset).collect()
    }

    /// The end stored at this offset.
    #[inline]
    fn end(&self, image: &[u8], at: u32) -> usize {
        if self.short_ends {
            chunk(image, at as usize).map_or(0, |end| u16::from_le_bytes(end) as usize)
        } else {
            chunk(image, at as usize).map_or(0, |end| u32::from_le_bytes(end) as usize)
        }
    }

    /// Range of the bytes of a variable column.
    #[inline]
    fn range(&self, image: &[u8], field: Field) -> Range<usize> {
        let start = if field.before == 0 { 0 } else { self.end(image, field.before) };
        self.fixed + start..self.fixed + self.end(image, field.at)
    }

    /// The bytes of a variable column.
    #[inline(always)]
    pub(super) fn bytes_of<'a>(&self, image: &'a [u8], field: Field) -> Option<&'a [u8]> {
        image.get(self.range(image, field))
    }

    #[inline]
    pub(super) fn put_end(&self, image: &mut [u8], field: Field) {
        let end = image.len() - self.fixed;
        if self.short_ends {
            put(image, field.at(), (end as u16).to_le_bytes());
        } else {
            put(image, field.at(), (end as u32).to_le_bytes());
        }
    }

    /// Writes the image of a row with these values, which have the columns' types.
    pub fn encode<'a>(&self, image: &mut Vec<u8>, value: impl Fn(usize) -> ValueRef<'a>) -> Result<()> {
        image.clear();
        image.resize(self.fixed, 0);
        (0..self.columns.len()).try_for_each(|position| self.encode_one(image, position, value(position)))?;
        self.check_length(image)
    }

    /// [`Layout::encode`] with some of the columns: others get an arbitrary value, in columns that may be NULL a NULL.
    pub(super) fn encode_some<'a>(
        &self,
        image: &mut Vec<u8>,
        value: impl Fn(usize) -> Option<ValueRef<'a>>,
    ) -> Result<()> {
        image.clear();
        image.resize(self.fixed, 0);
        for (position, field) in self.columns.iter().enumerate() {
            match value(position) {
                Some(value) => self.encode_one(image, position, value)?,
                None if field.nullable => self.encode_one(image, position, ValueRef::Null)?,
                None if field.kind.is_variable() => self.put_end(image, *field),
                None => {}
            }
        }
        self.check_length(image)
    }

    #[inline]
    pub(super) fn check_length(&self, image: &[u8]) -> Result<()> {
        if self.short_ends && image.len() - self.fixed > u16::MAX as usize {
            return Err(Error::internal("texts that are longer than their columns"));
        }
        Ok(())
    }

    /// Bytes of nulls and fixed part.
    #[inline]
    pub fn fixed_bytes(&self) -> usize {
        self.fixed
    }

    /// Appends the value of one column to an image that has the earlier ones.
    pub(super) fn encode_one(&self, image: &mut Vec<u8>, position: usize, value: ValueRef<'_>) -> Result<()> {
        let Some(field) = self.field(position) else { return Ok(()) };
        match (field.kind, value) {
            (Kind::Text, ValueRef::Text(text)) | (Kind::Jsonb, ValueRef::Jsonb(text)) => {
                image.extend_from_slice(text.as_bytes());
                self.put_end(image, field);
            }
            (Kind::Bytes, ValueRef::Bytes(bytes)) => {
                image.extend_from_slice(bytes);
                self.put_end(image, field);
            }
            (kind, ValueRef::Null) => {
                if !field.nullable {
                    let name = self.name(position);
                    let message = format!("NULL in column \"{name}\", which is NOT NULL");
                    return Err(Class::NotNullViolation.error(message));
                }
                set_null(image, position, true);
                if kind.is_variable() {
                    self.put_end(image, field);
                }
            }
            (_, value) => self.put_fixed(image, position, field, value)?,
        }
        Ok(())
    }

    fn name(&self, position: usize) -> &str {
        self.names.get(position).map_or("", |name| name)
    }

    fn put_fixed(&self, image: &mut [u8], position: usize, field: Field, value: ValueRef<'_>) -> Result<()> {
        if field.put_fixed(image, value) { Ok(()) } else { Err(self.unfit(position, value)) }
    }

    #[cold]
    pub(super) fn unfit(&self, position: usize, value: ValueRef<'_>) -> Error {
        Error::internal(format_args!("value {value} for column \"{}\"", self.name(position)))
    }

    /// Writes the changed values into an image if all others keep their place; otherwise returns `false` and leaves the
    /// image unchanged.
    pub fn patch(&self, image: &mut [u8], changes: &[(usize, ValueRef<'_>)]) -> Result<bool> {
        for (position, value) in changes {
            let Some(field) = self.columns.get(*position) else { return Ok(false) };
            let fits = match (field.kind, value) {
                (Kind::Text, ValueRef::Text(text)) | (Kind::Jsonb, ValueRef::Jsonb(text)) => {
                    !is_null(image, *position) && self.range(image, *field).len() == text.len()
                }
                (Kind::Bytes, ValueRef::Bytes(bytes)) => {
                    !is_null(image, *position) && self.range(image, *field).len() == bytes.len()
                }
                (Kind::Text | Kind::Bytes | Kind::Jsonb, _) => false,
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
                (Kind::Text, ValueRef::Text(text)) | (Kind::Jsonb, ValueRef::Jsonb(text)) => {
                    let at = self.range(image, *field).start;
                    put_slice(image, at, text.as_bytes());
                }
                (Kind::Bytes, ValueRef::Bytes(bytes)) => {
                    let at = self.range(image, *field).start;
                    put_slice(image, at, bytes);
                }
                (kind, ValueRef::Null) => {
                    set_null(image, *position, true);
                    if let Some(bytes) = image.get_mut(field.at()..field.at() + kind.width()) {
                        bytes.fill(0);
                    }
                }
                (_, value) => {
                    if field.nullable {
                        set_null(image, *position, false);
                    }
                    self.put_fixed(image, *position, *field, *value)?;
                }
            }
        }
        Ok(true)
    }

    /// Checks that bytes from outside are an image of this layout: every value can be read, and encoding the values
    /// would give the same bytes.
    pub fn validate(&self, image: &[u8]) -> Result<()> {
        let wrong = || Error::Corrupt("the bytes of a row do not fit its table's columns".into());
        let mut end = self.fixed;
        for field in self.columns.iter().filter(|field| field.kind.is_variable()) {
            let range = self.range(image, *field);
            if range.start != end || range.end < range.start {
                return Err(wrong());
            }
            end = range.end;
        }
        if end != image.len() {
            return Err(wrong());
        }
        // Unused bits.
        let bits = self.columns.len();
        let beyond = !bits.is_multiple_of(8) && image.get(bits / 8).is_some_and(|byte| byte >> (bits % 8) != 0);
        let is_canonical = |(position, field): (usize, &Field)| {
            if is_null(image, position) {
                self.is_canonical_null(image, *field)
            } else {
                self.is_canonical(image, *field)
            }
        };
        if beyond || !self.columns.iter().enumerate().all(is_canonical) {
            return Err(wrong());
        }
        Ok(())
    }

    /// Whether a NULL is written in its canonical form.
    fn is_canonical_null(&self, image: &[u8], field: Field) -> bool {
        let is_zero = |place: Range<usize>| image.get(place).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        field.nullable
            && match field.kind.is_variable() {
                true => self.range(image, field).is_empty(),
                false => is_zero(field.at()..field.at() + field.kind.width()),
            }
    }

    /// Whether the bytes of a value are its canonical encoding.
    fn is_canonical(&self, image: &[u8], field: Field) -> bool {
        let at = field.at();
        match field.kind {
            Kind::Boolean => image.get(at).is_some_and(|byte| *byte <= 1),
            Kind::Text => self.bytes_of(image, field).is_some_and(|text| std::str::from_utf8(text).is_ok()),
            Kind::Jsonb => {
                let text = self.bytes_of(image, field).and_then(|bytes| std::str::from_utf8(bytes).ok());
                text.is_some_and(|text| json::normalize(text).is_ok_and(|canonical| canonical == text))
            }
            Kind::Decimal16 { scale, .. } => {
                chunk(image, at).is_some_and(|bytes| Decimal::new(i128::from_le_bytes(bytes), scale).is_ok())
            }
            // Any bits are a value of the type.
            Kind::Int2
            | Kind::Int4
            | Kind::Int8
            | Kind::Real
            | Kind::Float
            | Kind::Date
            | Kind::Timestamp
            | Kind::TimestampTz
            | Kind::Interval
            | Kind::Uuid
            | Kind::Decimal8 { .. }
            | Kind::Bytes => true,
        }
    }
}

impl Field {
    /// Whether [`Field::put_fixed`] can write the value.
    fn accepts(&self, value: ValueRef<'_>) -> bool {
        match (self.kind, value) {
            (Kind::Boolean, ValueRef::Boolean(_))
            | (Kind::Int8, ValueRef::Int(_))
            | (Kind::Real, ValueRef::Real(_))
            | (Kind::Float, ValueRef::Float(_))
            | (Kind::Date, ValueRef::Date(_))
            | (Kind::Timestamp, ValueRef::Timestamp(_))
            | (Kind::TimestampTz, ValueRef::TimestampTz(_))
            | (Kind::Interval, ValueRef::Interval(_))
            | (Kind::Uuid, ValueRef::Uuid(_)) => true,
            (Kind::Int2, ValueRef::Int(number)) => i16::try_from(number).is_ok(),
            (Kind::Int4, ValueRef::Int(number)) => i32::try_from(number).is_ok(),
            (Kind::Decimal8 { scale, .. }, ValueRef::Decimal(number)) => {
                number.scale() == scale && i64::try_from(number.units()).is_ok()
            }
            (Kind::Decimal16 { scale, .. }, ValueRef::Decimal(number)) => number.scale() == scale,
            _ => false,
        }
    }

    /// The bytes of a fixed value as numbers: integers with their sign, and the second half of 16-byte values.
    #[inline]
    pub fn words(&self, image: &[u8]) -> (u64, Option<u64>) {
        let at = self.at();
        let eight = |at| chunk(image, at).map_or(0, u64::from_le_bytes);
        match self.kind.width() {
            1 => (image.get(at).copied().unwrap_or_default().into(), None),
            2 => (chunk(image, at).map_or(0, i16::from_le_bytes) as u64, None),
            4 => (chunk(image, at).map_or(0, i32::from_le_bytes) as u64, None),
            16 => (eight(at), Some(eight(at + 8))),
            _ => (eight(at), None),
        }
    }

    /// Writes a value that is certainly stored unchanged; returns false and writes nothing for any other.
    #[inline]
    pub fn put_as_is(&self, image: &mut [u8], value: ValueRef<'_>) -> bool {
        let at = self.at();
        match (self.kind, value) {
            (Kind::Int4, ValueRef::Int(number)) => {
                i32::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
            }
            (Kind::Int8, ValueRef::Int(number)) => put(image, at, number.to_le_bytes()),
            (Kind::Decimal8 { precision, .. }, ValueRef::Decimal(number)) => {
                number.has_digits_of(precision) && self.put_fixed(image, value)
            }
            // Unchanged: conversion between the two uses UTC.
            (Kind::Timestamp | Kind::TimestampTz, ValueRef::Timestamp(micros) | ValueRef::TimestampTz(micros)) => {
                put(image, at, micros.to_le_bytes())
            }
            _ => false,
        }
    }

    /// Writes a value of the column's type; returns false and writes nothing for any other.
    #[inline]
    pub fn put_fixed(&self, image: &mut [u8], value: ValueRef<'_>) -> bool {
        let at = self.at();
        match (self.kind, value) {
            (Kind::Boolean, ValueRef::Boolean(value)) => put(image, at, [value.into()]),
            (Kind::Int2, ValueRef::Int(number)) => {
                i16::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
            }
            (Kind::Int4, ValueRef::Int(number)) => {
                i32::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
            }
            (Kind::Int8, ValueRef::Int(number)) => put(image, at, number.to_le_bytes()),
            (Kind::Real, ValueRef::Real(number)) => put(image, at, number.to_bits().to_le_bytes()),
            (Kind::Float, ValueRef::Float(number)) => put(image, at, number.to_bits().to_le_bytes()),
            (Kind::Date, ValueRef::Date(days)) => put(image, at, days.to_le_bytes()),
            (Kind::Interval, ValueRef::Interval(span)) => put(image, at, span.to_le_bytes()),
            (Kind::Uuid, ValueRef::Uuid(uuid)) => put(image, at, uuid),
            (Kind::Timestamp, ValueRef::Timestamp(micros)) | (Kind::TimestampTz, ValueRef::TimestampTz(micros)) => {
                put(image, at, micros.to_le_bytes())
            }
            (Kind::Decimal8 { scale, .. }, ValueRef::Decimal(number)) if number.scale() == scale => {
                i64::try_from(number.units()).is_ok_and(|units| put(image, at, units.to_le_bytes()))
            }
            (Kind::Decimal16 { scale, .. }, ValueRef::Decimal(number)) if number.scale() == scale => {
                put(image, at, number.units().to_le_bytes())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::schema::{IndexKind, fixture};
    use crate::table::Row;

    /// An image is canonical if encoding its values gives its bytes.
    fn is_encoded(layout: &Layout, image: &[u8]) -> bool {
        let row = Row::new(layout, image);
        let mut again = Vec::new();
        let is_null = |column: usize| row.is_null(column) && !layout.columns[column].nullable;
        let texts = layout.columns.iter().filter(|field| field.kind == Kind::Text);
        let mut texts = texts.map(|field| layout.bytes_of(image, *field));
        !(0..layout.columns()).any(is_null)
            && texts.all(|text| text.is_some_and(|text| std::str::from_utf8(text).is_ok()))
            && layout.encode(&mut again, |column| row.value(column)).is_ok()
            && again == image
    }

    #[test]
    fn images_are_valid_exactly_if_they_are_what_encoding_gives() {
        let columns = [
            ("a", DataType::Boolean, false),
            ("b", DataType::Boolean, true),
            ("c", DataType::SmallInt, true),
            ("d", DataType::Integer, false),
            ("e", DataType::BigInt, true),
            ("f", DataType::Real, true),
            ("g", DataType::Double, true),
            ("h", DataType::Date, true),
            ("i", DataType::Timestamp, true),
            ("j", DataType::Interval, true),
            ("k", DataType::Decimal { precision: 10, scale: 2 }, true),
            ("l", DataType::Decimal { precision: 38, scale: 3 }, true),
            ("m", DataType::Varchar(9), true),
            ("n", DataType::Bytea, true),
            ("o", DataType::Varchar(4), false),
        ];
        let layout = Layout::new(&fixture::table(&columns, IndexKind::Hash, &["d"])).unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let (mut valid, mut invalid) = (0, 0);
        for round in 0..200_000 {
            let mut image = vec![0; layout.fixed];
            let mut end = 0;
            for (position, field) in layout.columns.iter().enumerate() {
                let null = field.nullable && random.random_bool(0.3);
                set_null(&mut image, position, null);
                if field.kind.is_variable() {
                    let text = ["", "a", "\u{e4}", "abcd"][if null { 0 } else { random.random_range(0..4) }];
                    image.extend_from_slice(text.as_bytes());
                    end += text.len();
                    layout.put_end(&mut image, *field);
                } else if !null {
                    let bytes: Vec<u8> = (0..field.kind.width()).map(|_| random.random()).collect();
                    let bytes = if field.kind == Kind::Boolean { vec![bytes[0] & 1] } else { bytes };
                    put_slice(&mut image, field.at(), &bytes);
                }
            }
            assert_eq!(end, image.len() - layout.fixed);
            for _ in 0..round % 3 {
                let at = random.random_range(0..image.len());
                image[at] ^= 1 << random.random_range(0..8);
            }
            if random.random_bool(0.02) {
                image.truncate(random.random_range(0..image.len()));
            }
            let is_valid = layout.validate(&image).is_ok();
            // Decreasing offsets have no values to encode.
            let mut before = layout.fixed;
            let mut variable = layout.columns.iter().filter(|field| field.kind.is_variable());
            let in_order = variable.all(|field| {
                let range = layout.range(&image, *field);
                let fits = range.start == before && range.end >= range.start;
                before = range.end;
                fits
            });
            let expected = in_order && before == image.len() && is_encoded(&layout, &image);
            assert_eq!(is_valid, expected, "{image:?}");
            if is_valid { valid += 1 } else { invalid += 1 }
        }
        assert!(valid > 50_000 && invalid > 50_000, "{valid} {invalid}");
    }
}
