//! Messages between a compute node and a storage node, carried by Arrow Flight.
//!
//! | Flight call | carries | answers |
//! |---|---|---|
//! | `DoAction("handshake")` | [`Handshake`] | [`Handshake`] of the node |
//! | `DoAction("list")` | [`ListRequest`] | [`ListResponse`]s; empty messages while the node is at work |
//! | `DoAction("describe")` | [`DescribeRequest`] | [`DescribeResponse`]s; empty messages while the node is at work |
//! | `DoAction("put_fragment")`, `DoAction("put_schema")` | an encoded fragment or schema, which requests then name by its digest | nothing |
//! | `DoAction("status")` | nothing | [`NodeStatus`] |
//! | `DoAction("index_status")` | [`IndexStatusRequest`] | [`IndexStatusResponse`] |
//! | `DoAction("drop_index")` | [`DropIndexRequest`] | [`DropIndexResponse`] |
//! | `DoGet` | [`Ticket`] with a [`FragmentRequest`] | Arrow batches, then a message whose metadata is a [`FragmentReport`] |
//! | `DoGet` | [`Ticket`] with a [`RangesRequest`] | the ranges' bytes, in order, in message bodies |
//! | `DoGet` | [`Ticket`] with a [`BitmapRequest`] | a bitmap in a message's body if asked for, then as for a fragment |
//! | `DoGet` | [`Ticket`] with an [`IndexRequest`] | a message whose metadata is an [`IndexReport`], once the index is made |
//!
//! Errors travel as a gRPC status whose details are an [`ErrorDetail`].
//! The messages are derived by hand so that a build needs no `protoc`.

mod bitmap;
mod index;
mod shaped;

pub use bitmap::{BitmapRequest, Combine};
pub use index::{
    DropIndexRequest, DropIndexResponse, IndexReport, IndexRequest, IndexState, IndexStatus, IndexStatusRequest,
    IndexStatusResponse,
};
pub use shaped::{CSV_COLUMNS_MAX, OBJECTS_MAX, PARTS_MAX, Shaped};

use std::sync::LazyLock;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion_proto::protobuf;
use prost::Message;

use crate::validate::{MESSAGE_FIELDS_MAX, check_literal, check_message, check_schema, shape};
use crate::{CsvFields, CsvFormat, FileFormat, PartitionRange};

/// Version of these messages. Raised when an older peer could misread a newer one.
pub const PROTOCOL_VERSION: u32 = 3;

/// Header of every answer: the node's protocol version and its DataFusion's, with a blank between. The
/// node that answers may be another than the one that shook hands, at the same address.
pub const VERSIONS_HEADER: &str = "thermocline-versions";

/// Protobuf fields of a single value.
const VALUE_FIELDS_MAX: usize = 1 << 20;
/// Bytes of a single value: a statistic of a column may be a long text.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// Bytes of the text that means NULL in CSV.
const NULL_TEXT_BYTES_MAX: usize = 1 << 10;

/// First exchange: both sides compare what they link.
#[derive(Clone, PartialEq, Message)]
pub struct Handshake {
    /// [`PROTOCOL_VERSION`].
    #[prost(uint32, tag = "1")]
    pub protocol_version: u32,
    /// Version of DataFusion, whose plans and aggregate states both sides must share.
    #[prost(string, tag = "2")]
    pub datafusion_version: String,
    /// Version of Thermocline, for messages to people.
    #[prost(string, tag = "3")]
    pub thermocline_version: String,
}

