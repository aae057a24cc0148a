//! Traces: the lookups of a workload in the segment cache, with the modelled times of every choice.
//!
//! A file of JSON lines. The first is the header:
//!
//! ```json
//! {"version":1,"workload":"ssb","scale":1.0,"format":"parquet","egress_bytes_per_s":125000000}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `version` | [`VERSION`] of this format |
//! | `workload`, `scale`, `format` | what was recorded; a reader refuses a trace of something else ([`Trace::check`]) |
//! | `egress_bytes_per_s` | limit of the storage node's egress; absent without a limit |
//!
//! Each other line is one lookup, in the order in which they reached the cache. A query has one for each of its scans
//! that uses the cache:
//!
//! ```json
//! {"query":0,"name":"Q2.1",
//!  "defines":[{"id":0,"key":"...","bytes":4000,"stored_bytes":1000}],
//!  "partitions":[{"local":0.001,"other":0.02,"other_bytes":900,"load_per_segment":0.002,
//!                 "segments":[{"id":0,"load":0.008,"miss":0.01}]}]}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `query`, `name` | number of the query in the workload, and its name |
//! | `defines` | segments that occur for the first time: id, key as text, bytes in memory, stored bytes |
//! | `local` | modelled seconds of the partition with all of its segments cached |
//! | `other`, `other_bytes` | modelled seconds of its best route that neither uses nor fills the cache, and the bytes that this route moves |
//! | `load_per_segment` | modelled seconds that the load of a segment takes beside its transfer |
//! | `load` | modelled seconds of a segment's transfer and decoding |
//! | `decode` | those of them that decoding takes; absent for none |
//! | `miss` | modelled work of its miss, total_work(s) of equation 1 of the FlexPushdownDB paper |
//!
//! `defines` is absent where nothing is new. Numbers are not negative. A trace has keys without the objects' versions,
//! so that it fits data that was generated again.

mod error;
mod line;
mod model;
mod next_uses;
mod read;
mod write;

pub use error::TraceError;
pub use model::{Header, Lookup, Need, Partition, Segment, SegmentId, Trace, VERSION};
pub use next_uses::NextUses;
pub use write::{RecordedPartition, RecordedSegment, TraceWriter};
