//! Calibrations that a database keeps.

pub use thermocline_compute::{
    CALIBRATION_FILE, Calibration, CalibrationFile, CalibrationFileError, FittedErrors, FittedMode, HereIdentity,
    NodeIdentity, Rates,
};
