//! The row engine: transactions over rows in memory, executed serially on partitions, durable
//! through a command log and snapshots (Anti-Caching 2013, sections 2 and 3).
//!
//! ```text
//! database: RowEngine, RowSession, Catalog
//!     |
//!  engine: queues, workers, order           procedures: Lua, SQL, Rust
//!     |               |                          |
//!  durability: log, snapshots, recovery     statements: SQL on rows
//!     |                                          |
//!     +------------> tables: rows, indexes, partitions
//! ```
//!
//! Users of the engine depend only on this crate, which re-exports the types of lower crates that its sessions use.

pub mod database;
pub mod engine;

pub use thermocline_durability::{Semantics, backup, blocks, check, disk, log, recovery, snapshot};
pub use thermocline_machine::{self as machine, ids, interrupt, random};
pub use thermocline_procedures as procedure;
pub use thermocline_statements as sql;
pub use thermocline_tables::partition::{self, reader};
pub use thermocline_tables::{schema, table};
pub use thermocline_types::error;
pub use thermocline_types::{Class, Error, Result};

/// Values, and their encoding in index keys and partition hashes.
pub mod types {
    pub use thermocline_tables::{PartitionHash, key};
    pub use thermocline_types::*;
}
