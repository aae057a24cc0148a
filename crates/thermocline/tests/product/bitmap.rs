//! Selection bitmaps: for every part of the needed columns in the cache, by format and direction, the rows are
//! DuckDB's; and invalid requests are refused.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::support::oracle::Oracle;
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use arrow::datatypes::{DataType, Field, Schema};
use futures::TryStreamExt;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::wire::{
    BitmapRequest, Combine, Compression, DescribeRequest, ErrorKind, Format, ObjectEntry, Range, Ticket, TicketKind,
    encode_schema,
};
use thermocline_pushdown::{Bitmap, CsvFormat, FileFormat, Fragment, NodeError, Route};
use thermocline_storage::{NodeClient, NodeConfig, PushbackPolicy, Root, StorageNode};

const ROWS: usize = 20_000;

/// A table with NULLs in every column but the first, in both formats, once per process.
fn data() -> &'static Path {
    static DATA: OnceLock<tempfile::TempDir> = OnceLock::new();
    DATA.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut duckdb = Oracle::start();
        duckdb.query("SELECT setseed(0.5)");
        duckdb.query(&format!(
            "CREATE TABLE t AS SELECT i AS id,
                CASE WHEN random() < 0.9 THEN (random() * 1000)::BIGINT END AS a,
                CASE WHEN random() < 0.9 THEN (i // 200 + random() * 20)::INT END AS b,
                CASE WHEN random() < 0.9 THEN 'word ' || (random() * 500)::INT END AS c,
                CASE WHEN random() < 0.9 THEN (random() * 10000)::DECIMAL(12, 2) END AS d,
                CASE WHEN random() < 0.9 THEN DATE '1992-01-01' + (random() * 2000)::INT END AS e
            FROM range({ROWS}) r(i)"
        ));
        for format in ["parquet", "csv"] {
            std::fs::create_dir(directory.path().join(format)).unwrap();
            let options = if format == "csv" { "FORMAT csv, HEADER" } else { "FORMAT parquet, ROW_GROUP_SIZE 4096" };
            duckdb.query(&format!(
                "COPY (SELECT * FROM t ORDER BY id) TO '{}/{format}/0.{format}' ({options})",
                directory.path().display()
            ));
        }
        directory
    })
    .path()
}

fn oracle() -> Oracle {
    let mut duckdb = Oracle::start();
    duckdb.query(&format!("CREATE VIEW t AS SELECT * FROM read_parquet('{}/parquet/*.parquet')", data().display()));
    duckdb
}

async fn session(format: &str, location: &str) -> Session {
    open(format, location, NodeConfig::default()).await
}

async fn open(format: &str, location: &str, embedded: NodeConfig) -> Session {
    // Over an unlimited link there would be nothing to save.
    let embedded = NodeConfig { egress: Some(10 << 30), ..embedded };
    let options = OpenOptions { embedded, ..OpenOptions::default() }.with("partition_size", "256KiB");
    let session = Database::open(options, |_| {}).await.unwrap().session();
    let columns = "(id BIGINT, a BIGINT, b INT, c VARCHAR, d DECIMAL(12, 2), e DATE)";
    let columns = if format == "csv" { columns } else { "" };
    session
        .run(&format!("CREATE EXTERNAL TABLE t {columns} STORED AS {format} LOCATION '{location}/{format}'"))
        .await
        .unwrap();
    session
}

/// Fills the cache with `columns`, whole, and leaves no room for others.
async fn cache(session: &Session, columns: &[&str]) {
    session.database().set("cache_size", "1GiB").unwrap();
    session.engine().cache().clear();
    session.set("mode", "caching").unwrap();
    let read: Vec<String> = columns.iter().map(|column| format!("max({column})")).collect();
    session.run(&format!("SELECT {} FROM t", read.join(", "))).await.unwrap();
    let (bytes, _) = session.engine().cache().bytes();
    session.database().set("cache_size", &bytes.to_string()).unwrap();
    session.set("mode", "hybrid").unwrap();
}

/// Bitmaps sent over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Only to the storage node.
    There,
    /// Only from it.
    Back,
    /// Both ways.
    Both,
    /// None: the cached part of the predicate selects nothing.
    Neither,
}

