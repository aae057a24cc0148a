//! The hybrid scan: one operator over all partitions of a table, each on its own route.

mod arrow_message;
mod assemble;
mod bitmap;
mod by_index;
mod dynamic_filter;
mod encoded;
mod exchange;
mod expected;
mod group;
mod group_source;
mod hybrid_scan;
mod local;
mod morsels;
mod narrow;
mod output;
mod provider;
mod pushdown;
mod remote;
mod router;
mod run;
mod scan_plan;
mod work;

pub use hybrid_scan::HybridScanExec;
pub(crate) use provider::ExternalScan;
