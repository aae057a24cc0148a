//! Scans whose columns are all cached: their output streams share the rows.

use std::sync::Arc;

use crate::support::oracle::Oracle;
use crate::support::rows::canonical;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use thermocline_compute::{HybridScanExec, QueryContext, QuerySettings};
use thermocline_database::Database;

/// Rows of each output stream of a scan over `objects` objects of one row group, first with an empty cache and then
/// with everything cached. Tasks on one thread read the streams: rows that one stream takes are not left for the
/// others.
async fn rows_by_stream(objects: usize, rows: usize) -> Vec<Vec<usize>> {
    let data = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start();
    for object in 0..objects {
        let path = data.path().join(format!("{object}.parquet"));
        duckdb.query(&format!(
            "COPY (SELECT i AS a, i % 7 AS b FROM range({rows}) r(i)) TO '{}'
             (FORMAT parquet, ROW_GROUP_SIZE {rows})",
            path.display()
        ));
    }
    let session = Database::in_memory().await.unwrap().session();
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", data.path().display());
    session.run(&sql).await.unwrap();
    let table = session.engine().tables().pop().unwrap();

    let config = SessionConfig::new().with_target_partitions(4);
    let query = QueryContext::new(Arc::clone(session.engine().resources()), QuerySettings::default(), None);
    let snapshot = table.snapshot(query.limits().partition_size).await.unwrap();
    let mut passes = vec![];
    for _ in 0..2 {
        let scan = HybridScanExec::new(&table, &snapshot, &[0, 1], None, &config, Arc::clone(&query)).unwrap();
        let context = Arc::new(TaskContext::default());
        let tasks: Vec<_> = (0..scan.properties().output_partitioning().partition_count())
            .map(|stream| scan.execute(stream, Arc::clone(&context)).unwrap())
            .map(|stream| tokio::spawn(stream.try_fold(0, async |rows, batch| Ok(rows + batch.num_rows()))))
            .collect();
        let mut pass = vec![];
        for task in tasks {
            pass.push(task.await.unwrap().unwrap());
        }
        passes.push(pass);
    }
    assert_eq!(
        query.stats().partitions(thermocline_pushdown::Route::Local),
        objects as u64,
        "the second pass is cached"
    );
    passes
}

#[tokio::test]
async fn output_streams_share_cached_partitions() {
    for (objects, rows) in [(8, 100_000), (3, 300_000), (1, 1_000_000)] {
        let passes = rows_by_stream(objects, rows).await;
        for pass in &passes {
            assert_eq!(pass.iter().sum::<usize>(), objects * rows);
        }
        let cached = passes.last().unwrap();
        assert_eq!(cached.len(), 4, "a stream for every core");
        let fair = objects * rows / cached.len();
        assert!(cached.iter().all(|rows| *rows >= fair / 2), "{objects} partitions of {rows} rows: {cached:?}");
    }
}

/// EXPLAIN says what a query would do now, EXPLAIN ANALYZE what it did.
#[tokio::test]
async fn explain_analyze_shows_the_routes_taken() {
    let data = tempfile::tempdir().unwrap();
    Oracle::start().query(&format!(
        "COPY (SELECT i AS a FROM range(1000) r(i)) TO '{}/0.parquet' (FORMAT parquet)",
        data.path().display()
    ));
    let session = Database::in_memory().await.unwrap().session();
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", data.path().display());
    session.run(&sql).await.unwrap();
    for (explain, routes) in
        [("EXPLAIN", "load=1"), ("EXPLAIN ANALYZE", "load=1"), ("EXPLAIN ANALYZE", "local=1"), ("EXPLAIN", "local=1")]
    {
        let plan = canonical(&session.run(&format!("{explain} SELECT sum(a) FROM t WHERE a > 5")).await.unwrap());
        let plan = plan.into_iter().flatten().flatten().collect::<String>();
        assert!(plan.contains(&format!("routes=[{routes}]")), "{explain}, {routes}: {plan}");
    }
}
