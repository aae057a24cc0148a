//! Workloads: standard data, queries and the drivers that measure with them.
//!
//! ```
//! use thermocline_workloads::ssb::{QUERIES, TABLES};
//! assert_eq!((QUERIES.len(), TABLES.len()), (13, 5));
//! ```
//!
//! Deliberately left out: engines. A driver is given something that answers SQL.

pub mod ssb;
