//! Scans that one process plans and another runs: the bytes in between hold no connection, cache or setting.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use thermocline_compute::{HybridScanExec, QueryContext, QueryResult, QuerySettings};
use thermocline_database::{Database, Session};
use thermocline_pushdown::{Mode, OperatorKind, Route};

use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;

/// A database with table `t` over the objects at `location`.
async fn database(location: &str, format: &str) -> Session {
    let session = Database::in_memory().await.unwrap().session();
    let columns = if format == "CSV" { "(a BIGINT, b BIGINT)" } else { "" };
    session.run(&format!("CREATE EXTERNAL TABLE t {columns} STORED AS {format} LOCATION '{location}'")).await.unwrap();
    session
}

fn query(session: &Session, mode: Mode) -> Arc<QueryContext> {
    let settings = QuerySettings { mode, ..QuerySettings::default() };
    QueryContext::new(Arc::clone(session.engine().resources()), settings, None)
}

/// The scan of the rows with `b = 3`, as `session` plans it.
async fn filtered(session: &Session) -> HybridScanExec {
    let table = session.engine().tables().pop().unwrap();
    let query = query(session, Mode::Hybrid);
    let snapshot = table.snapshot(query.limits().partition_size).await.unwrap();
    let b = col("b", table.schema()).unwrap();
    let filter: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(b, Operator::Eq, lit(3_i64)));
    let config = SessionConfig::new().with_target_partitions(2);
    HybridScanExec::new(&table, &snapshot, &[0, 1], Some(filter), &config, query).unwrap()
}

/// The scan with the sum of `a` in its fragment.
fn summed(scan: &HybridScanExec) -> HybridScanExec {
    let input = Arc::new(scan.clone());
    let schema = input.schema();
    let a = col("a", &schema).unwrap();
    let sum = AggregateExprBuilder::new(sum_udaf(), vec![a]).schema(Arc::clone(&schema)).alias("s").build().unwrap();
    let none = PhysicalGroupBy::new_single(vec![]);
    let aggregate =
        AggregateExec::try_new(AggregateMode::Partial, none, vec![Arc::new(sum)], vec![None], input, schema).unwrap();
    scan.with_operator(&(Arc::new(aggregate) as Arc<dyn ExecutionPlan>), false).unwrap()
}

/// The scan with its largest two `a` of each partition in its fragment.
fn largest(scan: &HybridScanExec) -> HybridScanExec {
    let input = Arc::new(scan.clone());
    let a = col("a", &input.schema()).unwrap();
    let order = LexOrdering::new([PhysicalSortExpr::new(a, Default::default()).desc()]).unwrap();
    let sort = SortExec::new(order, input).with_fetch(Some(2)).with_preserve_partitioning(true);
    scan.with_operator(&(Arc::new(sort) as Arc<dyn ExecutionPlan>), true).unwrap()
}

