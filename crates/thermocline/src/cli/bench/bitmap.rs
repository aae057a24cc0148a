//! `thermocline bench bitmap`: selection bitmaps compared with pushdown without them, over the share of `lineitem` that
//! five TPC-H queries select (Enhancing Computation Pushdown section 6.3.1).

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result as DataFusionResult, exec_err};
use serde_json::json;
use thermocline_database::Session;
use thermocline_pushdown::units::{format_size, parse_rate};
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, measure};
use thermocline_workloads::figures::{Axis, Caption, Point, Quantity, Scale, lines};
use thermocline_workloads::generate::Format;
use thermocline_workloads::tpch::{SELECTIVITY_QUERIES, SelectivityQuery};

use super::super::Failure;
use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::workload_data;
use super::arguments::{at_least, check_scale, distinct, format, number, rate};
use super::common::CommonArgs;
use super::experiment::{PARTITION_SIZE, QUICK_SCALE};
use super::figures::{Figures, FiguresArgs};
use super::sink::JsonLines;

/// Arguments of `thermocline bench bitmap`.
#[derive(Debug, clap::Args)]
pub struct BitmapArgs {
    /// Scale factor [default: 1, with --quick 0.05]
    #[arg(long)]
    scale: Option<f64>,
    /// parquet or csv
    #[arg(long, default_value = "parquet", value_parser = format)]
    format: Format,
    /// Queries to run, comma separated: some of Q3, Q4, Q12, Q14 and Q19
    #[arg(long, value_delimiter = ',', default_value = "3,4,12,14,19")]
    queries: Vec<String>,
    /// Shares of lineitem to select; 0 stands for the smallest share above zero [default: 0 to 0.9 in steps of 0.1,
    /// with --quick 0,0.5,0.9]
    #[arg(long, value_delimiter = ',', value_parser = share)]
    selectivities: Vec<f64>,
    /// Limit of the storage node's link
    #[arg(long, default_value = "1Gbps", value_parser = rate)]
    egress_limit: String,
    /// Let joins filter lineitem by Bloom filters or lists of their keys, with and without bitmaps; otherwise only the
    /// filter of varying selectivity does
    #[arg(long)]
    join_filters: bool,
    /// Timed runs of each query
    #[arg(long, default_value_t = 1, value_parser = at_least(1))]
    passes: usize,
    #[command(flatten)]
    figures: FiguresArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Shares of lineitem.
const SELECTIVITIES: [f64; 10] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Shares of lineitem with `--quick`.
const QUICK_SELECTIVITIES: [f64; 3] = [0.0, 0.5, 0.9];
/// Setting for the largest list of build keys.
const INLIST_SETTING: &str = "datafusion.optimizer.hash_join_inlist_pushdown_max_size";

/// Columns of `lineitem` in the cache, which determine the side that makes the bitmap.
#[derive(Debug, Clone, Copy)]
enum Direction {
    /// The output's columns other than the predicate's: the bitmap comes from storage.
    Storage,
    /// The predicate's columns: the bitmap goes to storage.
    Compute,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Storage => "storage",
            Direction::Compute => "compute",
        }
    }

    fn cached(self, query: &SelectivityQuery) -> Vec<&'static str> {
        match self {
            Direction::Storage => {
                query.output.iter().filter(|column| !query.predicate.contains(column)).copied().collect()
            }
            Direction::Compute => query.predicate.to_vec(),
        }
    }
}

/// One session, the columns of `lineitem` that its cache is to hold, and its measurements.
struct Side {
    session: Session,
    bitmaps: bool,
}

