//! Below joins: the build side's keys, collected on their way into a hash join, and build sides that run twice.

mod build_keys;
mod collect_keys;
mod restartable;

pub(crate) use build_keys::{BuildKeys, FilterMaker};
pub use collect_keys::CollectKeysExec;
pub use restartable::RestartableExec;
