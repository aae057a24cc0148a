//! `thermocline bench ssb-sweep`: the experiments of FlexPushdownDB, section 7.
//!
//! ```text
//! arguments -> Axes -> Chart (cells) -> Configuration -> Runner -> Outcome -> SVG, tables
//!                                       each once        JSON lines
//! ```

mod axes;
mod chart;
mod command;
mod configuration;
mod drawing;
mod experiments;
mod outcome;
mod record;
mod runner;
mod speed_ups;
mod tables;

pub use command::{SsbSweepArgs, ssb_sweep};
