//! Rows of one partition, and the transaction that runs on them.
//!
//! ```text
//! begin -> statements, through Scope -> commit: digest, effects, pre-images
//!                                    -> abort: everything as it was
//! ```
//!
//! A partition runs one transaction at a time, so nothing in it is locked. A transaction over several partitions has
//! all of them to itself; the engine decides where it runs.

mod choice;
mod eviction;
mod filling;
mod lost;
mod needed;
mod participants;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod partition;
pub mod reader;
mod rounds;
mod scope;
mod transaction;
mod turns;
mod waits;

pub use eviction::{FetchedRow, Wanted, WantedId, WantedRow};
pub use filling::Filling;
pub use lost::{LostRows, lost_text};
pub use needed::NeededRows;
pub use participants::Participants;
pub use partition::being_built;
pub use partition::{Partition, PreImages};
pub use scope::{Member, Scope};
pub use transaction::{Head, Transaction};
pub use waits::WaitStatistics;

pub use crate::table::Digest;