impl Handshake {
    /// The versions of this build.
    pub fn of_this_build() -> Self {
        Self {
            protocol_version: PROTOCOL_VERSION,
            datafusion_version: datafusion::DATAFUSION_VERSION.to_owned(),
            thermocline_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The value of [`VERSIONS_HEADER`] that this build sends, and expects.
    pub fn header() -> &'static str {
        static HEADER: LazyLock<String> =
            LazyLock::new(|| format!("{PROTOCOL_VERSION} {}", datafusion::DATAFUSION_VERSION));
        &HEADER
    }

    /// Versions in a value of [`VERSIONS_HEADER`]; nodes before version 3 of the protocol send none.
    pub fn of_header(value: Option<&str>) -> Self {
        let (protocol, datafusion) = value.and_then(|value| value.split_once(' ')).unwrap_or(("2", "unknown"));
        Self {
            protocol_version: protocol.parse().unwrap_or_default(),
            datafusion_version: datafusion.to_owned(),
            thermocline_version: String::new(),
        }
    }

    /// Compares this build (the compute node) with `node`.
    ///
    /// # Errors
    /// A sentence that names the versions of both and says which side to upgrade.
    pub fn check(&self, node: &Handshake) -> Result<(), String> {
        let compatible =
            self.protocol_version == node.protocol_version && self.datafusion_version == node.datafusion_version;
        if compatible {
            return Ok(());
        }
        let side =
            if (node.protocol_version, &node.datafusion_version) < (self.protocol_version, &self.datafusion_version) {
                "upgrade the storage node"
            } else {
                "upgrade this compute node"
            };
        Err(format!(
            "the storage node speaks protocol {} with DataFusion {}, this compute node protocol {} with DataFusion {}: {side}",
            node.protocol_version, node.datafusion_version, self.protocol_version, self.datafusion_version,
        ))
    }
}

/// Asks for all objects below a prefix.
#[derive(Clone, PartialEq, Message)]
pub struct ListRequest {
    /// Path below ROOT; empty for everything. A path that names an object lists just that one.
    #[prost(string, tag = "1")]
    pub prefix: String,
}

/// One object.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ObjectEntry {
    /// Path below ROOT.
    #[prost(string, tag = "1")]
    pub path: String,
    /// Version that a later read must find.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Stored bytes.
    #[prost(uint64, tag = "3")]
    pub size: u64,
}

/// The next objects, in the order of their paths.
#[derive(Clone, PartialEq, Message)]
pub struct ListResponse {
    /// The objects.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<ObjectEntry>,
    /// Other entries, by path; of many only some.
    #[prost(message, repeated, tag = "2")]
    pub skipped: Vec<SkippedEntry>,
    /// Number of all other entries.
    #[prost(uint64, tag = "3")]
    pub skipped_total: u64,
    /// Whether there is no object and no directory of that path. A bucket, which has no directories,
    /// never says so.
    #[prost(bool, tag = "4")]
    pub missing: bool,
}

/// An entry below a prefix that is no object to be read.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SkippedEntry {
    /// Path below ROOT.
    #[prost(string, tag = "1")]
    pub path: String,
    /// Its bytes; 0 unless it is a file.
    #[prost(uint64, tag = "2")]
    pub size: u64,
    /// Why, for people.
    #[prost(string, tag = "3")]
    pub reason: String,
}

/// Asks how objects are cut into partitions and what their statistics are.
#[derive(Clone, PartialEq, Message)]
pub struct DescribeRequest {
    /// The objects, with the versions to describe.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<ObjectEntry>,
    /// Their format.
    #[prost(message, optional, tag = "2")]
    pub format: Option<Format>,
    /// Stored bytes that a CSV partition aims at.
    #[prost(uint64, tag = "3")]
    pub partition_bytes: u64,
}

/// Descriptions of the next of the requested objects, in their order.
#[derive(Clone, PartialEq, Message)]
pub struct DescribeResponse {
    /// The descriptions.
    #[prost(message, repeated, tag = "1")]
    pub objects: Vec<Description>,
}

/// Description of one object: its footer or its split points.
#[derive(Clone, PartialEq, Message)]
pub struct Description {
    /// Parquet: the Thrift-encoded file metadata, as it stands in the object's footer.
    #[prost(bytes = "bytes", tag = "1")]
    pub footer: prost::bytes::Bytes,
    /// CSV: the record-aligned ranges.
    #[prost(message, repeated, tag = "2")]
    pub splits: Vec<Split>,
    /// CSV: the column names of the header; empty without one.
    #[prost(string, repeated, tag = "3")]
    pub header: Vec<String>,
}

