//! `thermocline storage`: a storage node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use thermocline_pushdown::units::{parse_duration, parse_rate, parse_size};
use thermocline_storage::{Arbitration, ClientLimits, NodeConfig, PushbackPolicy, Root, StorageNode, serve};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use super::failure::notice;
use super::output;

/// Arguments of `thermocline storage`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StorageArgs {
    /// Directory to serve, or s3://bucket/prefix with the usual AWS_* variables
    #[arg(value_name = "ROOT")]
    root: String,

    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:32020")]
    listen: String,

    /// Allow an address that other machines can reach, although there is no authentication yet
    #[arg(long)]
    insecure_listen: bool,

    /// Limit the node's outgoing traffic, such as 1Gbps or 100MiB/s
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    egress_limit: Option<u64>,

    /// Fragments of queries that run at once [default: twice the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pushdown_slots: Option<u32>,

    /// Transfers of stored bytes that a busy node may request at once instead of running fragments; 0: none while its
    /// queue has room
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pushback_slots: u32,

    /// Order of waiting fragments: pa-aware, by the time saved by running them here, or fifo
    #[arg(long, value_name = "ORDER", default_value = "pa-aware", value_parser = parsed::<Arbitration>)]
    arbitration: Arbitration,

    /// Compute power of a running fragment, as a share of a core above 0 and at most 1, for experiments
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_power)]
    compute_power: f64,

    /// Bandwidth of the link to the compute nodes, such as 1Gbps; limits nothing, but tells the node when a fragment
    /// pays [default: the egress limit, or the measured bandwidth]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bandwidth: Option<u64>,

    /// Longest time that a reader may take nothing of its answer before it is given up [default: as long as its
    /// connection answers pings]
    #[arg(long, value_name = "DURATION", value_parser = parse_deadline)]
    reader_wait: Option<Duration>,

    /// Silence after which a connection is pinged, and longest wait for the answer, after which it is closed and its
    /// requests are stopped [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_deadline)]
    keepalive: Option<Duration>,

    /// Push back none, half or all of the fragments, for tests
    #[arg(long, value_name = "WHICH", default_value = "adaptive", hide = true, value_parser = parsed::<PushbackPolicy>)]
    pushback: PushbackPolicy,

    /// Memory limit: half for operators of fragments, a quarter for the data that they read, an eighth for requests and
    /// answers in transit, the rest for split points and everything else [default: 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<u64>,

    /// Directory of indexes [default: .thermocline/index below a local ROOT]
    #[arg(long, value_name = "DIR")]
    index_dir: Option<PathBuf>,

    /// Limit on disk space of indexes [default: 64GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    index_limit: Option<u64>,

    /// Limit on disk space of indexes requested by one client [default: 32GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    index_limit_per_client: Option<u64>,

    /// Maximum connections; further ones are closed [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,

    /// Maximum connections of one client, which is an address [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections_per_client: Option<u32>,

    /// Maximum requests; clients must retry further ones [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: Option<u32>,

    /// Maximum requests of one client [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_client: Option<u32>,

    /// Longest time of a request, not counting time in which its reader takes nothing, such as 30s or 5min [default:
    /// 1h]
    #[arg(long, value_name = "DURATION", value_parser = parse_deadline)]
    deadline: Option<Duration>,

    /// Stop at the end of standard input: the process that holds its other end is gone, however it ended
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

const EXAMPLES: &str = "\
Prints one line when it is ready. SIGINT or SIGTERM stops it; answers under way get 2 seconds.

Examples:
  thermocline storage /data
  thermocline storage /data --listen 127.0.0.1:0 --egress-limit 1Gbps
  thermocline storage /data --pushdown-slots 2 --pushback-slots 4 --bandwidth 1Gbps
  thermocline storage s3://bucket/warehouse --pushdown-slots 8 --memory-limit 4GiB
  thermocline storage s3://bucket/warehouse --index-dir /var/lib/thermocline/index

Then, in thermocline sql:
  CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://127.0.0.1:32020/t';";

