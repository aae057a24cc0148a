//! `thermocline calibrate`: measures a table's storages and fits the runtime model to them.
//!
//! ```text
//! command: database, table --> workloads::calibration --> report: errors, choices, parameters
//!                                                    +--> figures 4-1 to 4-3
//!                                                    +--> DB/calibration.json
//! ```

mod command;
mod report;
mod show;

pub use command::{CalibrateArgs, run};
