//! The runtime model: seconds that a partition takes on each route (thesis chapter 4), corrected by what requests take.

mod balance;
mod calibration;
mod calibrations;
mod cost;
mod credit;
mod estimate;
mod link;
mod ratio;
mod runtime_model;
mod storage_rates;

pub(crate) use balance::{Options, balance};
pub use calibration::{
    CALIBRATION_FILE, Calibration, CalibrationFile, CalibrationFileError, FittedErrors, FittedMode, HereIdentity,
    NodeIdentity, Rates,
};
pub use calibrations::{CalibrationState, Calibrations};
pub(crate) use cost::{Capacity, Cost, Load};
pub(crate) use credit::{Credit, ScanTime, Terms};
pub(crate) use link::Transfer;
pub(crate) use runtime_model::{DecodeKind, RuntimeModel, Unexpected};
pub(crate) use storage_rates::{Outstanding, Probe, StorageRates, UnderWay};