/// Time for answers in progress when the node stops.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Runs the command.
///
/// # Errors
/// See [`Failure`].
pub async fn run(arguments: StorageArgs) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let address = address(&arguments.listen).await?;
    if !address.ip().is_loopback() && !arguments.insecure_listen {
        return Err(Failure::Failed(format!(
            "{address} can be reached by other machines, and a storage node has no authentication yet; \
             listen on 127.0.0.1, or give --insecure-listen"
        )));
    }
    let root = Root::open(&arguments.root).map_err(|error| failed(&error).context("ROOT"))?;
    let node = StorageNode::new(root, config(&arguments)).map_err(|error| failed(&error))?;
    let label = node.label().to_owned();
    // Installed before the line is printed: a process that waits for the line may send them.
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [mut interrupt, mut terminate] = match signals {
        [Ok(interrupt), Ok(terminate)] => [interrupt, terminate],
        _ => return Err(Failure::Failed("signals cannot be listened to".to_owned())),
    };
    let mut server = serve(node, address).await.map_err(|error| failed(&error).context(address))?;
    let address = server.address();
    if !address.ip().is_loopback() {
        notice(format_args!(
            "warning: {address} is open without authentication or encryption: whoever reaches it can read every \
             object below {label} and run fragments of queries on this machine"
        ));
    }
    // The line need not be read.
    match output::print(format!("storage node for {label} listening on {address}\n").as_bytes()) {
        Ok(()) | Err(Failure::OutputClosed) => {}
        Err(failure) => return Err(failure),
    }
    let _closed = output::flush();
    tokio::select! {
        stopped = server.stopped() => {
            return stopped.map_err(|error| failed(&error).context("the storage node stopped"));
        }
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = stdin_ends(), if arguments.until_stdin_ends => {}
    }
    tokio::select! {
        () = server.shutdown() => {}
        () = tokio::time::sleep(STOP_WAIT) => tracing::warn!("answers under way were cut off"),
        // A second request to stop.
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Waits for the end of standard input, whatever it holds.
async fn stdin_ends() {
    // A thread of its own: the runtime would wait for one of its own to end.
    let (ended, ends) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _unreadable_is_ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(ended);
    });
    let _ended = ends.await;
}

fn config(arguments: &StorageArgs) -> NodeConfig {
    let defaults = NodeConfig::default();
    let count = |given: Option<u32>, default: usize| given.map_or(default, |count| count as usize);
    let clients = ClientLimits {
        connections_max: count(arguments.connections, defaults.clients.connections_max),
        connections_per_client_max: count(
            arguments.connections_per_client,
            defaults.clients.connections_per_client_max,
        ),
        requests_max: count(arguments.requests, defaults.clients.requests_max),
        requests_per_client_max: count(arguments.requests_per_client, defaults.clients.requests_per_client_max),
    };
    NodeConfig {
        clients,
        index_bytes_max: arguments.index_limit.unwrap_or(defaults.index_bytes_max),
        index_bytes_per_client_max: arguments.index_limit_per_client.unwrap_or(defaults.index_bytes_per_client_max),
        memory_limit: arguments
            .memory_limit
            .map_or(defaults.memory_limit, |size| usize::try_from(size).unwrap_or(usize::MAX)),
        pushdown_slots: arguments.pushdown_slots.map_or(defaults.pushdown_slots, |slots| slots as usize),
        fragment_threads: std::thread::available_parallelism().map_or(2, usize::from),
        pushback_slots: arguments.pushback_slots as usize,
        arbitration: arguments.arbitration,
        compute_power: arguments.compute_power,
        bandwidth: arguments.bandwidth,
        reader_wait_max: arguments.reader_wait,
        keepalive: arguments.keepalive.unwrap_or(defaults.keepalive),
        pushback: arguments.pushback,
        deadline_max: arguments.deadline.unwrap_or(defaults.deadline_max),
        egress: arguments.egress_limit,
        index_directory: arguments.index_dir.clone(),
        ..defaults
    }
}

async fn address(text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("--listen {text}: expected HOST:PORT, such as 127.0.0.1:32020 ({why})"))
    };
    let mut found = tokio::net::lookup_host(text).await.map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"no such host"))
}

fn parsed<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// Parses a share of a core.
///
/// # Errors
/// A sentence that names the text, for any other text.
pub fn parse_power(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(power) if power > 0.0 && power <= 1.0 => Ok(power),
        _ => Err(format!("'{text}' is not a share of a core: expected a number above 0 and at most 1")),
    }
}

/// A duration with a unit, of at least a millisecond.
fn parse_deadline(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        duration if duration >= Duration::from_millis(1) && text.ends_with(char::is_alphabetic) => Ok(duration),
        _ => Err(format!("'{text}' is not a deadline: expected at least 1ms, with a unit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_deadline("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_deadline("1.5 min"), Ok(Duration::from_secs(90)));
        assert!(parse_deadline("5").is_err());
        assert!(parse_deadline("0s").is_err());
        assert!(parse_deadline("soon").is_err());
    }

    #[test]
    fn compute_power_is_a_share() {
        assert_eq!(parse_power("0.25"), Ok(0.25));
        for wrong in ["0", "-1", "1.01", "NaN", "half"] {
            assert!(parse_power(wrong).unwrap_err().contains(wrong));
        }
    }
}