/// A record-aligned byte range of a CSV object's text.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Split {
    /// First byte.
    #[prost(uint64, tag = "1")]
    pub start: u64,
    /// One past the last byte.
    #[prost(uint64, tag = "2")]
    pub end: u64,
    /// Records in it.
    #[prost(uint64, tag = "3")]
    pub rows: u64,
}

/// [`FileFormat`] on the wire.
#[derive(Clone, PartialEq, Message)]
pub struct Format {
    /// The CSV dialect; absent for Parquet.
    #[prost(message, optional, tag = "1")]
    pub csv: Option<Csv>,
}

/// [`CsvFormat`] on the wire.
#[derive(Clone, PartialEq, Message)]
pub struct Csv {
    /// See [`CsvFormat::delimiter`].
    #[prost(uint32, tag = "1")]
    pub delimiter: u32,
    /// See [`CsvFormat::quote`].
    #[prost(uint32, optional, tag = "2")]
    pub quote: Option<u32>,
    /// See [`CsvFormat::escape`].
    #[prost(uint32, optional, tag = "3")]
    pub escape: Option<u32>,
    /// See [`CsvFormat::has_header`].
    #[prost(bool, tag = "4")]
    pub has_header: bool,
    /// See [`CsvFormat::null_text`].
    #[prost(string, tag = "5")]
    pub null_text: String,
    /// See [`CsvFields::count`]; 0 without [`CsvFormat::fields`].
    #[prost(uint32, tag = "6")]
    pub field_count: u32,
    /// See [`CsvFields::of_columns`], counted from 1; 0 for none.
    #[prost(uint32, repeated, tag = "7")]
    pub fields: Vec<u32>,
}

impl From<&FileFormat> for Format {
    fn from(format: &FileFormat) -> Self {
        match format {
            FileFormat::Parquet => Format { csv: None },
            FileFormat::Csv(csv) => Format {
                csv: Some(Csv {
                    delimiter: u32::from(csv.delimiter),
                    quote: csv.quote.map(u32::from),
                    escape: csv.escape.map(u32::from),
                    has_header: csv.has_header,
                    null_text: csv.null_text.clone(),
                    field_count: csv.fields.as_ref().map_or(0, |fields| fields.count),
                    fields: csv.fields.iter().flat_map(|fields| &fields.of_columns).map(field_number).collect(),
                }),
            },
        }
    }
}

/// The position of a field counted from 1; 0 for none.
fn field_number(position: &Option<u32>) -> u32 {
    position.map_or(0, |position| position.saturating_add(1))
}

impl TryFrom<&Format> for FileFormat {
    type Error = DataFusionError;

    fn try_from(format: &Format) -> Result<Self> {
        let Some(csv) = &format.csv else {
            return Ok(FileFormat::Parquet);
        };
        let byte = |value: u32, what: &str| {
            u8::try_from(value)
                .map_err(|_| DataFusionError::Plan(format!("CSV {what} {value} in a request is not one byte")))
        };
        let columns = csv.fields.len().max(csv.field_count as usize);
        if columns > CSV_COLUMNS_MAX {
            return Err(DataFusionError::Plan(format!(
                "a CSV format of {columns} columns, more than {CSV_COLUMNS_MAX}"
            )));
        }
        if let Some(field) = csv.fields.iter().find(|field| **field > csv.field_count) {
            return Err(DataFusionError::Plan(format!(
                "a CSV format in a request names field {field} of {}",
                csv.field_count
            )));
        }
        if csv.null_text.len() > NULL_TEXT_BYTES_MAX {
            return Err(DataFusionError::Plan(format!(
                "the text that means NULL in CSV has {} bytes, more than {NULL_TEXT_BYTES_MAX}",
                csv.null_text.len()
            )));
        }
        Ok(FileFormat::Csv(CsvFormat {
            delimiter: byte(csv.delimiter, "delimiter")?,
            quote: csv.quote.map(|quote| byte(quote, "quote")).transpose()?,
            escape: csv.escape.map(|escape| byte(escape, "escape")).transpose()?,
            has_header: csv.has_header,
            null_text: csv.null_text.clone(),
            fields: (csv.field_count > 0).then(|| CsvFields {
                count: csv.field_count,
                of_columns: csv.fields.iter().map(|field| field.checked_sub(1)).collect(),
            }),
        }))
    }
}

