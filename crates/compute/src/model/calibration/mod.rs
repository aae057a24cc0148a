//! Calibrations: what `thermocline calibrate` has measured of a storage, kept with the database (thesis section 4.3).
//!
//! ```text
//! thermocline calibrate --> Calibration --> DB/calibration.json
//!                                                |  when a table at the storage is first planned with:
//!                                                v  version and hardware as they were?
//!                              yes: StorageRates and decoding begin with it
//!                              no:  a warning, and the defaults with the probe
//! ```

mod error;
mod file;
mod identity;
mod record;

pub use error::CalibrationFileError;
pub use file::{CALIBRATION_FILE, CalibrationFile};
pub use identity::{HereIdentity, NodeIdentity};
#[cfg(test)]
pub(super) use record::tests::calibration;
pub use record::{Calibration, FittedErrors, FittedMode, Rates};
