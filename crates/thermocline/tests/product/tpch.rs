//! The 22 TPC-H queries give DuckDB's rows in every format, mode, cache state and topology.
//!
//! `THERMOCLINE_TPCH_SCALE=1` runs them at scale 1.

use crate::support::everywhere::Everywhere;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

#[tokio::test(flavor = "multi_thread")]
async fn parquet_everywhere() {
    Everywhere::new(&Workload::TPCH, Format::Parquet).embedded_and_spread().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_everywhere() {
    Everywhere::new(&Workload::TPCH, Format::Csv).embedded_and_spread().await;
}
