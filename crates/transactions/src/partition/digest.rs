use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::schema::TableId;
use crate::table::TupleId;

/// A hash of what a transaction wrote, in order. It is part of the stored format: replay compares it
/// with the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Of nothing.
    pub const EMPTY: Self = Self(0);

    /// The digest in which a log holds it.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// With a row that is now like this, or gone.
    #[must_use]
    pub fn with_row(self, table: TableId, id: TupleId, image: Option<&[u8]>) -> Self {
        let place = (u64::from(table.0) << 32 | u64::from(id.0)) << 1 | u64::from(image.is_some());
        let seed = self.0.rotate_left(5) ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(xxh3_64_with_seed(image.unwrap_or_default(), seed))
    }

    /// Of several partitions together, in the order of their numbers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::EMPTY, other) => other,
            (this, Self::EMPTY) => this,
            (this, other) => Self(xxh3_64_with_seed(&other.0.to_le_bytes(), this.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_format() {
        let digest = Digest::EMPTY.with_row(TableId(1), TupleId(2), Some(b"row"));
        assert_eq!(digest.bits(), 15_786_304_485_978_285_496);
        assert_ne!(digest, Digest::EMPTY.with_row(TableId(1), TupleId(2), None));
        assert_ne!(digest, Digest::EMPTY.with_row(TableId(1), TupleId(3), Some(b"row")));
        assert_eq!(digest.and(Digest::EMPTY), digest);
        assert_ne!(digest.and(digest), digest);
    }
}
