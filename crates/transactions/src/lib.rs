//! The row engine: transactions over rows in memory, executed serially on partitions, durable
//! through a command log and snapshots (Anti-Caching 2013, sections 2 and 3).
//!
//! ```text
//! database: Database, Session, Catalog
//!     |
//!  engine: queues, workers, order           procedures: Lua, SQL, Rust
//!     |               |                          |
//!  durability: log, snapshots, recovery     statements: SQL on rows
//!     |                                          |
//!     +------------> tables: rows, indexes, partitions
//! ```
//!
//! Users of the engine depend on this crate alone: what its sessions take and give of the crates below is here, too.

pub mod database;
pub mod engine;

pub use thermocline_durability::{Semantics, backup, check, disk, log, recovery, snapshot};
pub use thermocline_machine::{self as machine, ids, interrupt, random};
pub use thermocline_procedures as procedure;
pub use thermocline_statements as sql;
pub use thermocline_tables::partition::{self, reader};
pub use thermocline_tables::{schema, table};
pub use thermocline_types::error;
pub use thermocline_types::{Class, Error, Result};

/// Values, and what places them among index keys and partitions.
pub mod types {
    pub use thermocline_tables::{PartitionHash, key};
    pub use thermocline_types::*;
}
