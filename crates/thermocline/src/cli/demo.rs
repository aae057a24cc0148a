//! `thermocline demo`: the main features in one command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use thermocline_database::Database;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::format_size;
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Counts, Measurement, Record, measure};
use thermocline_workloads::ssb::{Format, QUERIES, TABLES, create_table_sql};

use super::node_process::{NodeOptions, NodeProcess};
use super::workload_data::workload_data;

/// Link between the storage node and this process.
const LINK: &str = "200Mbit/s";
/// SSB scale: about 36 MB of Parquet.
const SCALE: f64 = 0.3;
const PARTITION_SIZE: u64 = 2 << 20;
/// Segment cache: about half of the queries' working set, as in practice.
const CACHE_SIZE: &str = "32MiB";

/// Arguments of `thermocline demo`.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Keep generated data in this directory between runs [default: a folder of the user's cache]
    #[arg(long)]
    data: Option<PathBuf>,
}

/// All 13 queries of one mode, cold or warm.
struct Pass {
    mode: Mode,
    run: &'static str,
    records: Vec<Record>,
}

impl Pass {
    fn sum(&self, of: fn(&Counts) -> u64) -> u64 {
        self.records.iter().map(|record| record.count(of)).sum()
    }

    fn seconds(&self) -> f64 {
        self.records.iter().map(|record| record.seconds).sum()
    }

    fn hit_ratio(&self) -> String {
        let (hits, misses) = (self.sum(|counts| counts.segments_hit), self.sum(|counts| counts.segments_missed));
        match hits + misses {
            0 => "-".to_owned(),
            all => format!("{:.0} %", 100.0 * hits as f64 / all as f64),
        }
    }
}

/// Runs the demonstration and prints the results.
///
/// # Errors
/// If the data cannot be written, the node does not start, or the modes disagree.
pub async fn demo(args: DemoArgs) -> Result<()> {
    let started = Instant::now();
    let data = workload_data(&Workload::SSB, args.data, SCALE, Format::Parquet, PARTITION_SIZE)?;
    let node =
        NodeProcess::start(&data, &NodeOptions { egress_limit: Some(LINK.into()), ..NodeOptions::default() }).await?;
    say!("Star Schema Benchmark, scale {SCALE}, Parquet, behind a storage node with a link of {LINK}.");
    say!("Each mode runs the 13 queries twice: cold, with nothing cached, and warm.");
    say!("The segment cache holds {CACHE_SIZE}, about half of what the queries need.\n");

    let mut passes = vec![];
    for mode in Mode::ALL {
        let database = Database::in_memory().await?;
        database.set("cache_size", CACHE_SIZE)?;
        let session = database.session();
        session.set("mode", mode.name())?;
        for table in TABLES {
            session
                .run(&create_table_sql(table, Format::Parquet, &format!("thermocline://{}/{table}", node.address)))
                .await?;
        }
        for run in ["cold", "warm"] {
            eprint!("\r\x1b[K  {mode}, {run} ...");
            let measurement = Measurement {
                workload: Workload::SSB,
                scale: SCALE,
                format: Format::Parquet,
                egress_bytes_per_s: None,
            };
            let mut records = vec![];
            measure(&session, &measurement, QUERIES, "timed", |record, _| {
                records.push(record);
                Ok(())
            })
            .await?;
            passes.push(Pass { mode, run, records });
        }
    }
    eprint!("\r\x1b[K");
    check_equal(&passes)?;
    print_table(&passes);
    print_chart(&passes);
    say!(
        "\nEvery query gave the same rows in every mode. {:.0} s in all.\n\nTry it yourself, against the same data:\n",
        started.elapsed().as_secs_f64()
    );
    say!("  thermocline storage {} --listen 127.0.0.1:32020 --egress-limit {LINK}", data.display());
    say!(
        "  thermocline sql -c \"CREATE EXTERNAL TABLE lineorder STORED AS PARQUET LOCATION 'thermocline://127.0.0.1:32020/lineorder'\" \\"
    );
    say!("      -c \"EXPLAIN ANALYZE SELECT sum(lo_revenue) FROM lineorder WHERE lo_quantity < 5\"");
    Ok(())
}

fn check_equal(passes: &[Pass]) -> Result<()> {
    let mut hashes: BTreeMap<&str, &Option<String>> = BTreeMap::new();
    for pass in passes {
        for record in &pass.records {
            let first = hashes.entry(&record.query).or_insert(&record.result_hash);
            if **first != record.result_hash {
                return exec_err!("{} gave other rows in mode {}, {}", record.query, pass.mode, pass.run);
            }
        }
    }
    if hashes.is_empty() { Err(exec_datafusion_err!("no query ran")) } else { Ok(()) }
}

fn print_table(passes: &[Pass]) {
    say!(
        "{:<10}{:<6}{:>9}{:>13}{:>9}{:>7}{:>10}{:>8}{:>8}",
        "mode",
        "run",
        "seconds",
        "bytes moved",
        "local",
        "load",
        "pushdown",
        "pullup",
        "hits"
    );
    for pass in passes {
        say!(
            "{:<10}{:<6}{:>9.2}{:>13}{:>9}{:>7}{:>10}{:>8}{:>8}",
            pass.mode.name(),
            pass.run,
            pass.seconds(),
            format_size(pass.sum(|counts| counts.bytes_from_storage + counts.bytes_to_storage)),
            pass.sum(|counts| counts.partitions_local),
            pass.sum(|counts| counts.partitions_load),
            pass.sum(|counts| counts.partitions_pushdown),
            pass.sum(|counts| counts.partitions_pullup),
            pass.hit_ratio(),
        );
    }
}

fn print_chart(passes: &[Pass]) {
    const WIDTH: f64 = 50.0;
    let longest = passes.iter().map(Pass::seconds).fold(f64::MIN_POSITIVE, f64::max);
    say!("\nseconds for all 13 queries");
    for pass in passes {
        let bar = "█".repeat((pass.seconds() / longest * WIDTH).round().max(1.0) as usize);
        say!("{:<9} {:<5} {bar} {:.2}", pass.mode.name(), pass.run, pass.seconds());
    }
}
