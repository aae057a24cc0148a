//! Drivers, which run queries in a session and measure each as a [`Record`].

mod driver;
mod duckdb;
mod memory_table;
mod order;
mod record;
mod reference;
mod results;
mod statistics;

pub use driver::{Measurement, measure};
pub use duckdb::{DuckDb, DuckDbTables};
pub use record::{Counts, Record, result_hash};
pub use reference::{Reference, measure_reference, reference_context};
pub use results::Results;
pub use statistics::{AtPower, BreakEven, geometric_mean, median};