struct Case {
    sql: &'static str,
    /// Columns in the cache.
    cached: &'static [&'static str],
    direction: Direction,
    /// Needed columns that the storage node does not read, per partition.
    saved: u64,
}

const CASES: &[Case] = &[
    // The predicate's columns are cached, none of the output's.
    Case { sql: "SELECT c, d FROM t WHERE a < 300", cached: &["a"], direction: Direction::There, saved: 1 },
    Case {
        sql: "SELECT c, d FROM t WHERE a < 300 AND b > 20",
        cached: &["a", "b"],
        direction: Direction::There,
        saved: 2,
    },
    // ... and some of the output's.
    Case { sql: "SELECT a, c, d FROM t WHERE a < 300", cached: &["a"], direction: Direction::There, saved: 1 },
    Case {
        sql: "SELECT id, c, d FROM t WHERE a < 300 OR a IS NULL",
        cached: &["a", "id"],
        direction: Direction::There,
        saved: 2,
    },
    // The output's columns are cached, the predicate's are not.
    Case { sql: "SELECT c, d FROM t WHERE a < 900", cached: &["c", "d"], direction: Direction::Back, saved: 2 },
    Case { sql: "SELECT c, d, e FROM t WHERE a < 900", cached: &["c", "d"], direction: Direction::Back, saved: 2 },
    Case { sql: "SELECT a, c, d FROM t WHERE a < 900", cached: &["c", "d"], direction: Direction::Back, saved: 2 },
    Case {
        sql: "SELECT a, c, d, e FROM t WHERE a < 900 AND b <> 50",
        cached: &["c", "d"],
        direction: Direction::Back,
        saved: 2,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE NOT (a + b > 500)",
        cached: &["c", "d"],
        direction: Direction::Back,
        saved: 2,
    },
    Case { sql: "SELECT c, d FROM t WHERE a IS NULL", cached: &["c", "d"], direction: Direction::Back, saved: 2 },
    // Either side evaluates its part.
    Case {
        sql: "SELECT c, d FROM t WHERE a < 500 AND b > 20",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE a < 500 OR b > 60",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT a, b, c, d FROM t WHERE a < 500 AND b > 20",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT a, b, c, d FROM t WHERE a < 500 OR b > 60",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT c FROM t WHERE (a < 500 OR a IS NULL) AND (b > 20 OR e IS NULL) AND id % 3 = 1",
        cached: &["a", "c", "id"],
        direction: Direction::Both,
        saved: 3,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE NOT (a > 500 AND b > 20)",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE NOT (a = 5) AND NOT (b + id = 300)",
        cached: &["a", "c", "id"],
        direction: Direction::Both,
        saved: 2,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE NOT (a = 5) OR NOT (b = 30)",
        cached: &["a", "c"],
        direction: Direction::Both,
        saved: 2,
    },
    // ... and the storage node returns only its result.
    Case { sql: "SELECT c, d FROM t WHERE a < 500 AND b > 20", cached: &["a"], direction: Direction::There, saved: 1 },
    Case { sql: "SELECT c, d FROM t WHERE a < 500 OR b > 60", cached: &["a"], direction: Direction::There, saved: 1 },
    Case {
        sql: "SELECT count(*) FROM t WHERE a < 500 AND b > 20",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    Case {
        sql: "SELECT count(*) FROM t WHERE a < 500 OR b > 60",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    Case {
        sql: "SELECT b, count(*), sum(d), min(c) FROM t WHERE a < 300 GROUP BY b",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    Case {
        sql: "SELECT c, b, id FROM t WHERE a < 300 ORDER BY b, id LIMIT 7",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    Case {
        sql: "SELECT max(e), avg(d) FROM t WHERE a > 300 AND e > DATE '1994-01-01'",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    // A filter of its own above the one decided by the cache: it compares computed floats.
    Case {
        sql: "SELECT count(*), max(e) FROM t WHERE d::DOUBLE * 2 < 9000 AND (a < 100 OR a > 900)",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    Case {
        sql: "SELECT c FROM t WHERE d::DOUBLE * 2 < 9000 AND a NOT BETWEEN 100 AND 900",
        cached: &["a"],
        direction: Direction::There,
        saved: 1,
    },
    // No request is sent if nothing can be selected.
    Case { sql: "SELECT c, d FROM t WHERE a % 7 = 8", cached: &["a"], direction: Direction::Neither, saved: 0 },
    Case {
        sql: "SELECT count(*), max(c) FROM t WHERE a % 7 = 8",
        cached: &["a"],
        direction: Direction::Neither,
        saved: 0,
    },
    Case {
        sql: "SELECT c, d FROM t WHERE a % 7 = 8 AND b > 20",
        cached: &["a", "c"],
        direction: Direction::Neither,
        saved: 0,
    },
];

fn check(case: &Case, result: &QueryResult, context: &str) {
    let stats = &result.stats;
    let partitions = stats.partitions(Route::Bitmap);
    assert!(partitions > 1, "{context}: no bitmap: {stats:?}");
    let direction = match (stats.bitmap_bytes_to_storage > 0, stats.bitmap_bytes_from_storage > 0) {
        (true, false) => Direction::There,
        (false, true) => Direction::Back,
        (true, true) => Direction::Both,
        (false, false) => Direction::Neither,
    };
    assert_eq!(direction, case.direction, "{context}: {stats:?}");
    assert_eq!(stats.columns_saved, case.saved * partitions, "{context}: {stats:?}");
    if case.direction == Direction::Neither {
        assert_eq!(stats.bytes_from_storage, 0, "{context}: {stats:?}");
    }
}

async fn every_case(format: &str, location: &str) {
    let mut duckdb = oracle();
    let session = session(format, location).await;
    // So that answers stay below the stored bytes, and no node is too busy for them.
    session.set("compression", "zstd").unwrap();
    session.set("pushback", "off").unwrap();
    for case in CASES {
        let Case { sql, cached, .. } = case;
        let context = format!("{format} at {location}, cached {cached:?}: {sql}");
        let expected = duckdb.query(sql);
        cache(&session, cached).await;
        // Twice: the second time with the experience of the first.
        for _ in 0..2 {
            let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_same(canonical(&result), expected.clone(), false, &context);
            check(case, &result, &context);
        }
        session.set("bitmaps", "off").unwrap();
        let result = session.run(sql).await.unwrap();
        assert_same(canonical(&result), expected, false, &context);
        assert_eq!(result.stats.partitions(Route::Bitmap), 0, "{context}: without bitmaps");
        session.set("bitmaps", "on").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_in_this_process() {
    every_case("parquet", data().to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_in_this_process() {
    every_case("csv", data().to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_behind_a_node_process() {
    let node = NodeProcess::over(data());
    for format in ["parquet", "csv"] {
        every_case(format, &format!("thermocline://{}", node.address)).await;
    }
}

/// An aggregate that reduces little: once pushdown has shown how much it moves, the cached columns are used and the
/// groups are computed here.
#[tokio::test(flavor = "multi_thread")]
async fn aggregates_above_rows_from_both_sides() {
    let mut duckdb = oracle();
    for format in ["parquet", "csv"] {
        let session = session(format, data().to_str().unwrap()).await;
        let sql = "SELECT id, c, count(*), sum(d), min(e) FROM t WHERE a < 800 GROUP BY id, c";
        let expected = duckdb.query(sql);
        session.set("mode", "pushdown").unwrap();
        session.run(sql).await.unwrap();
        cache(&session, &["id", "c", "d", "e"]).await;
        let result = session.run(sql).await.unwrap();
        assert_same(canonical(&result), expected.clone(), false, format);
        assert!(result.stats.bitmap_bytes_from_storage > 0, "{format}: {:?}", result.stats);
        assert_eq!(result.stats.bitmap_bytes_to_storage, 0, "{format}: {:?}", result.stats);

        // An aggregate that reduces much stays at the storage node, without using the cache.
        let sql = "SELECT count(*), sum(d) FROM t WHERE a < 800";
        session.run(sql).await.unwrap();
        let result = session.run(sql).await.unwrap();
        assert_same(canonical(&result), duckdb.query(sql), false, format);
        assert_eq!(result.stats.partitions(Route::Bitmap), 0, "{format}: {:?}", result.stats);
    }
}

/// Every bitmap request is answered by "fetch the stored bytes instead".
async fn stored_bytes_come_instead(embedded: NodeConfig) {
    let mut duckdb = oracle();
    for format in ["parquet", "csv"] {
        let session = open(format, data().to_str().unwrap(), embedded.clone()).await;
        for case in CASES.iter().filter(|case| case.direction != Direction::Neither) {
            let Case { sql, cached, .. } = case;
            let context = format!("{format}, cached {cached:?}: {sql}");
            cache(&session, cached).await;
            let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_same(canonical(&result), duckdb.query(sql), false, &context);
            assert_eq!(
                result.stats.partitions_pushed_back,
                result.stats.partitions(Route::Bitmap),
                "{context}: {:?}",
                result.stats
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_memory_sends_stored_bytes() {
    stored_bytes_come_instead(NodeConfig { memory_limit: 100, ..NodeConfig::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_pushes_back_sends_stored_bytes() {
    stored_bytes_come_instead(NodeConfig { pushback: PushbackPolicy::Always, ..NodeConfig::default() }).await;
}

/// An answer of the storage node may not be larger than the columns that it replaces.
#[tokio::test(flavor = "multi_thread")]
async fn stored_bytes_that_are_smaller_come_instead() {
    let mut duckdb = oracle();
    let session = session("parquet", data().to_str().unwrap()).await;
    session.set("compression", "none").unwrap();
    // `b` is almost sorted and small as stored; as text views it is not.
    let sql = "SELECT c, d, id, b FROM t WHERE a >= 0 OR a IS NULL";
    cache(&session, &["a", "d", "id", "b"]).await;
    let first = session.run(sql).await.unwrap();
    assert_same(canonical(&first), duckdb.query(sql), false, sql);
    assert!(first.stats.partitions_pushed_back > 0, "{:?}", first.stats);
    // It is remembered.
    let second = session.run(sql).await.unwrap();
    assert_same(canonical(&second), duckdb.query(sql), false, sql);
    assert_eq!(second.stats.partitions_pushed_back, 0, "{:?}", second.stats);
    assert_eq!(second.stats.partitions(Route::Bitmap), 0, "{:?}", second.stats);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_direction_and_sizes() {
    let session = session("parquet", data().to_str().unwrap()).await;
    let sql = "SELECT c, d FROM t WHERE a < 500 AND b > 20";
    cache(&session, &["a", "c"]).await;
    let text = |result: QueryResult| format!("{:?}", canonical(&result));
    let plan = text(session.run(&format!("EXPLAIN {sql}")).await.unwrap());
    assert!(plan.contains("bitmap="), "{plan}");
    let plan = text(session.run(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap());
    for counter in ["partitions_bitmap", "bitmaps_to_storage", "bitmaps_from_storage", "bitmap_bytes_to_storage"] {
        let value = plan.split(&format!("{counter}=")).nth(1).unwrap_or_else(|| panic!("{counter}: {plan}"));
        assert!(!value.starts_with('0'), "{counter}: {plan}");
    }
    let error = session.run("SET thermocline.bitmaps = 'perhaps'").await.unwrap_err().to_string();
    assert!(error.contains("bitmaps") && error.contains("perhaps"), "{error}");
}

/// One node over the data, and a way to ask it for rows of the only object's first partition.
struct Asking {
    node: NodeClient,
    object: ObjectEntry,
    partition: Range,
    rows: u64,
    format: FileFormat,
}

fn table_schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int32, true),
        Field::new("c", DataType::Utf8View, true),
        Field::new("d", DataType::Decimal128(12, 2), true),
        Field::new("e", DataType::Date32, true),
    ])
}

impl Asking {
    async fn over(format: FileFormat) -> Self {
        let config = NodeConfig { pushdown_slots: 1, ..NodeConfig::default() };
        let node =
            NodeClient::embedded(StorageNode::new(Root::open(data().to_str().unwrap()).unwrap(), config).unwrap());
        let object = node.list(&format.name().to_lowercase()).await.unwrap().remove(0);
        let (partition, rows) = match &format {
            FileFormat::Parquet => (Range { row_groups: true, start: 0, end: 1, first_row: 0 }, 4096),
            FileFormat::Csv(_) => {
                let request = DescribeRequest {
                    objects: vec![object.clone()],
                    format: Some(Format::from(&format)),
                    partition_bytes: 1 << 30,
                };
                let split = node.describe(request).try_next().await.unwrap().unwrap().splits.remove(0);
                (Range { row_groups: false, start: split.start, end: split.end, first_row: 0 }, split.rows)
            }
        };
        Self { node, object, partition, rows, format }
    }

    fn request(&self, fragment: &Fragment, bitmap: Vec<u8>) -> BitmapRequest {
        BitmapRequest {
            use_indexes: false,
            origin: None,
            object: Some(self.object.clone()),
            format: Some(Format::from(&self.format)),
            table_schema: encode_schema(&table_schema()).unwrap(),
            partition: Some(self.partition),
            fragment: fragment.encode().unwrap(),
            bitmap,
            combine: Combine::And as i32,
            return_bitmap: false,
            compression: Compression::None as i32,
            answer_bytes_max: 0,
            accepts_pushback: false,
            bytes_in: 0,
            bytes_out_estimate: 0,
            partitions_to_follow: 0,
            ..BitmapRequest::default()
        }
    }

    async fn ask(&self, request: BitmapRequest) -> Result<usize, NodeError> {
        let ticket = Ticket { kind: Some(TicketKind::Bitmap(request)) };
        let messages: Vec<_> = self.node.get(&ticket).await?.try_collect().await?;
        Ok(messages.len())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_do_not_fit_are_refused() {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::limit::LocalLimitExec;

    for format in [FileFormat::Parquet, FileFormat::Csv(CsvFormat::default())] {
        let asking = Asking::over(format).await;
        let columns = Arc::new(table_schema().project(&[1, 3]).unwrap());
        let scan = Fragment::scan(Arc::clone(&columns));
        let predicate: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(col("a", &columns).unwrap(), Operator::Lt, lit(300_i64)));
        let filter = Fragment::filtered(columns, &predicate, vec![1]).unwrap();
        let limit: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(filter.root()), 3));
        let limited = filter.with_operator(&limit).unwrap();
        let rows = asking.rows as usize;
        let ones = |rows: usize| Bitmap::new(arrow::buffer::BooleanBuffer::new_set(rows)).encode();
        let good = || asking.request(&filter, ones(rows));

        let mut cases = vec![
            ("of 9 rows", asking.request(&scan, ones(9))),
            ("selection bitmap is of", asking.request(&scan, ones(rows + 1))),
            ("selection bitmap is of", asking.request(&filter, ones(rows - 1))),
            (
                "selection bitmap is of",
                BitmapRequest { combine: Combine::Or as i32, ..asking.request(&filter, ones(9)) },
            ),
            (
                "selection bitmap is of",
                BitmapRequest { combine: Combine::Or as i32, ..asking.request(&filter, ones(rows + 1)) },
            ),
            ("unknown form", asking.request(&scan, [&[9][..], &ones(rows)[1..]].concat())),
            ("cut short", asking.request(&scan, vec![1, 2, 3])),
            ("selects by nothing", asking.request(&scan, vec![])),
            ("neither brings nor wants", asking.request(&filter, vec![])),
            (
                "wants back the bitmap that it brings",
                BitmapRequest { return_bitmap: true, ..asking.request(&scan, ones(rows)) },
            ),
            ("no bitmap describes", BitmapRequest { return_bitmap: true, ..asking.request(&limited, ones(rows)) }),
            ("unknown combination 7", BitmapRequest { combine: 7, ..good() }),
            ("unknown compression 7", BitmapRequest { compression: 7, ..good() }),
            ("names no partition", BitmapRequest { partition: None, ..good() }),
            ("does not encode or decode", BitmapRequest { fragment: vec![0xff; 50], ..good() }),
        ];
        // A run that claims far more rows than exist.
        let mut endless = vec![1];
        endless.extend((1_u64 << 31).to_le_bytes());
        cases.push(("selection bitmap is of", asking.request(&scan, endless)));
        for (why, request) in cases {
            let error = asking.ask(request).await.expect_err(why);
            assert_eq!(error.kind, ErrorKind::Refused, "{why}: {error}");
            assert!(error.message.contains(why), "{why}: {error}");
            let path = &asking.object.path;
            assert!(error.message.contains(path.as_str()) || why.contains("names no"), "{why}: {error}");
            // The only slot is free again.
            asking.ask(good()).await.unwrap();
        }
    }
}
