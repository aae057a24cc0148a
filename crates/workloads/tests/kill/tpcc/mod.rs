//! TPC-C: acknowledged transactions are there with all their parts, and everything there was requested.

mod check;
mod state;

pub use check::anomalies;
pub use state::State;
