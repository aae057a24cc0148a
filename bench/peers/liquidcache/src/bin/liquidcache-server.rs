//! LiquidCache's server over the files of this machine.
//!
//! `liquidcache-server PORT CACHE_BYTES DIRECTORY`: the directory gets what the cache squeezes out of memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use arrow_flight::flight_service_server::FlightServiceServer;
use liquid_cache_datafusion_server::LiquidCacheService;
use liquid_cache_datafusion_server::storage::cache::AlwaysHydrate;
use liquid_cache_datafusion_server::storage::cache::squeeze_policies::TranscodeSqueezeEvict;
use liquid_cache_datafusion_server::storage::cache_policies::LiquidPolicy;
use serde_json::json;
use thermocline_peers::{Failure, answer_requests};
use tonic::transport::Server;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: liquidcache-server PORT CACHE_BYTES DIRECTORY");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, next()?.parse()?));
    let cache_bytes: usize = next()?.parse()?;
    let directory = PathBuf::from(next()?);
    let runtime = tokio::runtime::Runtime::new()?;
    // The policies that LiquidCacheService::try_new chooses.
    let service = runtime.block_on(LiquidCacheService::new(
        LiquidCacheService::context()?,
        Some(cache_bytes),
        Some(directory),
        Box::new(LiquidPolicy::new()),
        Box::new(TranscodeSqueezeEvict),
        Box::new(AlwaysHydrate::new()),
    ))?;
    let cache = service.cache().clone();
    let server = Server::builder().add_service(FlightServiceServer::new(service));
    runtime.spawn(async move {
        if let Err(error) = server.serve(address).await {
            eprintln!("{address}: {error}");
            std::process::exit(1);
        }
    });
    answer_requests("LiquidCache 0.1.13", |_cached| Ok(json!({ "bytes": cache.memory_usage_bytes() })))
}
