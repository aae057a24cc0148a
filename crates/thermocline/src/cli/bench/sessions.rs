//! `thermocline bench sessions`: statements by key through sessions of a database, one and many at a time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use datafusion::common::exec_datafusion_err;
use serde_json::json;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_workloads::oltp::Latencies;
use tokio::task::JoinSet;

use super::super::Failure;
use super::sink::JsonLines;

/// Arguments of `thermocline bench sessions`.
#[derive(Debug, clap::Args)]
pub struct SessionsArgs {
    /// Use few rows and short runs, under a minute, unless other arguments say otherwise
    #[arg(long)]
    quick: bool,
    /// Concurrent sessions, comma separated; one run for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    sessions: Vec<u16>,
    /// Rows of the table [default: 1000000, with --quick 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rows: Option<u32>,
    /// Seconds of each run [default: 5, with --quick 0.5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Write one JSON object per run to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Statements that each session repeats, with a key in place of `{}`.
const STATEMENTS: [(&str, &str); 4] = [
    ("select", "SELECT v FROM t WHERE k = {}"),
    ("execute", "EXECUTE point({})"),
    ("update", "UPDATE t SET v = v + 1 WHERE k = {}"),
    ("analytic", "SELECT count(*) OVER () FROM t WHERE k = {}"),
];

/// Runs the bench and prints a line for each run.
///
/// # Errors
/// If an argument is invalid or a statement fails.
pub async fn sessions(args: SessionsArgs) -> Result<(), Failure> {
    let rows = args.rows.unwrap_or(if args.quick { 10_000 } else { 1_000_000 });
    let seconds = args.seconds.unwrap_or(if args.quick { 0.5 } else { 5.0 });
    let length = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Failure::Usage(format!("--seconds {seconds}: expected a number of seconds")))?;
    let mut json = JsonLines::new(args.json.as_ref())?;
    let database = Database::open(OpenOptions::default().with("row_memory_limit", "8GiB"), |_| {}).await?;
    let first = database.session();
    first.run("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL) PARTITION BY (k)").await?;
    first.run(&format!("INSERT INTO t SELECT value, 0 FROM generate_series(0, {}) AS g(value)", rows - 1)).await?;
    say!("{:<10}{:>10}{:>14}{:>10}{:>10}{:>10}", "statement", "sessions", "a second", "p50 us", "p99 us", "p99.9 us");
    for (name, statement) in STATEMENTS {
        for count in &args.sessions {
            let measured = run(&database, statement, *count, rows, length).await?;
            let micros = |share| measured.latencies.quantile(share).as_micros() as u64;
            let per_second = measured.statements as f64 / measured.seconds;
            say!("{name:<10}{count:>10}{per_second:>14.0}{:>10}{:>10}{:>10}", micros(0.5), micros(0.99), micros(0.999));
            let record = json!({
                "workload": "sessions", "statement": name, "sessions": count, "rows": rows, "seconds": measured.seconds,
                "statements": measured.statements, "statements_per_s": per_second,
                "p50_us": micros(0.5), "p99_us": micros(0.99), "p999_us": micros(0.999),
            });
            json.put(&record, serde_json::Value::Null)?;
        }
    }
    json.flush()?;
    first.close().await?;
    Ok(database.close().await?)
}

struct Measured {
    statements: u64,
    seconds: f64,
    latencies: Latencies,
}

async fn run(
    database: &Database,
    statement: &'static str,
    count: u16,
    rows: u32,
    length: Duration,
) -> Result<Measured, Failure> {
    let started = Instant::now();
    let until = started + length;
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let session = database.session();
        session.run("PREPARE point AS SELECT v FROM t WHERE k = $1").await?;
        tasks.spawn(repeat(session, statement, u64::from(number) + 1, rows, until));
    }
    let mut all = Measured { statements: 0, seconds: 0.0, latencies: Latencies::default() };
    while let Some(done) = tasks.join_next().await {
        let done = done.map_err(|error| exec_datafusion_err!("a session has panicked: {error}"))?;
        let (statements, latencies) = done?;
        all.statements += statements;
        all.latencies.add(&latencies);
    }
    all.seconds = started.elapsed().as_secs_f64();
    Ok(all)
}

/// One session's statements, one after the other.
async fn repeat(
    session: Session,
    statement: &'static str,
    seed: u64,
    rows: u32,
    until: Instant,
) -> thermocline_database::Result<(u64, Latencies)> {
    let (mut statements, mut latencies) = (0, Latencies::default());
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    loop {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let sql = statement.replace("{}", &(state % u64::from(rows)).to_string());
        let result = session.run(&sql).await?;
        if result.rows() != 1 && result.affected != Some(1) {
            let message = format!("{sql}: {} rows, {:?} changed", result.rows(), result.affected);
            return Err(thermocline_database::Error::new("XX000", message));
        }
        latencies.record(begun.elapsed());
        statements += 1;
    }
    session.close().await?;
    Ok((statements, latencies))
}
