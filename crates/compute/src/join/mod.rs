//! Bloom joins: the build side's keys, collected on their way into a hash join.

mod build_keys;
mod collect_keys;

pub(crate) use build_keys::{BuildKeys, FilterMaker};
pub use collect_keys::CollectKeysExec;
