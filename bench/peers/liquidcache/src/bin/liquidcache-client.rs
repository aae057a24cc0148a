//! LiquidCache's client: runs queries in this process, and scans with their filters at the server.
//!
//! `liquidcache-client ADDRESS DATA THREADS TABLE...`: the server, and the folder with a folder for each table.

use std::path::Path;

use datafusion::prelude::{ParquetReadOptions, SessionConfig};
use liquid_cache_datafusion_client::LiquidCacheClientBuilder;
use thermocline_peers::{Failure, answer_queries};

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: liquidcache-client ADDRESS DATA THREADS TABLE...");
    let (address, data, threads) = (next()?, next()?, next()?.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let config = SessionConfig::new().with_target_partitions(threads);
    let context = LiquidCacheClientBuilder::new(format!("http://{address}")).build(config)?;
    for table in arguments {
        let folder = format!("{}/", Path::new(&data).join(&table).display());
        runtime.block_on(context.register_parquet(&table, folder, ParquetReadOptions::default()))?;
    }
    answer_queries("LiquidCache 0.1.13", &runtime, &context)
}
