//! Rows read in place, without decoding them as a whole.

use thermocline_types::{Decimal, Interval, ValueRef};

use super::layout::{Kind, Layout, chunk, is_null};

/// A row in memory, borrowed from its table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    layout: &'a Layout,
    image: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row of an image of this layout.
    #[inline]
    pub fn new(layout: &'a Layout, image: &'a [u8]) -> Self {
        Self { layout, image }
    }

    /// The row's bytes, which do not depend on where the row came from.
    #[inline]
    pub fn image(self) -> &'a [u8] {
        self.image
    }

    /// Number of columns.
    pub fn columns(self) -> usize {
        self.layout.columns()
    }

    /// Whether the column is NULL.
    #[inline]
    pub fn is_null(self, column: usize) -> bool {
        is_null(self.image, column)
    }

    /// The value of a column; NULL for a column that the table does not have.
    #[inline]
    pub fn value(self, column: usize) -> ValueRef<'a> {
        match self.cell(column) {
            Cell::Value(value) => value,
            Cell::Text(text) => std::str::from_utf8(text).map_or(ValueRef::Null, ValueRef::Text),
        }
    }

    /// Value of a column, with text as bytes.
    #[inline(always)]
    pub fn cell(self, column: usize) -> Cell<'a> {
        self.not_null(column).unwrap_or(Cell::Value(ValueRef::Null))
    }

    /// The value of a column of integers; `None` for NULL, and for a column of another type.
    #[inline]
    pub fn integer(self, column: usize) -> Option<i64> {
        let field = self.layout.field(column)?;
        if field.nullable && self.is_null(column) {
            return None;
        }
        match field.kind {
            Kind::Int2 => Some(i16::from_le_bytes(chunk(self.image, field.at())?).into()),
            Kind::Int4 => Some(i32::from_le_bytes(chunk(self.image, field.at())?).into()),
            Kind::Int8 => Some(i64::from_le_bytes(chunk(self.image, field.at())?)),
            _ => None,
        }
    }

    #[inline(always)]
    fn not_null(self, column: usize) -> Option<Cell<'a>> {
        let field = self.layout.field(column)?;
        if field.nullable && self.is_null(column) {
            return None;
        }
        let (image, at) = (self.image, field.at());
        Some(Cell::Value(match field.kind {
            Kind::Boolean => ValueRef::Boolean(*image.get(at)? != 0),
            Kind::Int2 => ValueRef::Int(i16::from_le_bytes(chunk(image, at)?).into()),
            Kind::Int4 => ValueRef::Int(i32::from_le_bytes(chunk(image, at)?).into()),
            Kind::Int8 => ValueRef::Int(i64::from_le_bytes(chunk(image, at)?)),
            Kind::Real => ValueRef::Real(f32::from_bits(u32::from_le_bytes(chunk(image, at)?))),
            Kind::Float => ValueRef::Float(f64::from_bits(u64::from_le_bytes(chunk(image, at)?))),
            Kind::Date => ValueRef::Date(i32::from_le_bytes(chunk(image, at)?)),
            Kind::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(chunk(image, at)?)),
            Kind::TimestampTz => ValueRef::TimestampTz(i64::from_le_bytes(chunk(image, at)?)),
            Kind::Interval => ValueRef::Interval(Interval::from_le_bytes(chunk(image, at)?)),
            Kind::Uuid => ValueRef::Uuid(chunk(image, at)?),
            Kind::Decimal8 { scale, .. } => {
                ValueRef::Decimal(Decimal::of_units(i64::from_le_bytes(chunk(image, at)?), scale)?)
            }
            Kind::Decimal16 { scale, .. } => {
                ValueRef::Decimal(Decimal::new(i128::from_le_bytes(chunk(image, at)?), scale).ok()?)
            }
            Kind::Text => return Some(Cell::Text(self.layout.bytes_of(image, field)?)),
            Kind::Bytes => ValueRef::Bytes(self.layout.bytes_of(image, field)?),
            Kind::Jsonb => ValueRef::Jsonb(std::str::from_utf8(self.layout.bytes_of(image, field)?).ok()?),
        }))
    }
}

/// A value as stored in a row.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'a> {
    /// Of any type but text.
    Value(ValueRef<'a>),
    /// UTF-8, because images contain no other text: they are encoded from texts, and bytes from outside are
    /// [validated](Layout::validate).
    Text(&'a [u8]),
}
