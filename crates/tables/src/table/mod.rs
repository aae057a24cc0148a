//! Rows of one table in one partition: arenas, indexes, undo, and their memory.
//!
//! ```text
//! index: key -> tuple id -> locator -> slot of a size class: header, image
//! ```
//!
//! A row is one slot: its image holds all columns, including texts, so that reading it touches one place in memory.
//! Tuple ids are stable, and the lowest free one is assigned next; only the locator knows where a row lies. The
//! prototype of Anti-Caching 2013 points from every index to the row itself and pays for that at each eviction (its
//! figure 11b).

mod arena;
mod blocks;
mod budget;
mod building;
mod chain;
mod charge;
mod digest;
mod encoder;
mod heap_size;
mod id_words;
mod images;
mod index;
mod keys;
mod layout;
mod loads;
mod locator;
mod patch;
mod put_off;
mod region;
mod row;
mod row_bits;
mod scan_frontier;
mod slab;
mod statement_memory;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod table;
mod table_blocks;
mod tuple_ids;
mod undo;
mod use_counts;
mod victims;

pub use blocks::{
    BlockEntry, BlockReader, BlockRowImage, BlockRows, BlockStatistics, Blocks, BlocksReader, DirectoryEntry,
    ReadBlock, ReadRow, ReadsRow, RowKeys, RowReader,
};
pub use budget::{Budget, Full, Growth, Reach, Taken, Working};
pub use charge::{Charge, PlacesCharge, allocated};
pub use digest::Digest;
pub use encoder::{Encoder, Parameter, Written};
pub use heap_size::HeapSize;
pub(crate) use images::{Images, READ_BYTES};
pub use index::{Entries, Index, IndexFilling, KEY_BYTES_MAX, Matches};
pub use keys::{Keys, LOOK_UPS_AHEAD, OfLookUps};
pub use layout::Layout;
pub use loads::TableLoad;
pub use locator::{BlockNumber, BlockPlace};
pub use patch::Patch;
pub use row::Row;
pub use statement_memory::{StatementMemory, Structure, out_of_memory};
pub use table::{BlockLayouts, EvictedRows, HEADER_BYTES, Place, ROW_BYTES_MAX, Search, Table, TableMemory};
pub(crate) use table_blocks::TableBlocks;
pub use tuple_ids::TupleId;
pub use undo::{Change, Undo, Unread};
pub(crate) use use_counts::UseCounts;
pub(crate) use victims::Sampler;
pub use victims::{SamplingRate, Victims};

pub use building::{Build, BuildStep, Replaced};
pub use patch::IntegerPlace;
pub(crate) use put_off::AtOnce;
pub use put_off::PutOff;
pub use row::Cell;
pub use scan_frontier::ScanFrontier;
pub use tuple_ids::TupleIds;
