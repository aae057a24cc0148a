//! Workloads: standard data, queries and the drivers that measure with them.
//!
//! ```
//! use thermocline_workloads::ssb::{QUERIES, TABLES};
//! assert_eq!((QUERIES.len(), TABLES.len()), (13, 5));
//! ```
//!
//! Deliberately left out: the processes that a measurement runs against, and files of results
//! (the binary starts and writes those).

pub mod bench;
pub mod ssb;