/// Runs the experiment.
///
/// # Errors
/// If an argument is invalid, a query fails, or bitmaps change a result.
pub async fn bitmap(args: BitmapArgs) -> Result<(), Failure> {
    let quick = args.common.quick;
    let scale = args.scale.unwrap_or(if quick { QUICK_SCALE } else { 1.0 });
    let selectivities = match args.selectivities.as_slice() {
        [] if quick => &QUICK_SELECTIVITIES,
        [] => &SELECTIVITIES[..],
        given => given,
    };
    distinct("--selectivities", selectivities)?;
    check_scale(&Workload::TPCH, scale)?;
    args.common.refuse_own(&["mode", "cache_size", "pushback", "bitmaps"])?;
    if !args.join_filters {
        args.common.refuse_own(&["bloom_filters", INLIST_SETTING])?;
    }
    let queries = args.queries.iter().map(|name| query_named(name)).collect::<Result<Vec<_>, Failure>>()?;
    distinct("--queries", &queries.iter().map(|query| query.name).collect::<Vec<_>>())?;
    let measurement = Measurement {
        workload: Workload::TPCH,
        scale,
        format: args.format,
        egress_bytes_per_s: Some(parse_rate(&args.egress_limit).map_err(Failure::Usage)?),
    };
    let figures = Figures::new(&args.figures)?;
    let mut output = Output { json: JsonLines::new(args.common.json.as_ref())?, drawn: vec![] };
    let data = workload_data(&measurement.workload, args.common.data.clone(), scale, args.format, PARTITION_SIZE)?;
    let options = NodeOptions { egress_limit: Some(args.egress_limit.clone()), ..NodeOptions::default() };
    let node = NodeProcess::start(&data, &options).await?;
    let location = format!("thermocline://{}", node.address);

    let mut sides = vec![];
    for bitmaps in [false, true] {
        let session = args.common.session(&Workload::TPCH, args.format, &location).await?;
        if !args.join_filters {
            session.set("bloom_filters", "off")?;
            session.run(&format!("SET {INLIST_SETTING} = '0'")).await?;
        }
        // A node that pushes work back would hide the effect of bitmaps.
        session.set("pushback", "off")?;
        session.set("bitmaps", if bitmaps { "on" } else { "off" })?;
        sides.push(Side { session, bitmaps });
    }
    let local = args.common.session(&Workload::TPCH, args.format, &data.display().to_string()).await?;
    output.header();
    for query in queries {
        let shares = shares(&local, query).await?;
        for direction in [Direction::Storage, Direction::Compute] {
            for wanted in selectivities {
                let Some((bound, selectivity)) = nearest(&shares, *wanted) else {
                    return Err(Failure::Failed("lineitem is empty".to_owned()));
                };
                let sql = query.sql(bound);
                let mut executions = vec![];
                for side in &sides {
                    executions.push(side.run(&measurement, query, direction, &sql, args.passes).await?);
                }
                output.put(direction, selectivity, &executions)?;
            }
        }
    }
    output.json.flush()?;
    for quantity in [Quantity::Seconds, Quantity::Bytes] {
        figures.write(&format!("bitmap-{}", quantity.name()), || output.figure(&measurement, quantity))?;
    }
    Ok(())
}

impl Side {
    /// Fills the cache, runs the query once to warm up, and then `passes` times; returns the records in order.
    async fn run(
        &self,
        measurement: &Measurement,
        query: &SelectivityQuery,
        direction: Direction,
        sql: &str,
        passes: usize,
    ) -> DataFusionResult<Vec<(bool, Record)>> {
        let mut records = vec![];
        for pass in 0..=passes {
            self.prepare(query, direction).await?;
            let run = if pass == 0 { "warmup" } else { "timed" };
            measure(&self.session, measurement, [(query.name, sql)], run, |record, _| {
                records.push((self.bitmaps, record));
                Ok(())
            })
            .await?;
        }
        Ok(records)
    }

    /// The paper's preparation: the cache holds the needed columns of the other tables and, for bitmaps, one part of
    /// the needed columns of `lineitem`. There is no room for more.
    async fn prepare(&self, query: &SelectivityQuery, direction: Direction) -> DataFusionResult<()> {
        let session = &self.session;
        session.engine().cache().clear();
        session.set("mode", "caching")?;
        session.database().set("cache_size", "1TiB")?;
        let of_lineitem = if self.bitmaps { direction.cached(query) } else { vec![] };
        // Several uses, so that missing columns do not displace these.
        for _ in 0..3 {
            read_columns(session, "lineitem", &of_lineitem).await?;
            for (table, columns) in query.others {
                read_columns(session, table, columns).await?;
            }
        }
        let (bytes, _) = session.engine().cache().bytes();
        session.database().set("cache_size", &bytes.to_string())?;
        Ok(session.set("mode", "hybrid")?)
    }
}

async fn read_columns(session: &Session, table: &str, columns: &[&str]) -> DataFusionResult<()> {
    if !columns.is_empty() {
        let calls: Vec<String> = columns.iter().map(|column| format!("max({column})")).collect();
        session.run(&format!("SELECT {} FROM {table}", calls.join(", "))).await?;
    }
    Ok(())
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0, "share")
}

fn query_named(name: &str) -> Result<&'static SelectivityQuery, Failure> {
    let number = name.trim().trim_start_matches(['Q', 'q']);
    SELECTIVITY_QUERIES.iter().find(|query| query.name.strip_prefix('Q') == Some(number)).ok_or_else(|| {
        Failure::Usage(format!("bench bitmap has no query '{name}'; there are Q3, Q4, Q12, Q14 and Q19"))
    })
}

