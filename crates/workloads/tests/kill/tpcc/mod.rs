//! TPC-C: what was acknowledged is there with all its parts, and all that is there was asked for.

mod check;
mod state;

pub use check::anomalies;
pub use state::State;
