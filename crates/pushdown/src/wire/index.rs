//! Index objects of a storage node: made, asked about, dropped.

use prost::Message;

use super::{Format, ObjectEntry, Origin};

/// Asks to make the index object of one column of one object, unless there is a current one.
///
/// A `DoGet` request, because making one takes as long as reading the column: the answer's empty
/// messages say that the node is at work, and dropping it ends the work.
#[derive(Clone, PartialEq, Message)]
pub struct IndexRequest {
    /// The origin.
    #[prost(message, optional, tag = "1")]
    pub origin: Option<Origin>,
    /// The object and the version it must have.
    #[prost(message, optional, tag = "2")]
    pub object: Option<ObjectEntry>,
    /// How to read it.
    #[prost(message, optional, tag = "3")]
    pub format: Option<Format>,
    /// All columns of the table, see [`encode_schema`](super::encode_schema).
    #[prost(bytes = "vec", tag = "4")]
    pub table_schema: Vec<u8>,
    /// Name of the column.
    #[prost(string, tag = "5")]
    pub column: String,
    /// Stored bytes that a CSV partition aims at.
    #[prost(uint64, tag = "6")]
    pub partition_bytes: u64,
}

/// A made or found index object.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct IndexReport {
    /// Rows in it: those of the object whose value is not NULL.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// Its size.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Rows that share a value within a row group or a CSV partition, on average.
    #[prost(double, tag = "3")]
    pub rows_per_value: f64,
}

/// Asks what there is of the index objects of one column.
#[derive(Clone, PartialEq, Message)]
pub struct IndexStatusRequest {
    /// The objects, with the versions that are current.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<ObjectEntry>,
    /// How they are read.
    #[prost(message, optional, tag = "2")]
    pub format: Option<Format>,
    /// All columns of the table, see [`encode_schema`](super::encode_schema).
    #[prost(bytes = "vec", tag = "3")]
    pub table_schema: Vec<u8>,
    /// Name of the column.
    #[prost(string, tag = "4")]
    pub column: String,
}

/// One status per requested object, in the same order.
#[derive(Clone, PartialEq, Message)]
pub struct IndexStatusResponse {
    /// The statuses.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<IndexStatus>,
}

/// State of one index object.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct IndexStatus {
    /// Whether it can be used.
    #[prost(enumeration = "IndexState", tag = "1")]
    pub state: i32,
    /// Its header; absent unless it is current.
    #[prost(message, optional, tag = "2")]
    pub report: Option<IndexReport>,
}

/// Whether an index object can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IndexState {
    /// There is none.
    Missing = 0,
    /// It is of the object's version.
    Current = 1,
    /// It is of another version of the object, or of another version of the format.
    Stale = 2,
    /// It is corrupt or cannot be read.
    Damaged = 3,
}

/// Asks to remove the index objects of one column.
#[derive(Clone, PartialEq, Message)]
pub struct DropIndexRequest {
    /// The objects, whatever their version.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<ObjectEntry>,
    /// How they are read.
    #[prost(message, optional, tag = "2")]
    pub format: Option<Format>,
    /// All columns of the table, see [`encode_schema`](super::encode_schema).
    #[prost(bytes = "vec", tag = "3")]
    pub table_schema: Vec<u8>,
    /// Name of the column.
    #[prost(string, tag = "4")]
    pub column: String,
}

/// Objects that were removed.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DropIndexResponse {
    /// Index objects that were there.
    #[prost(uint64, tag = "1")]
    pub removed: u64,
}
