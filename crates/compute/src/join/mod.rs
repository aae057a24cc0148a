//! Operators below joins: collecting a build side's keys, and running a build side twice.

mod build_keys;
mod collect_keys;
mod restartable;

pub(crate) use build_keys::{BuildKeys, FilterMaker};
pub use collect_keys::CollectKeysExec;
pub use restartable::RestartableExec;
