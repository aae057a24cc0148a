//! Keys of segments.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};

/// One version of an object as one table reads it: the shared part of its segments' keys.
///
/// Because it contains the version, an overwritten object never serves stale data.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Catalog name of the table, or anything that distinguishes two readers of one object.
    pub table: Arc<str>,
    /// The object.
    pub object: ObjectPath,
    /// Its version.
    pub version: ObjectVersion,
}

/// Key of a segment: column, partition, version and object.
///
/// The range is part of the key, so a changed partition size never mixes rows; so is the decoding, and a table that is
/// redefined under the same name never serves values of its former type or dialect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentKey {
    /// The object, shared by the keys of all its segments.
    pub object: Arc<ObjectKey>,
    /// The partition's rows.
    pub partition: PartitionRange,
    /// Name of the column.
    pub column: Arc<str>,
    /// Fingerprint of the decoding of its values.
    pub decoding: Decoding,
}

/// The key in a trace: table, object, partition and column, without version and decoding, so that a trace fits data that
/// was generated again. Names are quoted.
impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { table, object, .. } = self.object.as_ref();
        write!(f, "{table:?} {:?} {} {:?}", object.as_str(), self.partition, self.column)
    }
}

/// Fingerprint of everything that determines how a column's bytes become values: type, dialect of the text, position
/// among its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decoding(u64);

impl Decoding {
    /// The fingerprint of `rules`, which must be equal for columns that decode alike.
    pub fn of(rules: &impl Hash) -> Self {
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one(rules))
    }
}
