//! Shared parts of the integration tests: the program, the DuckDB oracle, data, topologies, rows, figures, records.

#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod compression;
pub mod data;
pub mod everywhere;
pub mod figure;
pub mod oracle;
pub mod program;
pub mod record;
pub mod rows;
pub mod s3;
pub mod terminal;
pub mod topology;
