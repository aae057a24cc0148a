//! Durability: the command log, snapshots, and recovery from them (Anti-Caching 2013, section 2, and the command
//! logging that it relies on).
//!
//! ```text
//! Batch --> log --> segments --+
//!                              +--> disk --> recovery: Plan, Rebuild --> partitions
//! rows --> snapshot -----------+             backup, check
//! evicted rows <--> blocks <---+
//! ```
//!
//! Left out: the thread that takes snapshots of a running database, and the execution of logged commands
//! (`thermocline-transactions`).

pub mod backup;
pub mod blocks;
pub mod check;
mod damage;
pub mod disk;
pub mod log;
pub mod recovery;
mod semantics;
pub mod snapshot;

pub use semantics::Semantics;
