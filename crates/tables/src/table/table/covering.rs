//! Statements that need no more of a row than its keys.

use super::*;
use crate::key;

impl Table {
    /// Writes an image with the columns of this index that a row with this key has, and without others: those read as
    /// arbitrary values. Floats are what they compare as: a zero has no sign.
    ///
    /// # Errors
    /// If there is no such index, or the key is none of its.
    pub fn write_key_row<'a>(&'a self, key: Option<(IndexId, &[u8])>, image: &'a mut Vec<u8>) -> Result<Row<'a>> {
        let (mut columns, mut values) = ([].as_slice(), Vec::new());
        if let Some((index, key)) = key {
            let index = self.index(index)?;
            (columns, values) = (&index.definition().columns, key::decode(key, index.columns())?);
        }
        let value = |column: usize| {
            let place = columns.iter().position(|held| held.column == column)?;
            values.get(place).map(|value| value.as_ref())
        };
        self.layout.encode_some(image, value)?;
        Ok(Row::new(&self.layout, image))
    }

    /// Writes an image with the columns of a row that indexes hold, and without others: those read as arbitrary values.
    ///
    /// # Errors
    /// If the row is none of the table.
    pub fn write_keys_row(&self, row: Row<'_>, image: &mut Vec<u8>) -> Result<()> {
        let is_held = |column| {
            self.indexes.iter().any(|index| index.definition().columns.iter().any(|held| held.column == column))
        };
        self.layout.encode_some(image, |column| is_held(column).then(|| row.value(column)))
    }
}