/// Values of the query's measure, each with the share of `lineitem` that has a larger one, in ascending order.
async fn shares(session: &Session, query: &SelectivityQuery) -> DataFusionResult<Vec<(i64, f64)>> {
    let sql = format!(
        "SELECT CAST({} AS BIGINT) AS x, count(*) AS n FROM lineitem GROUP BY x ORDER BY x DESC",
        query.measure
    );
    let result = session.run(&sql).await?;
    let mut counts: Vec<(i64, u64)> = vec![];
    for batch in &result.batches {
        let [values, rows] = batch.columns() else { continue };
        let (values, rows) = (values.as_primitive::<Int64Type>(), rows.as_primitive::<Int64Type>());
        counts.extend(values.values().iter().zip(rows.values()).map(|(value, rows)| (*value, *rows as u64)));
    }
    let total: u64 = counts.iter().map(|(_, rows)| rows).sum();
    let mut larger = 0;
    Ok(counts
        .into_iter()
        .map(|(value, rows)| {
            let share = larger as f64 / total as f64;
            larger += rows;
            (value, share)
        })
        .collect())
}

/// The bound that selects closest to `wanted` of the rows, but not none, and the selected share.
fn nearest(shares: &[(i64, f64)], wanted: f64) -> Option<(i64, f64)> {
    let distance = |share: f64| (share - wanted).abs();
    shares
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .min_by(|(_, a), (_, b)| distance(*a).total_cmp(&distance(*b)))
        .copied()
}

/// Sink of records, printed table, and data of figures.
struct Output {
    json: JsonLines,
    /// The fastest runs: selectivity, source of the bitmap (`None` without one), record.
    drawn: Vec<(f64, Option<Direction>, Record)>,
}

impl Output {
    fn header(&self) {
        say!(
            "{:<6}{:<9}{:>8}{:>14}{:>14}{:>8}{:>10}{:>10}{:>8}{:>9}",
            "query",
            "bitmap",
            "share",
            "plain bytes",
            "bitmap bytes",
            "fewer",
            "plain s",
            "bitmap s",
            "faster",
            "columns"
        );
    }

    /// Writes the records of one query and prints the fastest without and with bitmaps.
    fn put(
        &mut self,
        direction: Direction,
        selectivity: f64,
        executions: &[Vec<(bool, Record)>],
    ) -> DataFusionResult<()> {
        let all = executions.iter().flatten();
        for (bitmaps, record) in all.clone() {
            let more = json!({ "direction": direction.name(), "selectivity": selectivity, "bitmaps": bitmaps });
            self.json.put(record, more)?;
        }
        let fastest = |wanted: bool| {
            all.clone()
                .filter(|(bitmaps, record)| *bitmaps == wanted && record.run == "timed")
                .map(|(_, record)| record)
                .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
        };
        let (Some(plain), Some(bitmap)) = (fastest(false), fastest(true)) else {
            return exec_err!("nothing was timed");
        };
        if plain.result_hash != bitmap.result_hash {
            return exec_err!("{} has other rows with bitmaps, at selectivity {selectivity}", plain.query);
        }
        let moved = |record: &Record| record.bytes_moved().unwrap_or_default();
        let scanned = |record: &Record| record.count(|counts| counts.columns_scanned);
        let fewer = |before: u64, after: u64| {
            if before == 0 { "-".to_owned() } else { format!("{:.0}%", 100.0 - 100.0 * after as f64 / before as f64) }
        };
        say!(
            "{:<6}{:<9}{:>8.4}{:>14}{:>14}{:>8}{:>10.3}{:>10.3}{:>8.2}{:>9}",
            plain.query,
            direction.name(),
            selectivity,
            format_size(moved(plain)),
            format_size(moved(bitmap)),
            fewer(moved(plain), moved(bitmap)),
            plain.seconds,
            bitmap.seconds,
            plain.seconds / bitmap.seconds,
            fewer(scanned(plain), scanned(bitmap)),
        );
        self.drawn.push((selectivity, None, plain.clone()));
        self.drawn.push((selectivity, Some(direction), bitmap.clone()));
        Ok(())
    }

    /// Lines of a quantity over selectivity, with a panel for each query.
    fn figure(&self, measurement: &Measurement, quantity: Quantity) -> DataFusionResult<String> {
        let points: Vec<Point<f64>> = self
            .drawn
            .iter()
            .filter_map(|(selectivity, direction, record)| {
                let series = match direction {
                    None => "no bitmap",
                    Some(Direction::Storage) => "bitmap from storage",
                    Some(Direction::Compute) => "bitmap from compute",
                };
                Some(Point::new(&record.query, series, *selectivity, quantity.of(record)?))
            })
            .collect();
        let caption =
            Caption::new(format!("{} with selection bitmaps over selectivity", quantity.title()), measurement);
        let x = Axis { label: "selected share of lineitem", scale: Scale::Linear };
        lines(&caption, x, Axis { label: quantity.axis(), scale: Scale::Linear }, &points)
    }
}
