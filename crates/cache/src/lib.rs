//! The segment cache: columns of partitions, decoded or as they are stored, and answers to fragments, in the memory of the
//! compute node.
//!
//! It decides which segments to keep by the benefit framework of FlexPushdownDB section 5.2 (Algorithm 1) under a
//! replaceable [`Policy`], shares one fetch between concurrent loads of a segment, never evicts a segment that a query
//! is reading, and never exceeds its limit, unless the limit was lowered below the segments being read and loaded.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{ArrayRef, Int64Array};
//! use thermocline_cache::{
//!     Access, Claim, Decoding, Lfu, ObjectKey, SegmentCache, SegmentKey, SegmentKind, SegmentRequest,
//! };
//! use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
//!
//! let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
//! let object = ObjectKey {
//!     table: "t".into(),
//!     object: ObjectPath::new("t/0.parquet"),
//!     version: ObjectVersion::new("v1"),
//! };
//! let key = SegmentKey {
//!     object: Arc::new(object),
//!     partition: PartitionRange::RowGroups { start: 0, end: 1 },
//!     kind: SegmentKind::column("price"),
//!     decoding: Decoding::of(&"Int64"),
//! };
//! let want = [vec![SegmentRequest { key, bytes: 2000, miss_seconds: 0.01, columns: 1, stored: None }]];
//! let mut accesses = cache.access(&want);
//! assert!(matches!(accesses[0][0], Access::Missing));
//! assert_eq!(cache.admit(&want, &mut accesses, &[true]), 0, "nothing had to be evicted");
//! for access in accesses.into_iter().flatten() {
//!     if let Access::Load(share) = access
//!         && let Claim::Load(ticket) = share.claim()
//!     {
//!         let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 100]));
//!         ticket.complete(vec![column]);
//!     }
//! }
//! assert!(matches!(cache.access(&want)[0][0], Access::Hit(_)));
//! ```
//!
//! Left out: queries, the fetching of bytes, and the routes of partitions (crate `thermocline-compute`).

mod accounting;
mod admission;
mod cache;
mod index;
mod key;
mod load;
mod order;
mod policy;
mod segment;
mod slots;
mod state;
mod stored;

pub use accounting::{CountedBuffers, array_bytes, column_bytes};
pub use cache::{Access, CacheCounters, SegmentCache, SegmentInfo, SegmentRequest, StoredSize};
pub use key::{Decoding, ObjectKey, Representation, SegmentKey, SegmentKind};
pub use load::{Claim, LoadShare, LoadTicket, Pending};
pub use policy::{
    Belady, Candidate, FREQUENCY_HALF_LIFE, Gdsf, Lfu, Lru, Policy, Rank, SegmentUse, Wlfu, policies, policy_named,
};
pub use segment::PinnedSegment;
pub use state::REMEMBERED_MIN;
pub use stored::StoredColumn;
