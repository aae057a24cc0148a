//! Parts shared by the transactional workloads: clients that keep the row engine busy, and their measurements.
//!
//! ```text
//! Calls --Call--> drive: one thread a client, several calls in flight each --> Measured --> TransactionRecord
//! Inserts ------> the rows of a load
//! ```
//!
//! Clients are threads of this process. Each has several calls in flight at any time, like an application with many
//! sessions: with one call at a time, the measurement would show the disk's latency, because results wait for their
//! group of the log.

mod drive;
mod inserts;
mod language;
mod latencies;
mod measured;
mod record;
mod resident;
mod scan;

pub use drive::{Call, Calls, DriveOptions, drive};
pub use inserts::Inserts;
pub use language::Language;
pub use latencies::Latencies;
pub use measured::{EvictionCounts, Measured, Moment, Tally};
pub use record::TransactionRecord;
pub use resident::Resident;
pub use scan::{Scan, scan, scanning};
