//! Drivers: they run queries in a session and say what each took, one [`Record`] a query.

mod driver;
mod record;
mod reference;

pub use driver::{Measurement, measure};
pub use record::{Record, result_hash};
pub use reference::{Reference, measure_reference};
