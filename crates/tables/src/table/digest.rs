//! Hashes of transactions' writes, which replay compares with the log's.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::layout::{Layout, is_null};
use super::tuple_ids::TupleId;
use crate::schema::TableId;

/// Hash of a transaction's writes, in order, computed while they are made. It is part of the stored format: replay
/// compares it with the log's.
///
/// ```text
/// row made or gone: place, then the image
/// row changed:      place, then of each column that was assigned: its number, whether it is NULL, its bytes
/// ```
///
/// The part of an UPDATE depends only on its columns and their values, not on how it was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

/// Change of a row.
#[derive(Debug, Clone, Copy)]
enum Written {
    Gone = 1,
    Made = 2,
    Changed = 3,
}

impl Digest {
    /// Digest of no writes.
    pub const EMPTY: Self = Self(0);

    /// The digest as stored in the log.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Adds a row that now has this image, or was removed.
    #[must_use]
    pub fn with_row(self, table: TableId, id: TupleId, image: Option<&[u8]>) -> Self {
        match image {
            Some(image) => {
                let Self(place) = self.with_place(table, id, Written::Made);
                Self(xxh3_64_with_seed(image, place))
            }
            None => self.with_place(table, id, Written::Gone),
        }
    }

    /// Adds a row whose changed columns follow.
    #[must_use]
    #[inline]
    pub fn with_change(self, table: TableId, id: TupleId) -> Self {
        self.with_place(table, id, Written::Changed)
    }

    /// Adds a column of that row with its current value in the image.
    #[must_use]
    pub(super) fn with_column(self, layout: &Layout, image: &[u8], column: usize) -> Self {
        let Some(field) = layout.field(column) else { return self };
        if field.nullable && is_null(image, column) {
            return self.mixed((column as u64) << 1 | 1);
        }
        let named = self.mixed((column as u64) << 1);
        if field.kind.is_variable() {
            return named.mixed(xxh3_64(layout.bytes_of(image, field).unwrap_or_default()));
        }
        let (low, high) = field.words(image);
        high.into_iter().fold(named.mixed(low), Self::mixed)
    }

    /// Adds a column that is not NULL and holds this integer.
    #[must_use]
    #[inline]
    pub(super) fn with_integer(self, column: usize, number: i64) -> Self {
        self.mixed((column as u64) << 1).mixed(number as u64)
    }

    #[inline]
    fn with_place(self, table: TableId, id: TupleId, written: Written) -> Self {
        self.mixed(u64::from(table.0) << 32 | u64::from(id.0)).mixed(written as u64)
    }

    /// Mixes in a word; different words and different earlier digests give different results.
    #[inline]
    fn mixed(self, word: u64) -> Self {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed ^ mixed >> 32)
    }

    /// Combines the digests of several partitions, in the order of their numbers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::EMPTY, other) => other,
            (this, Self::EMPTY) => this,
            (this, other) => Self(xxh3_64_with_seed(&other.0.to_le_bytes(), this.0)),
        }
    }

    /// Adds a row's image at the end of the transaction, as in versions 1 and 2 of the semantics.
    #[must_use]
    pub fn with_row_at_the_end(self, table: TableId, id: TupleId, image: Option<&[u8]>) -> Self {
        let place = (u64::from(table.0) << 32 | u64::from(id.0)) << 1 | u64::from(image.is_some());
        let seed = self.0.rotate_left(5) ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(xxh3_64_with_seed(image.unwrap_or_default(), seed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PLACE: (TableId, TupleId) = (TableId(1), TupleId(2));

    #[test]
    fn the_stored_format() {
        let (table, id) = PLACE;
        let row = Digest::EMPTY.with_row(table, id, Some(b"row"));
        let changed = row.with_change(table, id).with_integer(3, -1);
        let gone = changed.with_row(table, id, None);
        assert_eq!(
            [row, changed, gone, row.and(gone)].map(Digest::bits),
            [
                17_732_597_373_310_017_604,
                9_884_559_221_466_920_075,
                14_144_423_041_115_885_880,
                8_576_679_687_794_709_499
            ]
        );
        assert_eq!(row.and(Digest::EMPTY), row);
    }

    #[test]
    fn the_stored_format_of_before() {
        let digest = Digest::EMPTY.with_row_at_the_end(TableId(1), TupleId(2), Some(b"row"));
        assert_eq!(digest.bits(), 15_786_304_485_978_285_496);
    }

    #[test]
    fn another_change_has_another_digest() {
        let (table, id) = PLACE;
        let changes = [
            Digest::EMPTY.with_row(table, id, Some(b"row")),
            Digest::EMPTY.with_row(table, id, Some(b"roe")),
            Digest::EMPTY.with_row(table, id, Some(b"")),
            Digest::EMPTY.with_row(table, id, None),
            Digest::EMPTY.with_row(table, TupleId(3), None),
            Digest::EMPTY.with_row(TableId(2), id, None),
            Digest::EMPTY.with_change(table, id),
            Digest::EMPTY.with_change(table, id).with_integer(0, 1),
            Digest::EMPTY.with_change(table, id).with_integer(1, 0),
            Digest::EMPTY.with_change(table, id).with_integer(0, 1).with_integer(1, 0),
            Digest::EMPTY.with_change(table, id).with_integer(1, 0).with_integer(0, 1),
            Digest::EMPTY.with_row(TableId(0), TupleId(0), None),
            Digest::EMPTY.with_change(TableId(0), TupleId(0)).with_integer(0, 0),
        ];
        let distinct: BTreeSet<u64> = changes.iter().map(|digest| digest.bits()).chain([0]).collect();
        assert_eq!(distinct.len(), changes.len() + 1);
    }
}
