//! Drivers: they run queries in a session and say what each took, one [`Record`] a query.

mod driver;
mod record;
mod reference;
mod statistics;

pub use driver::{Measurement, measure};
pub use record::{Record, result_hash};
pub use reference::{Reference, measure_reference};
pub use statistics::{AtPower, BreakEven, geometric_mean, median};