/// A `DoGet` ticket.
#[derive(Clone, PartialEq, Message)]
pub struct Ticket {
    /// The request.
    #[prost(oneof = "TicketKind", tags = "1, 2, 3, 8")]
    pub kind: Option<TicketKind>,
}

/// Kinds of requests in a [`Ticket`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum TicketKind {
    /// Run a fragment.
    #[prost(message, tag = "1")]
    Fragment(FragmentRequest),
    /// Send stored bytes.
    #[prost(message, tag = "2")]
    Ranges(RangesRequest),
    /// Run a fragment over the rows that a bitmap selects, or send the bitmap that it selects by.
    #[prost(message, tag = "3")]
    Bitmap(BitmapRequest),
    /// Make the index object of an object's column.
    #[prost(message, tag = "8")]
    Index(IndexRequest),
}

/// Bytes of a query's id or of a tenant at the most: nodes remember them for a while.
pub const ORIGIN_BYTES_MAX: usize = 256;

/// Origin of a request, for logs, fairness and deadlines.
#[derive(Clone, PartialEq, Message)]
pub struct Origin {
    /// The query; at most [`ORIGIN_BYTES_MAX`] bytes.
    #[prost(string, tag = "1")]
    pub query_id: String,
    /// The tenant, as the session's setting says; empty for the default one.
    #[prost(string, tag = "2")]
    pub tenant: String,
    /// Milliseconds after which nobody waits any more; 0 for the node's own limit.
    #[prost(uint64, tag = "3")]
    pub deadline_ms: u64,
    /// Share of the caller's cores in use, in thousandths: a caller without idle cores is a poor
    /// place to push work back to.
    #[prost(uint32, tag = "4")]
    pub busy_permille: u32,
}

/// Asks to run a fragment over partitions of one object.
#[derive(Clone, PartialEq, Message)]
pub struct FragmentRequest {
    /// The origin.
    #[prost(message, optional, tag = "1")]
    pub origin: Option<Origin>,
    /// The object and the version it must have.
    #[prost(message, optional, tag = "2")]
    pub object: Option<ObjectEntry>,
    /// Its format.
    #[prost(message, optional, tag = "3")]
    pub format: Option<Format>,
    /// All columns of the table: an encoded protobuf schema, see [`encode_schema`].
    #[prost(bytes = "vec", tag = "4")]
    pub table_schema: Vec<u8>,
    /// The partitions to run over, all of this object.
    #[prost(message, repeated, tag = "5")]
    pub partitions: Vec<Range>,
    /// [`Fragment::encode`](crate::Fragment::encode).
    #[prost(bytes = "vec", tag = "6")]
    pub fragment: Vec<u8>,
    /// Compression of the batches.
    #[prost(enumeration = "Compression", tag = "7")]
    pub compression: i32,
    /// Answer [`ErrorKind::RawIsSmaller`] instead of sending more than this many bytes; 0 for no limit.
    #[prost(uint64, tag = "8")]
    pub answer_bytes_max: u64,
    /// Whether [`ErrorKind::PushedBack`] is understood as an answer.
    #[prost(bool, tag = "9")]
    pub accepts_pushback: bool,
    /// Stored bytes of the needed columns, S_in of the arbitrator's estimates; 0 if not known.
    #[prost(uint64, tag = "10")]
    pub bytes_in: u64,
    /// Expected bytes of the answer, S_out of the arbitrator's estimates; 0 if not known.
    #[prost(uint64, tag = "11")]
    pub bytes_out_estimate: u64,
    /// Further partitions of the same scan for which no request was sent yet.
    #[prost(uint32, tag = "12")]
    pub partitions_to_follow: u32,
    /// Whether rows may be found through the node's indexes.
    #[prost(bool, tag = "16")]
    pub use_indexes: bool,
    /// Equal for fragments that differ only in literals and in keys of joins; 0 if only equal fragments
    /// are alike.
    #[prost(uint64, tag = "17")]
    pub shape: u64,
    /// Digest of the fragment, if `fragment` is empty: the node was sent it before, or answers
    /// [`ErrorKind::UnknownContent`].
    #[prost(bytes = "vec", tag = "18")]
    pub fragment_digest: Vec<u8>,
    /// The same of `table_schema`.
    #[prost(bytes = "vec", tag = "19")]
    pub table_schema_digest: Vec<u8>,
}

