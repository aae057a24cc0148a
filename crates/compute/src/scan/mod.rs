//! The hybrid scan: one operator over all partitions of a table, each on its own route.

mod arrow_message;
mod assemble;
mod bitmap;
mod by_index;
mod dynamic_filter;
mod expected;
mod group;
mod group_source;
mod hybrid_scan;
mod local;
mod morsels;
mod provider;
mod remote;
mod router;
mod run;

pub use hybrid_scan::HybridScanExec;
pub(crate) use provider::ExternalScan;
