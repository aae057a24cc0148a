//! The Star Schema Benchmark (SSB): data generator, the 13 queries, random query batches.
//!
//! The distributions are those of SSB `dbgen` (O'Neil et al., *Star Schema Benchmark*, rev. 3);
//! the random numbers are not, so single rows differ from `dbgen` while selectivities agree.
//! `lineorder` comes out sorted by `lo_orderdate`, without a sort: the number of orders of each
//! day is drawn first, then the orders are made in day order. Every row depends only on the
//! scale and its own number, so any range of rows can be made by any thread, in bounded memory.
//!
//! ```text
//! sizes -> source (rows of one table) -> crate::generate (objects, threads)
//!             customer, supplier, part,
//!             dates, lineorder
//! ```
//!
//! ```
//! use std::path::PathBuf;
//! # let directory = tempfile::tempdir()?;
//! # let out: PathBuf = directory.path().to_path_buf();
//! # use thermocline_workloads::ssb;
//! let options = ssb::GenerateOptions {
//!     scale: 0.001,
//!     format: ssb::Format::Parquet,
//!     partition_size: 1 << 20,
//!     out,
//!     threads: 1,
//! };
//! let summary = ssb::generate(&options, &|_| {})?;
//! assert_eq!(summary.tables.len(), ssb::TABLES.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Departures from `dbgen`, each of them a fault there or a nuisance here:
//! - `d_date` is `January 1 1992`, without the comma, so that no CSV field needs quotes;
//!   addresses have no commas for the same reason.
//! - Month names, month ends, weekdays and flags are right, and every day has a season.
//! - `p_brand1` has two digits after the category (`MFGR#1101`), so text order is number order.
//!
//! Left out: the refresh streams of `dbgen`, and NULLs (SSB has none).

mod batch;
mod calendar;
mod customer;
mod dates;
mod generate;
mod geography;
mod lineorder;
mod part;
mod queries;
mod random;
mod schema;
mod sizes;
mod supplier;

#[cfg(test)]
mod tests;

pub use batch::{BatchQuery, batch, reshuffle, wlfu_batch};
pub use generate::{check_scale, generate};
pub use queries::QUERIES;
pub(crate) use random::{Rng, Stream};
pub use schema::{CUSTOMER, DATES, LINEORDER, PART, SUPPLIER, TABLES};

pub use crate::generate::{Format, GenerateOptions, create_table_sql, schema};
