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

/// Key of a segment: what it holds, of which partition, version and object.
///
/// The range is part of the key, so a changed partition size never mixes rows; so is the decoding, and a table that is
/// redefined under the same name never serves values of its former type or dialect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentKey {
    /// The object, shared by the keys of all its segments.
    pub object: Arc<ObjectKey>,
    /// The partition's rows.
    pub partition: PartitionRange,
    /// What it holds of them.
    pub kind: SegmentKind,
    /// Fingerprint of the decoding of its values.
    pub decoding: Decoding,
}

impl SegmentKey {
    /// The key of the same column in another representation; `None` for an answer.
    pub fn in_representation(&self, representation: Representation) -> Option<Self> {
        match &self.kind {
            SegmentKind::Column { name, .. } => {
                Some(Self { kind: SegmentKind::Column { name: Arc::clone(name), representation }, ..self.clone() })
            }
            SegmentKind::Answer(_) => None,
        }
    }
}

/// What a segment holds of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// A column.
    Column {
        /// Its name.
        name: Arc<str>,
        /// The form in which the segment holds it.
        representation: Representation,
    },
    /// What the fragment with this digest yields.
    Answer(Arc<str>),
}

/// Forms in which a column of a partition can be kept. They have segments of their own, with their own sizes.
///
/// Encodings that operators compute on directly would be a third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Representation {
    /// Arrays in memory: a hit saves fetching and decoding.
    Decoded,
    /// Stored bytes, encoded and compressed as in the object: a hit saves fetching.
    Stored,
}

impl Representation {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Decoded => Self::Stored,
            Self::Stored => Self::Decoded,
        }
    }

    /// Its name in `system.segments`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decoded => "decoded",
            Self::Stored => "stored",
        }
    }
}

impl SegmentKind {
    /// A decoded column by its name.
    pub fn column(name: impl Into<Arc<str>>) -> Self {
        Self::Column { name: name.into(), representation: Representation::Decoded }
    }

    /// Its name in `system.segments`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Column { .. } => "column",
            Self::Answer(_) => "answer",
        }
    }

    /// The column's name; `None` for an answer.
    pub fn column_name(&self) -> Option<&str> {
        match self {
            Self::Column { name, .. } => Some(name),
            Self::Answer(_) => None,
        }
    }

    /// The digest of the fragment; `None` for a column.
    pub fn fragment(&self) -> Option<&str> {
        match self {
            Self::Column { .. } => None,
            Self::Answer(digest) => Some(digest),
        }
    }

    /// The form in which a column is held; answers are decoded.
    pub fn representation(&self) -> Representation {
        match self {
            Self::Column { representation, .. } => *representation,
            Self::Answer(_) => Representation::Decoded,
        }
    }
}

/// The key in a trace: table, object, partition and column, without version and decoding, so that a trace fits data that
/// was generated again. Names are quoted, and only they: an answer is the word and the digest, and a column that is not
/// decoded is followed by the name of its representation.
impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { table, object, .. } = self.object.as_ref();
        write!(f, "{table:?} {:?} {} ", object.as_str(), self.partition)?;
        match &self.kind {
            SegmentKind::Column { name, representation: Representation::Decoded } => write!(f, "{name:?}"),
            SegmentKind::Column { name, representation } => write!(f, "{name:?} {}", representation.name()),
            SegmentKind::Answer(digest) => write!(f, "answer {digest}"),
        }
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
