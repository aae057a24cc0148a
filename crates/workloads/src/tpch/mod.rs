//! TPC-H: data generator and the 22 queries.
//!
//! The rows are those of the specification's `dbgen`, made by `tpchgen`. Any range of them can be
//! made by any thread, in bounded memory.
//!
//! ```text
//! source (units) -> tables (tpchgen's rows to columns) -> crate::generate (objects, threads)
//! ```
//!
//! ```
//! use thermocline_workloads::tpch::{QUERIES, TABLES};
//! assert_eq!((QUERIES.len(), TABLES.len()), (22, 8));
//! ```
//!
//! Left out: the refresh functions, and query parameters other than those of the specification's
//! validation and of the five [`SELECTIVITY_QUERIES`].

mod generate;
mod queries;
mod schema;
mod selectivity;
mod source;
mod tables;

#[cfg(test)]
mod tests;

pub use generate::{check_scale, generate};
pub use queries::QUERIES;
pub use schema::{CUSTOMER, LINEITEM, NATION, ORDERS, PART, PARTSUPP, REGION, SUPPLIER, TABLES};
pub use selectivity::{SELECTIVITY_QUERIES, SelectivityQuery};
