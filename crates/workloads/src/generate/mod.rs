//! Generators: write the rows of a workload's tables to objects in a folder, on all cores.
//!
//! A workload defines its tables and makes their rows; everything else is shared.
//!
//! ```text
//! source (rows of one table) -> plan (rows per object) -> run (threads, progress)
//!                                                              |
//!                                               write (temporary name, rename)
//!                                                              |
//!                                            encode (Parquet, or CSV by csv)
//! ```
//!
//! The bytes of an object depend only on scale, format and partition size, so repeating an interrupted run in an empty
//! folder gives the same objects.

mod csv;
mod encode;
mod plan;
mod run;
mod source;
mod table;
mod write;

pub use encode::{EncodeError, Format};
pub use run::{GenerateError, GenerateOptions, PARTITION_SIZE_MIN, Progress, Summary, TableSummary};
pub use table::{Table, create_duckdb_sql, create_table_sql, schema};

pub(crate) use run::generate;
pub(crate) use source::{Source, Words, dates, decimals, integers, longs, texts};
pub(crate) use table::Kind;
