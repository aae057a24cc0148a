//! The 13 SSB queries give DuckDB's rows in every format, mode, cache state and topology.
//!
//! `THERMOCLINE_SSB_SCALE=1` runs them at scale 1.

use crate::support::data;
use crate::support::everywhere::Everywhere;
use crate::support::s3::S3Server;
use crate::support::topology::NodeProcess;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

async fn everywhere(format: Format) {
    let everywhere = Everywhere::new(&Workload::SSB, format);
    everywhere.embedded_and_spread().await;

    // The parent folder of the data is the S3 server's root, so that the data is a bucket.
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
