//! Rows in memory: definitions of tables, their rows and indexes in partitions, undo, and readers of whole tables
//! (Anti-Caching 2013, sections 2 and 3.1).
//!
//! ```text
//! Schema --TableDefinition--> Table (arenas, indexes, undo) <--Scope, Transaction-- Partition <--ReadRequest-- whole tables
//! ```
//!
//! A [`Partition`](partition::Partition) owns its tables and belongs to one thread at a time. [`key`] encodes values as
//! index keys, and [`PartitionHash`] maps them to partition numbers.
//!
//! Left out: SQL (`thermocline-statements`), threads and the order of transactions (`thermocline-transactions`), files
//! (`thermocline-durability`).

pub mod key;
pub mod partition;
mod placement;
pub mod schema;
pub mod table;

pub use placement::PartitionHash;
