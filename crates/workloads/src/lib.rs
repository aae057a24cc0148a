//! Workloads: standard data and queries, drivers that measure them, and figures of the results.
//!
//! ```
//! use thermocline_workloads::Workload;
//! assert_eq!((Workload::SSB.queries.len(), Workload::SSB.tables.len()), (13, 5));
//! assert_eq!((Workload::TPCH.queries.len(), Workload::TPCH.tables.len()), (22, 8));
//! ```
//!
//! Left out: the processes that a measurement runs against, and files of results, both in the binary.

pub mod bench;
pub mod calibration;
pub mod figures;
pub mod generate;
pub mod oltp;
pub mod ssb;
pub mod tpcc;
pub mod tpch;
mod workload;
pub mod ycsb;

pub use workload::{Generate, Workload};
