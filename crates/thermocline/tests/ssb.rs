//! The 13 SSB queries give DuckDB's rows in every format, mode, cache state and topology.
//!
//! `THERMOCLINE_SSB_SCALE=1` runs them at scale 1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use support::data;
use support::everywhere::Everywhere;
use support::s3::S3Server;
use support::topology::NodeProcess;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

async fn everywhere(format: Format) {
    let everywhere = Everywhere::new(&Workload::SSB, format);
    everywhere.embedded_and_spread().await;

    // The folder above the data is the S3 server's root, so that the data is a bucket.
    let data = data::ssb(format);
    let bucket = data.file_name().unwrap().to_str().unwrap();
    let server = S3Server::start(data.parent().unwrap());
    let node = NodeProcess::start(&format!("s3://{bucket}"), "127.0.0.1:0", &[], &server.environment());
    everywhere.modes(&format!("thermocline://{}", node.address)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_everywhere() {
    everywhere(Format::Parquet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_everywhere() {
    everywhere(Format::Csv).await;
}