/// [`PartitionRange`] on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Range {
    /// Whether start and end count row groups rather than bytes.
    #[prost(bool, tag = "1")]
    pub row_groups: bool,
    /// First row group or byte.
    #[prost(uint64, tag = "2")]
    pub start: u64,
    /// One past the last.
    #[prost(uint64, tag = "3")]
    pub end: u64,
    /// Records before `start`, for a byte range.
    #[prost(uint64, tag = "4")]
    pub first_row: u64,
}

impl From<PartitionRange> for Range {
    fn from(range: PartitionRange) -> Self {
        match range {
            PartitionRange::RowGroups { start, end } => {
                Range { row_groups: true, start: u64::from(start), end: u64::from(end), first_row: 0 }
            }
            PartitionRange::Bytes { start, end, first_row } => Range { row_groups: false, start, end, first_row },
        }
    }
}

impl TryFrom<Range> for PartitionRange {
    type Error = DataFusionError;

    fn try_from(range: Range) -> Result<Self> {
        if range.start > range.end {
            return Err(DataFusionError::Plan(format!(
                "the range {}..{} in a request is reversed",
                range.start, range.end
            )));
        }
        if !range.row_groups {
            return Ok(PartitionRange::Bytes { start: range.start, end: range.end, first_row: range.first_row });
        }
        match (u32::try_from(range.start), u32::try_from(range.end)) {
            (Ok(start), Ok(end)) => Ok(PartitionRange::RowGroups { start, end }),
            _ => Err(DataFusionError::Plan(format!("row group {} in a request is out of range", range.end))),
        }
    }
}

/// Ranges of one [`RangesRequest`].
pub const RANGES_MAX: usize = PARTS_MAX;

/// Asks for stored bytes.
#[derive(Clone, PartialEq, Message)]
pub struct RangesRequest {
    /// The origin.
    #[prost(message, optional, tag = "1")]
    pub origin: Option<Origin>,
    /// The object and the version it must have.
    #[prost(message, optional, tag = "2")]
    pub object: Option<ObjectEntry>,
    /// First bytes, one per range; at most [`RANGES_MAX`].
    #[prost(uint64, repeated, tag = "3")]
    pub starts: Vec<u64>,
    /// One past the last bytes, one per range.
    #[prost(uint64, repeated, tag = "4")]
    pub ends: Vec<u64>,
    /// [`ErrorDetail::pushback_token`] of the answer that this request follows; 0 for none.
    #[prost(uint64, tag = "5")]
    pub pushback_token: u64,
}

/// Compression of Arrow buffers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Compression {
    /// Plain buffers, for a link faster than a compressor.
    None = 0,
    /// LZ4, for fast links.
    Lz4 = 1,
    /// ZSTD level 1, for slow links.
    Zstd = 2,
}

