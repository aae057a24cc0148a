//! Parts shared by the transactional workloads: clients that keep the row engine busy, and their measurements.
//!
//! ```text
//! Calls --Call--> drive: one thread a client, several calls in flight each --> Measured --> TransactionRecord
//! Inserts ------> the rows of a load
//! ```
//!
//! Clients are threads of this process. Each has several calls on their way at any time, as an
//! application with many sessions has: with one call at a time it would be the disk's latency that is
//! measured, because results wait for the group of the log that they are in.

mod drive;
mod inserts;
mod language;
mod latencies;
mod measured;
mod record;
mod resident;

pub use drive::{Call, Calls, DriveOptions, drive};
pub use inserts::Inserts;
pub use language::Language;
pub use latencies::Latencies;
pub use measured::{Measured, Tally};
pub use record::TransactionRecord;
pub use resident::Resident;
