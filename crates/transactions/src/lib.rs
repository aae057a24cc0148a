//! The row engine: transactions over rows in memory, executed serially on partitions, durable
//! through a command log and snapshots (Anti-Caching 2013, sections 2 and 3).

pub mod backup;
mod beside;
mod caught;
pub mod check;
pub mod database;
pub mod disk;
pub mod engine;
pub use thermocline_types::error;
pub mod fuzz;
pub mod ids;
pub mod interrupt;
pub mod log;
pub mod machine;
pub mod partition;
pub mod procedure;
pub mod random;
pub mod reader;
pub mod recovery;
pub mod schema;
mod semantics;
pub mod simulator;
pub mod snapshot;
pub mod sql;
pub mod table;
pub mod types;

pub use error::{Class, Error, Result};
pub use semantics::Semantics;
