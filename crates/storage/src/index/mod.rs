//! Index objects: where in an object the rows with a value are (PushdownDB section III-A, and
//! suggestion 2 of section IV: the index is inside the storage).
//!
//! ```text
//!   column of an object --> keys --> runs, sorted --> blocks in an index object
//!                                                          |
//!   terms of a predicate --> key ranges --> search --------+--> rows (Parquet), records (CSV)
//! ```
//!
//! An index saves reads and decides nothing: the fragment's filter is applied to whatever it finds.
//! Without an index object, or with a stale or damaged one, the object is read as if it had no index; the log names
//! stale and damaged ones.

mod file;
mod format;
mod key;
mod quota;
mod run;
mod store;

pub(crate) use file::{Found, IndexFile, IndexWriter, Unusable};
pub(crate) use format::Position;
pub use key::is_indexable;
pub(crate) use key::{KeyRanges, for_each_key};
pub(crate) use quota::Claim;
pub(crate) use run::Run;
pub(crate) use store::{Identity, IndexLimits, IndexStore};
