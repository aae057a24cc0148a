//! One execution of one query, and what all of them share.

mod admission;
mod cpu_load;
mod file_tables;
mod memory_watch;
mod query_context;
mod resources;
mod scan_metrics;
mod timeout;
mod trace_recorder;

pub(crate) use admission::Turn;
pub(crate) use file_tables::FilesKey;
pub use memory_watch::HeapGauges;
pub use query_context::{QueryContext, QueryStats};
pub(crate) use resources::{Absent, RunningScan};
pub use resources::{QueryRecord, Resources};
pub use scan_metrics::ScanMetrics;
pub use timeout::StatementTimeout;
pub(crate) use timeout::within;