/// The last message of a fragment's answer.
#[derive(Clone, PartialEq, Message)]
pub struct FragmentReport {
    /// Rows that the fragment read, after pruning.
    #[prost(uint64, tag = "1")]
    pub rows_in: u64,
    /// Rows that it sent.
    #[prost(uint64, tag = "2")]
    pub rows_out: u64,
    /// Stored bytes that it read, gaps between coalesced ranges included.
    #[prost(uint64, tag = "3")]
    pub bytes_read: u64,
    /// Time from the admission to the last batch, in microseconds.
    #[prost(uint64, tag = "4")]
    pub elapsed_us: u64,
    /// Part of `elapsed_us` in which the answer waited for its reader or the link, in microseconds.
    #[prost(uint64, tag = "6")]
    pub sending_us: u64,
    /// Time that the request waited for a slot before the admission, in microseconds.
    #[prost(uint64, tag = "7")]
    pub waited_us: u64,
    /// Part of `elapsed_us` in which a core worked on the answer, in microseconds; 0 if that was not measured.
    #[prost(uint64, tag = "8")]
    pub busy_us: u64,
    /// Part of `busy_us` in which other work of the machine had the core, in microseconds.
    #[prost(uint64, tag = "9")]
    pub preempted_us: u64,
    /// Statistics of the columns that were read whole, where the format stores none (CSV).
    #[prost(message, repeated, tag = "5")]
    pub statistics: Vec<ColumnStatistics>,
    /// Partitions of which rows were found through an index.
    #[prost(uint64, tag = "16")]
    pub partitions_indexed: u64,
    /// Bytes of index objects that were read, part of `bytes_read`.
    #[prost(uint64, tag = "17")]
    pub index_bytes_read: u64,
    /// Whether an index object was there and could not be used, because it is stale or damaged.
    #[prost(bool, tag = "18")]
    pub index_unusable: bool,
}

/// Smallest and largest value of one column of one partition.
#[derive(Clone, PartialEq, Message)]
pub struct ColumnStatistics {
    /// The partition.
    #[prost(message, required, tag = "1")]
    pub range: Range,
    /// Name of the column.
    #[prost(string, tag = "2")]
    pub column: String,
    /// Encoded smallest value, see [`encode_scalar`].
    #[prost(bytes = "vec", tag = "3")]
    pub min: Vec<u8>,
    /// Encoded largest value.
    #[prost(bytes = "vec", tag = "4")]
    pub max: Vec<u8>,
    /// NULLs.
    #[prost(uint64, tag = "5")]
    pub null_count: u64,
}

/// Kinds of errors, by what the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ErrorKind {
    /// A defect of the node. Report.
    Internal = 0,
    /// The object has another version now. Replan.
    VersionChanged = 1,
    /// The object is gone. Replan.
    NotFound = 2,
    /// The request is not allowed: a forbidden operator, a path outside ROOT. Report.
    Refused = 3,
    /// The stored bytes cannot be decoded. Report.
    BadData = 4,
    /// The answer passed the request's limit: fetch the stored bytes instead.
    RawIsSmaller = 5,
    /// The deadline passed. Report.
    DeadlineExceeded = 6,
    /// The node's memory limit does not allow the fragment: fetch the stored bytes instead.
    ResourcesExhausted = 7,
    /// The object store behind the node failed. Retry.
    Unavailable = 8,
    /// The node has no time for the fragment now: fetch the stored bytes instead (Enhancing Computation
    /// Pushdown section 3.2). Comes before any batch.
    PushedBack = 9,
    /// The request names a fragment or schema by its digest that the node does not have, or not any
    /// more. Send it whole.
    UnknownContent = 10,
    /// A limit on what one client or all of them may have at the node at once is reached: ask again
    /// later. Comes before anything else of the answer.
    Busy = 11,
    /// The storage never does what is asked for: its capabilities say so. Report.
    Unsupported = 12,
}

/// Details of a failed call.
#[derive(Clone, PartialEq, Message)]
pub struct ErrorDetail {
    /// Kind of the error, see [`ErrorKind`].
    #[prost(enumeration = "ErrorKind", tag = "1")]
    pub kind: i32,
    /// One sentence for people; names the object where there is one.
    #[prost(string, tag = "2")]
    pub message: String,
    /// With [`ErrorKind::PushedBack`]: the slot that the node keeps for the transfer of the stored
    /// bytes; 0 for none.
    #[prost(uint64, tag = "3")]
    pub pushback_token: u64,
    /// The SQLSTATE of an error that SQL has one for; empty for others.
    #[prost(string, tag = "4")]
    pub sqlstate: String,
}

