//! Blocks of evicted rows on a disk (Anti-Caching 2013, sections 3.1 and 3.2).
//!
//! ```text
//! BlockBuilder: rows of one table --put--> BlockStore: segments of blocks --read--> one row, or a block
//!                                               ^  |
//!                                               |  +-- segments whose rows are all gone are removed
//!                       release: a row has left +
//! ```
//!
//! A store belongs to one partition. What is evicted is in the log and in snapshots as well: blocks are read while the
//! process lives, and their files go when the next one starts.

mod format;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use format::{BlockBuilder, Record};
pub use store::{BlockStore, BlockStoreSettings};
pub use writer::{BlockWriter, BlockWrites};
