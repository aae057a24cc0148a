use smallvec::SmallVec;

use super::layout::{Field, Layout, put, put_slice, set_null};
use crate::error::Result;
use crate::types::ValueRef;

/// New values of some columns of fixed width, as bytes of a row's image: what an update writes in place, made
/// while the row is still only read.
#[derive(Debug, Default)]
pub struct Patch(SmallVec<[Write; 4]>);

#[derive(Debug)]
struct Write {
    column: usize,
    field: Field,
    null: bool,
    /// The value, with zeros behind it.
    bytes: [u8; 16],
}

impl Patch {
    /// Adds the value of a column of fixed width. `convert` makes those that the column may not store as they are
    /// what it stores: those that [`assign`](crate::types::assign) would change, some for which that takes longer to
    /// see, and NULL.
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

    /// Adds the integer of a column; false if the column is not of integers or does not have this one.
    #[inline]
    pub fn set_integer(&mut self, layout: &Layout, column: usize, number: i64) -> bool {
        let Some(field) = layout.field(column) else { return false };
        let mut bytes = [0; 16];
        let written = field.at_start().put_as_is(&mut bytes, ValueRef::Int(number));
        if written {
            self.0.push(Write { column, field, null: false, bytes });
        }
        written
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
