//! Fragments over a partition of which the caller holds some columns.

use prost::Message;

use super::{Format, ObjectEntry, Origin, Range};

/// Asks to run a fragment over the rows of one partition that a bitmap, the fragment's own filter,
/// or both select. Columns that the caller has are not read.
///
/// | `bitmap` | filter | rows |
/// |---|---|---|
/// | given | none | those in the bitmap |
/// | none | given | those that pass the filter |
/// | given | given | both combined by [`BitmapRequest::combine`] |
///
/// The selected rows come in storage order. With [`BitmapRequest::return_bitmap`] the bitmap of the
/// selected rows comes before them, encoded, as the body of a message without header.
#[derive(Clone, PartialEq, Message)]
pub struct BitmapRequest {
    /// The origin.
    #[prost(message, optional, tag = "1")]
    pub origin: Option<Origin>,
    /// The object and the version it must have.
    #[prost(message, optional, tag = "2")]
    pub object: Option<ObjectEntry>,
    /// Its format.
    #[prost(message, optional, tag = "3")]
    pub format: Option<Format>,
    /// All columns of the table, see [`encode_schema`](super::encode_schema).
    #[prost(bytes = "vec", tag = "4")]
    pub table_schema: Vec<u8>,
    /// The partition.
    #[prost(message, optional, tag = "5")]
    pub partition: Option<Range>,
    /// [`Fragment::encode`](crate::Fragment::encode). The filter directly above its input, if there
    /// is one, is the part of the predicate that is evaluated here.
    #[prost(bytes = "vec", tag = "6")]
    pub fragment: Vec<u8>,
    /// Rows that the caller's part of the predicate selects, see
    /// [`Bitmap::encode`](crate::Bitmap::encode); empty if it has no part.
    #[prost(bytes = "vec", tag = "7")]
    pub bitmap: Vec<u8>,
    /// The operator between the predicate's two parts.
    #[prost(enumeration = "Combine", tag = "8")]
    pub combine: i32,
    /// Whether the caller needs to know which rows are selected. Not with an aggregate, a top-K or a
    /// limit: what these yield are no rows of the partition.
    #[prost(bool, tag = "9")]
    pub return_bitmap: bool,
    /// Compression of the batches.
    #[prost(enumeration = "super::Compression", tag = "10")]
    pub compression: i32,
    /// Answer [`ErrorKind::RawIsSmaller`](super::ErrorKind::RawIsSmaller) instead of sending more
    /// than this many bytes; 0 for no limit.
    #[prost(uint64, tag = "11")]
    pub answer_bytes_max: u64,
    /// As in a [`FragmentRequest`](super::FragmentRequest).
    #[prost(bool, tag = "12")]
    pub accepts_pushback: bool,
    /// Stored bytes of the columns that the caller does not have.
    #[prost(uint64, tag = "13")]
    pub bytes_in: u64,
    /// As in a [`FragmentRequest`](super::FragmentRequest).
    #[prost(uint64, tag = "14")]
    pub bytes_out_estimate: u64,
    /// As in a [`FragmentRequest`](super::FragmentRequest).
    #[prost(uint32, tag = "15")]
    pub partitions_to_follow: u32,
    /// Whether rows may be found through the node's indexes.
    #[prost(bool, tag = "16")]
    pub use_indexes: bool,
    /// As in a [`FragmentRequest`](super::FragmentRequest).
    #[prost(bytes = "vec", tag = "17")]
    pub fragment_digest: Vec<u8>,
    /// As in a [`FragmentRequest`](super::FragmentRequest).
    #[prost(bytes = "vec", tag = "18")]
    pub table_schema_digest: Vec<u8>,
}

/// Operator between the caller's part of a predicate and the storage node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Combine {
    /// A row must pass both.
    And = 0,
    /// A row must pass one of them.
    Or = 1,
}
