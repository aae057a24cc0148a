//! `thermocline bench operators`: one operator at a time, as in tables II to V of the PushdownDB paper.

use datafusion::common::{Result as DataFusionResult, plan_datafusion_err};
use thermocline_database::Session;
use thermocline_pushdown::units::{format_size, parse_rate};
use thermocline_workloads::Workload;
use thermocline_workloads::bench::{Measurement, Record, measure};
use thermocline_workloads::figures::{Caption, Point, Quantity, bars};
use thermocline_workloads::generate::Format;

use super::super::Failure;
use super::super::node_process::{NodeOptions, NodeProcess};
use super::super::workload_data::{user_cache, workload_data};
use super::arguments::{at_least, check_scale, format, rate};
use super::common::CommonArgs;
use super::experiment::{PARTITION_SIZE, QUICK_SCALE};
use super::figures::{Figures, FiguresArgs};
use super::scratch::ScratchDirectory;
use super::sink::{Sink, or_dash};

/// Arguments of `thermocline bench operators`.
#[derive(Debug, clap::Args)]
pub struct OperatorsArgs {
    /// Scale factor of the TPC-H data [default: 1, with --quick 0.05]
    #[arg(long)]
    scale: Option<f64>,
    /// csv, as in the paper, or parquet
    #[arg(long, default_value = "csv", value_parser = format)]
    format: Format,
    /// Limit of the storage node's link
    #[arg(long, default_value = "1Gbps", value_parser = rate)]
    egress_limit: String,
    /// Timed passes, after a warm-up; the fastest counts [default: 3, with --quick 1]
    #[arg(long, value_parser = at_least(1))]
    passes: Option<usize>,
    #[command(flatten)]
    figures: FiguresArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// One query, run in several ways that must agree.
struct Case {
    table: &'static str,
    name: String,
    sql: String,
    alternatives: &'static [Alternative],
}

/// A way to run a query: its name in the paper, and its settings.
struct Alternative {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

const SERVER_SIDE: Alternative = Alternative { name: "server-side", settings: &[("mode", "pullup")] };

const FILTER: &[Alternative] = &[
    SERVER_SIDE,
    Alternative { name: "storage-side", settings: &[("mode", "pushdown"), ("indexes", "off")] },
    Alternative { name: "indexing", settings: &[("mode", "pushdown"), ("indexes", "on")] },
];

const JOIN: &[Alternative] = &[
    Alternative { name: "baseline", settings: &[("mode", "pullup")] },
    Alternative { name: "filtered", settings: &[("mode", "pushdown"), ("bloom_filters", "off")] },
    Alternative { name: "bloom", settings: &[("mode", "pushdown"), ("bloom_filters", "on")] },
];

const GROUP_BY: &[Alternative] = &[
    SERVER_SIDE,
    Alternative { name: "filtered", settings: &[("mode", "pushdown"), ("pushdown_operators", "filters")] },
    Alternative { name: "storage-side", settings: &[("mode", "pushdown"), ("pushdown_operators", "all")] },
];

const TOP_K: &[Alternative] = &[SERVER_SIDE, Alternative { name: "storage-side", settings: &[("mode", "pushdown")] }];

/// The queries of the paper's tables, over TPC-H data of `scale`.
fn cases(scale: f64) -> Vec<Case> {
    let mut cases = vec![];
    for selectivity in [1e-5, 1e-3] {
        // Part keys are dense, and lines are spread over them evenly.
        let parts = (200_000.0 * scale * selectivity).round().max(1.0);
        cases.push(Case {
            table: "II filter",
            name: format!("selectivity {selectivity:e}"),
            sql: format!("SELECT * FROM lineitem WHERE l_partkey <= {parts}"),
            alternatives: FILTER,
        });
    }
    for balance in [-950, -450] {
        cases.push(Case {
            table: "III join",
            name: format!("c_acctbal <= {balance}"),
            sql: format!(
                "SELECT sum(o_totalprice) FROM customer, orders WHERE o_custkey = c_custkey AND c_acctbal <= {balance}"
            ),
            alternatives: JOIN,
        });
    }
    let sums = "sum(l_quantity), sum(l_extendedprice), sum(l_discount), sum(l_tax)";
    for groups in [2, 8, 32] {
        cases.push(Case {
            table: "IV group-by",
            name: format!("{groups} groups"),
            sql: format!("SELECT l_partkey % {groups}, {sums} FROM lineitem GROUP BY l_partkey % {groups}"),
            alternatives: GROUP_BY,
        });
    }
    cases.push(Case {
        table: "IV group-by",
        name: format!("{} groups", (1_500_000.0 * scale) as u64),
        // Returning the groups themselves would only measure how fast this side keeps them.
        sql: "SELECT count(*), sum(q), sum(p), sum(d), sum(t) FROM (SELECT l_orderkey, sum(l_quantity) q, \
              sum(l_extendedprice) p, sum(l_discount) d, sum(l_tax) t FROM lineitem GROUP BY l_orderkey)"
            .to_owned(),
        alternatives: GROUP_BY,
    });
    for k in [1, 100, 10_000] {
        cases.push(Case {
            table: "V top-K",
            name: format!("K = {k}"),
            sql: format!("SELECT * FROM lineitem ORDER BY l_extendedprice, l_orderkey, l_linenumber LIMIT {k}"),
            alternatives: TOP_K,
        });
    }
    cases
}

/// Runs every case in every way and prints the tables.
///
/// # Errors
/// If an argument is invalid, a query fails, or two ways of running one differ in their rows.
pub async fn operators(args: OperatorsArgs) -> Result<(), Failure> {
    let common = &args.common;
    let scale = args.scale.unwrap_or(if common.quick { QUICK_SCALE } else { 1.0 });
    let passes = args.passes.unwrap_or(if common.quick { 1 } else { 3 });
    let format = args.format;
    check_scale(&Workload::TPCH, scale)?;
    let cases = cases(scale);
    let settings = cases.iter().flat_map(|case| case.alternatives).flat_map(|alternative| alternative.settings);
    common.refuse_own(&settings.map(|(name, _)| *name).collect::<Vec<_>>())?;
    let egress = parse_rate(&args.egress_limit).map_err(Failure::Usage)?;
    let measurement = Measurement { workload: Workload::TPCH, scale, format, egress_bytes_per_s: Some(egress) };
    let figures = Figures::new(&args.figures)?;
    let data = workload_data(&Workload::TPCH, common.data.clone(), scale, format, PARTITION_SIZE)?;
    // The data's folder stays unchanged.
    let indexes = ScratchDirectory::new(&common.data.clone().unwrap_or_else(user_cache))?;
    let options = NodeOptions {
        egress_limit: Some(args.egress_limit.clone()),
        index_dir: Some(indexes.path().to_owned()),
        ..NodeOptions::default()
    };
    let node = NodeProcess::start(&data, &options).await?;

    let session = common.session(&Workload::TPCH, format, &format!("thermocline://{}", node.address)).await?;
    session.run("CREATE INDEX l_partkey_index ON lineitem (l_partkey)").await?;
    let mut sink = Sink::new(common.json.as_ref())?;
    let mut drawn = vec![];
    say!(
        "{:<12}{:<22}{:<14}{:>8}{:>10}{:>8}{:>14}{:>12}",
        "table",
        "case",
        "alternative",
        "rows",
        "seconds",
        "ratio",
        "bytes moved",
        "dollars"
    );
    for case in cases {
        let mut first: Option<Record> = None;
        for alternative in case.alternatives {
            for (name, value) in alternative.settings {
                session.set(name, value)?;
            }
            let best = fastest(&session, &measurement, &case, alternative, passes, &mut sink).await?;
            let first = first.get_or_insert_with(|| best.clone());
            if first.result_hash != best.result_hash {
                let Case { table, name, .. } = case;
                return Err(Failure::Failed(format!("{table} {name}: {} gives other rows", alternative.name)));
            }
            say!(
                "{:<12}{:<22}{:<14}{:>8}{:>10.3}{:>8.2}{:>14}{:>12}",
                case.table,
                case.name,
                alternative.name,
                best.rows,
                best.seconds,
                best.seconds / first.seconds,
                or_dash(best.bytes_moved().map(format_size)),
                or_dash(best.counts.as_ref().map(|counts| format!("{:.6}", counts.dollars)))
            );
            drawn.push((case.table, case.name.clone(), alternative.name, best));
        }
    }
    session.run("DROP INDEX l_partkey_index").await?;
    for quantity in [Quantity::Seconds, Quantity::Bytes, Quantity::Dollars] {
        let point = |(table, case, alternative, record): &(&str, String, &str, Record)| {
            Some(Point::new(format!("Table {table}"), *alternative, case, quantity.of(record)?))
        };
        figures.write(&format!("operators-{}", quantity.name()), || {
            let title = format!("{} by operator and alternative", quantity.title());
            let points: Vec<Point<String>> = drawn.iter().filter_map(point).collect();
            bars(&Caption::new(title, &measurement), quantity.axis(), &points)
        })?;
    }
    Ok(())
}

/// The fastest of the timed passes.
async fn fastest(
    session: &Session,
    measurement: &Measurement,
    case: &Case,
    alternative: &Alternative,
    passes: usize,
    sink: &mut Sink,
) -> DataFusionResult<Record> {
    let name = format!("{}, {}: {}", case.table, case.name, alternative.name);
    let query = [(name.as_str(), case.sql.as_str())];
    measure(session, measurement, query, "warmup", |record, _| sink.put(record)).await?;
    let mut best: Option<Record> = None;
    for _ in 0..passes {
        measure(session, measurement, query, "timed", |record, _| {
            if best.as_ref().is_none_or(|best| record.seconds < best.seconds) {
                best = Some(record.clone());
            }
            sink.put(record)
        })
        .await?;
    }
    best.ok_or_else(|| plan_datafusion_err!("{name}: no pass was timed"))
}
