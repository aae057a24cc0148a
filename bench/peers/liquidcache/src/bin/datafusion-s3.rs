//! DataFusion of LiquidCache's version over an object store, without any cache of data.
//!
//! `datafusion-s3 ENDPOINT BUCKET THREADS TABLE...` with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`.

use std::sync::Arc;

use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use object_store::aws::AmazonS3Builder;
use thermocline_peers::{Failure, answer_queries};
use url::Url;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: datafusion-s3 ENDPOINT BUCKET THREADS TABLE...");
    let (endpoint, bucket, threads) = (next()?, next()?, next()?.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(&bucket)
        .with_endpoint(format!("http://{endpoint}"))
        .with_allow_http(true)
        .build()?;
    context.register_object_store(&Url::parse(&format!("s3://{bucket}"))?, Arc::new(store));
    for table in arguments {
        let folder = format!("s3://{bucket}/{table}/");
        runtime.block_on(context.register_parquet(&table, folder, ParquetReadOptions::default()))?;
    }
    answer_queries(&format!("DataFusion {}", datafusion::DATAFUSION_VERSION), &runtime, &context)
}
