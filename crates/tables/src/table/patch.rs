//! Updates of fixed-width columns in place.

use smallvec::SmallVec;
use thermocline_types::{Result, ValueRef};

use super::layout::{Field, Kind, Layout, chunk, is_null, put, put_slice, set_null};

/// New values of columns of fixed width, encoded as in a row's image: an update in place, prepared while the row is
/// only read.
#[derive(Debug, Default)]
pub struct Patch(SmallVec<[Write; 4]>);

#[derive(Debug)]
struct Write {
    column: usize,
    field: Field,
    null: bool,
    /// The value, zero-padded.
    bytes: [u8; 16],
}

impl Patch {
    /// Adds the value of a column of fixed width. `convert` converts values that the column may not store unchanged:
    /// those that [`assign`](thermocline_types::assign) would change, some for which checking that takes longer, and
    /// NULL.
    #[inline]
    pub fn set<'v>(
        &mut self,
        layout: &Layout,
        column: usize,
        value: ValueRef<'v>,
        convert: impl FnOnce(ValueRef<'v>) -> Result<ValueRef<'v>>,
    ) -> Result<()> {
        let Some(field) = layout.field(column) else { return Err(layout.unfit(column, value)) };
        let (mut bytes, mut null) = ([0; 16], false);
        if !field.at_start().put_as_is(&mut bytes, value) {
            let value = convert(value)?;
            null = value.is_null() && field.nullable && !field.kind.is_variable();
            if !null && !field.at_start().put_fixed(&mut bytes, value) {
                return Err(layout.unfit(column, value));
            }
        }
        self.0.push(Write { column, field, null, bytes });
        Ok(())
    }

    /// Adds the integer of a column that can hold it.
    #[inline]
    pub fn set_integer(&mut self, IntegerPlace { column, field }: IntegerPlace, number: i64) {
        let mut bytes = [0; 16];
        IntegerPlace { column, field: field.at_start() }.put_number(&mut bytes, number);
        self.0.push(Write { column, field, null: false, bytes });
    }

    /// The changed columns, in order.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|write| write.column)
    }

    /// Writes the values into an image of the same layout.
    #[inline]
    pub(super) fn apply(&self, image: &mut [u8]) {
        for Write { column, field, null, bytes } in &self.0 {
            if field.nullable {
                set_null(image, *column, *null);
            }
            let (at, width) = (field.at(), field.kind.width());
            match bytes.first_chunk() {
                Some(bytes) if width == 4 => _ = put::<4>(image, at, *bytes),
                _ => put_slice(image, at, bytes.get(..width).unwrap_or_default()),
            }
        }
    }
}

/// Place of a column's integer in a row's image.
#[derive(Debug, Clone, Copy)]
pub struct IntegerPlace {
    pub(super) column: usize,
    /// A field of one of the three integer types.
    pub(super) field: Field,
}

impl IntegerPlace {
    /// The integer in an image; `None` if it is NULL.
    #[inline]
    pub fn get(self, image: &[u8]) -> Option<i64> {
        let Self { column, field } = self;
        if field.nullable && is_null(image, column) {
            return None;
        }
        match field.kind {
            Kind::Int2 => Some(i16::from_le_bytes(chunk(image, field.at())?).into()),
            Kind::Int4 => Some(i32::from_le_bytes(chunk(image, field.at())?).into()),
            _ => Some(i64::from_le_bytes(chunk(image, field.at())?)),
        }
    }

    /// Whether the column can hold this integer.
    #[inline]
    pub fn holds(self, number: i64) -> bool {
        match self.field.kind {
            Kind::Int2 => i16::try_from(number).is_ok(),
            Kind::Int4 => i32::try_from(number).is_ok(),
            _ => true,
        }
    }

    /// Writes an integer that the column can hold.
    #[inline]
    pub(super) fn put(self, image: &mut [u8], number: i64) {
        let Self { column, field } = self;
        if field.nullable {
            set_null(image, column, false);
        }
        self.put_number(image, number);
    }

    #[inline]
    fn put_number(self, image: &mut [u8], number: i64) {
        let field = self.field;
        match field.kind {
            Kind::Int2 => put(image, field.at(), (number as i16).to_le_bytes()),
            Kind::Int4 => put(image, field.at(), (number as i32).to_le_bytes()),
            _ => put(image, field.at(), number.to_le_bytes()),
        };
    }
}
