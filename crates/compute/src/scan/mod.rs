//! The hybrid scan: one operator over all partitions of a table, each on its own route.

mod answers;
mod arrow_message;
mod assemble;
mod auto;
mod bitmap;
mod by_index;
mod candidate;
mod costing;
mod dynamic_filter;
mod encoded;
mod exchange;
mod expected;
mod group;
mod group_source;
mod hybrid_scan;
mod kept_source;
mod loading;
mod local;
mod morsels;
mod narrow;
mod output;
mod poll_time;
mod probe;
mod provider;
mod pushdown;
mod recorded;
mod remote;
mod router;
mod run;
mod scan_plan;
mod segments;
mod work;

pub use hybrid_scan::HybridScanExec;
pub(crate) use provider::ExternalScan;