/// The rows of a scan, as an operator above would merge them: the sum of its sums, or the two largest of those of its
/// partitions.
async fn rows(scan: &HybridScanExec) -> Vec<Row> {
    let context = Arc::new(TaskContext::default());
    let mut batches: Vec<RecordBatch> = vec![];
    for stream in 0..scan.properties().output_partitioning().partition_count() {
        let stream = scan.execute(stream, Arc::clone(&context)).unwrap();
        batches.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    let schema: SchemaRef = scan.schema();
    let result =
        QueryResult { schema, batches, has_rows: true, affected: None, seconds: 0.0, stats: Default::default() };
    let mut rows = canonical(&result);
    let first = |row: &Row| row[0].as_ref().map_or(0, |value| value.parse::<i64>().unwrap());
    match scan.fragment().operator_kinds().last() {
        Some(OperatorKind::PartialAggregate) => {
            rows = vec![vec![Some(rows.iter().map(first).sum::<i64>().to_string())]]
        }
        Some(OperatorKind::TopK) => {
            rows.sort_by_key(|row| -first(row));
            rows.truncate(2);
        }
        _ => {}
    }
    rows
}

fn write(duckdb: &mut Oracle, directory: &Path, object: usize, format: &str) {
    let path = directory.join(format!("{object}.{}", format.to_lowercase()));
    let options = if format == "CSV" { "FORMAT csv" } else { "FORMAT parquet, ROW_GROUP_SIZE 4096" };
    let rows = format!("SELECT i + {object} * 20000 AS a, i % 7 AS b FROM range(20000) r(i)");
    duckdb.query(&format!("COPY ({rows}) TO '{}' ({options})", path.display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_runs_an_encoded_scan() {
    let mut duckdb = Oracle::start();
    for format in ["PARQUET", "CSV"] {
        let data = tempfile::tempdir().unwrap();
        for object in 0..3 {
            write(&mut duckdb, data.path(), object, format);
        }
        let node = NodeProcess::over(data.path());
        for location in [data.path().display().to_string(), format!("thermocline://{}/", node.address)] {
            let planner = database(&location, format).await;
            let runner = database(&location, format).await;
            let scan = filtered(&planner).await;
            let expected = duckdb.query(
                "SELECT a, b FROM (SELECT i + o * 20000 AS a, i % 7 AS b FROM range(20000) r(i), range(3) s(o)) WHERE b = 3",
            );
            assert_same(rows(&scan).await, expected, false, "where it was planned");
            for scan in [summed(&scan), largest(&scan), filtered(&planner).await] {
                let expected = rows(&scan).await;
                let bytes = scan.encode().unwrap();
                for mode in [Mode::Pushdown, Mode::Pullup, Mode::Hybrid, Mode::Hybrid] {
                    let query = query(&runner, mode);
                    let decoded = HybridScanExec::decode(&bytes, &query).await.unwrap();
                    assert_eq!(decoded.encode().unwrap(), bytes);
                    let context = format!("{format}, {location}, {mode}, {}", scan.fragment());
                    assert_same(rows(&decoded).await, expected.clone(), false, &context);
                    let pushed = query.stats().partitions(Route::Pushdown);
                    assert!(pushed > 0 || mode != Mode::Pushdown, "{context}");
                }
            }
            // The cache that filled is the runner's.
            assert!(runner.engine().cache().bytes().0 > 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoded_scan_that_does_not_fit_is_an_error() {
    let mut duckdb = Oracle::start();
    let data = tempfile::tempdir().unwrap();
    (0..2).for_each(|object| write(&mut duckdb, data.path(), object, "PARQUET"));
    let location = data.path().display().to_string();
    let planner = database(&location, "PARQUET").await;
    let bytes = summed(&filtered(&planner).await).encode().unwrap();
    let runner = database(&location, "PARQUET").await;
    let query = query(&runner, Mode::Hybrid);
    let error = async |bytes: &[u8]| HybridScanExec::decode(bytes, &query).await.map(|_| ()).unwrap_err().to_string();

    for end in 0..bytes.len() {
        // A prefix may be a scan of fewer objects; it is never a panic.
        let _ = HybridScanExec::decode(&bytes[..end], &query).await;
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let _ = HybridScanExec::decode(&damaged, &query).await;
    }
    assert!(error(b"no scan").await.contains("an encoded scan cannot be run"));

    let path = data.path().join("1.parquet");
    fs::rename(data.path().join("0.parquet"), &path).unwrap();
    let changed = error(&bytes).await;
    assert!(changed.contains(".parquet: table 't' has the object in another version here"), "{changed}");

    runner.run("DROP TABLE t").await.unwrap();
    assert!(error(&bytes).await.contains("there is no external table 't'"));
    let other = tempfile::tempdir().unwrap();
    duckdb.query(&format!("COPY (SELECT 1 AS a, 'x' AS b) TO '{}/0.parquet' (FORMAT parquet)", other.path().display()));
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", other.path().display());
    runner.run(&sql).await.unwrap();
    assert!(error(&bytes).await.contains("table 't' has other columns here"));
}
