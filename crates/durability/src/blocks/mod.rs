//! Blocks of evicted rows on a disk (Anti-Caching 2013, sections 3.1 and 3.2).
//!
//! ```text
//! BlockBuilder: rows of one table --put--> BlockStore: segments of blocks --read--> one row, or a block
//!                                               ^  |
//!                                               |  +-- segments whose rows are all gone are removed
//!                       release: a row has left +
//! ```
//!
//! A store belongs to one partition. A snapshot refers to the blocks of rows that are evicted, and does not copy them:
//! [`BlockFiles`] keep what it refers to. Each file has directories, too, with the keys of its rows, so that the next
//! process fills its indexes without reading blocks.

mod block;
mod directory;
mod files;
mod format;
mod opened;
mod store;
#[cfg(test)]
mod tests;
mod together;
mod writer;

pub(crate) use directory::read_directory;
pub use files::{BlockFiles, References, Segment, SegmentExtent};
pub use format::{BlockBuilder, Record};
pub use store::{BlockStore, BlockStoreSettings, Fetching, FillFactor, Merge};
pub(crate) use store::{check_row, read_block};
pub use thermocline_tables::table::{SamplingRate, Victims};
pub use writer::{BlockWriter, BlockWrites};
