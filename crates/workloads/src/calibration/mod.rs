//! Calibration of the runtime model by synthetic queries, and the thesis's model of modes (thesis chapter 4).
//!
//! ```text
//! table at a storage -> Subject: a column to filter by, sets of columns, partitions
//! Axes -> Settings: sizes, selectivities; some for validation
//!         |  each in caching, pushdown, hybrid, with a share of its partitions cached
//!         v
//! Measured -> regression per mode -> Calibrated: parameters, errors, choices --> figures 4-1 to 4-3
//! ThesisModel: parameters -> the fastest mode over bandwidths -----------------> figures 4-4 to 4-6
//! ```
//!
//! Left out: the calibration file and how the engine uses it (`thermocline-compute`), and writing figures to disk (the
//! binary).

mod accuracy;
mod calibrate;
mod design;
mod error;
mod figures;
mod filter_column;
mod inputs;
pub mod kept;
mod measure;
mod memory;
mod mode_model;
mod model_map;
mod regression;
mod run;
mod subject;
mod thesis_model;

pub use accuracy::{AutoOutcomes, Choices, Errors};
pub use calibrate::{CalibrateOptions, Calibrated, Observation, calibrate, storages};
pub use design::{Axes, Setting};
pub use error::{CalibrationError, Size};
pub use figures::{compute_figure, hit_ratio_figure, pushdown_figure};
pub use inputs::Inputs;
pub use measure::Progress;
pub use memory::cached_bytes_max;
pub use mode_model::ModeModel;
pub use model_map::{MapAxes, SETTINGS, map_figure};
pub use thesis_model::{Selectivity, ThesisModel};