/// Load of a node, what it has done so far, and what it runs on.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeStatus {
    /// Fragments that wait for a decision.
    #[prost(uint64, tag = "1")]
    pub queue_length: u64,
    /// The most that may wait.
    #[prost(uint64, tag = "2")]
    pub queue_max: u64,
    /// Fragments that run.
    #[prost(uint64, tag = "3")]
    pub pushdown_slots_used: u64,
    /// The most that run at once.
    #[prost(uint64, tag = "4")]
    pub pushdown_slots: u64,
    /// Transfers of stored bytes after a pushback that are under way or expected.
    #[prost(uint64, tag = "5")]
    pub pushback_slots_used: u64,
    /// The most of them at once; 0 if the node pushes nothing back while its queue has room.
    #[prost(uint64, tag = "6")]
    pub pushback_slots: u64,
    /// Fragments admitted so far.
    #[prost(uint64, tag = "7")]
    pub admitted: u64,
    /// Fragments pushed back so far.
    #[prost(uint64, tag = "8")]
    pub pushed_back: u64,
    /// Answers given up so far because nobody read them.
    #[prost(uint64, tag = "9")]
    pub abandoned: u64,
    /// Bytes that running fragments, their reads, requests and answers hold; what is only kept for later
    /// requests does not count.
    #[prost(uint64, tag = "10")]
    pub memory_used: u64,
    /// Memory limit of the node, in bytes.
    #[prost(uint64, tag = "11")]
    pub memory_limit: u64,
    /// Answers that are being sent, or wait for their readers.
    #[prost(uint64, tag = "12")]
    pub answers: u64,
    /// Bytes of objects that the node has read so far, gaps between coalesced ranges included.
    #[prost(uint64, tag = "13")]
    pub bytes_read: u64,
    /// Version of Thermocline; empty if the node is of one that does not tell.
    #[prost(string, tag = "14")]
    pub version: String,
    /// Model of its processor.
    #[prost(string, tag = "15")]
    pub machine: String,
    /// Cores that it may use.
    #[prost(uint64, tag = "16")]
    pub cores: u64,
    /// Limit on what leaves it, in bytes a second; 0 for none.
    #[prost(uint64, tag = "17")]
    pub egress_bytes_per_s: u64,
    /// Thousandths of a core that one fragment may take.
    #[prost(uint64, tag = "18")]
    pub compute_permille: u64,
}

/// Encodes a schema as DataFusion's protobuf message.
///
/// # Errors
/// If a type has no encoding.
pub fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    Ok(protobuf::Schema::try_from(schema)?.encode_to_vec())
}

/// Decodes [`encode_schema`].
///
/// # Errors
/// If the bytes are not a schema, or exceed the limits on messages and types.
pub fn decode_schema(bytes: &[u8]) -> Result<SchemaRef> {
    let wrong = |why: String| DataFusionError::Plan(format!("a table schema in a request does not decode: {why}"));
    check_message(bytes, MESSAGE_FIELDS_MAX, &shape::SCHEMA).map_err(wrong)?;
    let schema = protobuf::Schema::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    check_schema(&schema).map_err(wrong)?;
    Ok(std::sync::Arc::new(Schema::try_from(&schema)?))
}

/// Encodes a value as DataFusion's protobuf message.
///
/// # Errors
/// If its type has no encoding.
pub fn encode_scalar(value: &ScalarValue) -> Result<Vec<u8>> {
    Ok(protobuf::ScalarValue::try_from(value)?.encode_to_vec())
}

/// Decodes [`encode_scalar`].
///
/// # Errors
/// If the bytes are not a value, or the value is nested or exceeds the limits on messages.
pub fn decode_scalar(bytes: &[u8]) -> Result<ScalarValue> {
    let wrong = |why: String| DataFusionError::Plan(format!("a value in a message does not decode: {why}"));
    check_message(bytes, VALUE_FIELDS_MAX, &shape::SCALAR).map_err(wrong)?;
    let value = protobuf::ScalarValue::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    check_literal(&value, VALUE_BYTES_MAX).map_err(wrong)?;
    Ok(ScalarValue::try_from(&value)?)
}
