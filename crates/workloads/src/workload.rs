//! An analytic workload, as drivers use it.

use crate::generate::{GenerateError, GenerateOptions, Progress, Summary, Table};
use crate::{ssb, tpch};

/// Writes objects and reports progress.
pub type Generate = fn(&GenerateOptions, &(dyn Fn(Progress) + Sync)) -> Result<Summary, GenerateError>;

/// Tables, their generator, and the queries over them.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// The tables, the fact table first.
    pub tables: &'static [Table],
    /// Name and SQL of the standard queries, in order.
    pub queries: &'static [(&'static str, &'static str)],
    /// Makes the objects of all tables.
    pub generate: Generate,
    /// Checks a scale as `generate` does, before anything is written.
    pub check_scale: fn(f64) -> Result<(), GenerateError>,
}

impl Workload {
    /// The Star Schema Benchmark.
    pub const SSB: Self = Self {
        name: "ssb",
        tables: &ssb::TABLES,
        queries: &ssb::QUERIES,
        generate: ssb::generate,
        check_scale: ssb::check_scale,
    };

    /// TPC-H.
    pub const TPCH: Self = Self {
        name: "tpch",
        tables: &tpch::TABLES,
        queries: &tpch::QUERIES,
        generate: tpch::generate,
        check_scale: tpch::check_scale,
    };
}
