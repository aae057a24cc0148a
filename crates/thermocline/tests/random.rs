//! Random queries over random tables with random cache contents give DuckDB's rows in every mode.
//!
//! A failure prints its seed; `THERMOCLINE_SEED=n` replays it, `THERMOCLINE_ROUNDS=n` runs longer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use support::oracle::Oracle;
use support::rows::{assert_same, canonical};
use thermocline_compute::{Session, SessionOptions, Settings};
use thermocline_pushdown::{Mode, Route};
use thermocline_storage::{Arbitration, NodeConfig, PushbackPolicy};

const WORDS: &[&str] =
    &["", "a", "apple", "apricot", "banana", "cherry pie", "date, dried", "\"fig\"", "grün", "x_y%z"];

fn table_schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int32, true),
        Field::new("n", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("m", DataType::Decimal128(12, 2), true),
        Field::new("d", DataType::Date32, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ]))
}

fn random_batch(rng: &mut StdRng, first_id: i64, rows: usize) -> RecordBatch {
    let null = |rng: &mut StdRng| rng.random_bool(0.1);
    macro_rules! column {
        ($array:ty, $value:expr) => {
            (0..rows).map(|_| if null(rng) { None } else { Some($value(&mut *rng)) }).collect::<$array>()
        };
    }
    // Sorted in part, so that statistics prune something.
    let base = (first_id / 50) as i32;
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..rows as i64).map(|row| Some(first_id + row)).collect::<Int64Array>()),
        Arc::new(column!(Int32Array, |rng: &mut StdRng| base + rng.random_range(0..20))),
        Arc::new(column!(Int64Array, |rng: &mut StdRng| rng.random_range(-1000..1000))),
        Arc::new(column!(Float64Array, |rng: &mut StdRng| f64::from(rng.random_range(-8000..8000)) / 16.0)),
        Arc::new(
            column!(Decimal128Array, |rng: &mut StdRng| rng.random_range(-100_000..100_000i128))
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(column!(Date32Array, |rng: &mut StdRng| 8000 + base + rng.random_range(0..100))),
        Arc::new(column!(TimestampMicrosecondArray, |rng: &mut StdRng| 700_000_000_000_000
            + rng.random_range(0..10_000i64) * 1_000_000)),
        Arc::new(column!(StringArray, |rng: &mut StdRng| WORDS.choose(rng).copied().unwrap())),
        Arc::new(column!(BooleanArray, |rng: &mut StdRng| rng.random_bool(0.5))),
    ];
    RecordBatch::try_new(table_schema(), columns).unwrap()
}

/// Writes `objects` objects of both formats below `directory`, each of at most `rows_max` rows.
fn write_table(rng: &mut StdRng, directory: &Path, objects: usize, rows_max: usize) {
    std::fs::create_dir_all(directory.join("parquet")).unwrap();
    std::fs::create_dir_all(directory.join("csv")).unwrap();
    let mut first_id = 0;
    for object in 0..objects {
        let rows = rng.random_range(1..rows_max);
        let batch = random_batch(rng, first_id, rows);
        first_id += rows as i64;
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(rng.random_range(200..2000)))
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(64)
            .build();
        let file = std::fs::File::create(directory.join(format!("parquet/{object:03}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::write(directory.join(format!("csv/{object:03}.csv")), csv_text(&batch)).unwrap();
    }
}

/// NULL as nothing, strings quoted, so that an empty string is not NULL.
fn csv_text(batch: &RecordBatch) -> String {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::new().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S"));
    let mut text = "id,k,n,f,m,d,t,s,b\n".to_owned();
    for row in 0..batch.num_rows() {
        let fields: Vec<String> = batch
            .columns()
            .iter()
            .map(|column| {
                let value = ArrayFormatter::try_new(column.as_ref(), &options).unwrap().value(row).to_string();
                match column.data_type() {
                    _ if column.is_null(row) => String::new(),
                    DataType::Utf8 => format!("\"{}\"", value.replace('"', "\"\"")),
                    _ => value,
                }
            })
            .collect();
        writeln!(text, "{}", fields.join(",")).unwrap();
    }
    text
}

/// A query and whether its order is determined.
fn random_query(rng: &mut StdRng) -> (String, bool) {
    let filter = if rng.random_bool(0.8) { format!(" WHERE {}", predicate(rng, 3)) } else { String::new() };
    match rng.random_range(0..6) {
        0 => {
            let mut columns = vec!["id"];
            columns.extend(["k", "n", "f", "m", "d", "t", "s", "b"].choose_multiple(rng, 3));
            (format!("SELECT {}, n + k, m * 2 FROM r{filter}", columns.join(", ")), false)
        }
        1 => {
            let calls = aggregates(rng);
            (format!("SELECT {calls} FROM r{filter}"), false)
        }
        2 => (join_query(rng), false),
        3 => (semi_join_query(rng), false),
        4 => {
            let column = *["k", "n", "m", "d", "t", "s"].choose(rng).unwrap();
            let direction = *["ASC", "DESC"].choose(rng).unwrap();
            let nulls = *["FIRST", "LAST"].choose(rng).unwrap();
            let limit = rng.random_range(0..50);
            let sql = format!(
                "SELECT {column}, id, f FROM r{filter} ORDER BY {column} {direction} NULLS {nulls}, id LIMIT {limit}"
            );
            (sql, true)
        }
        _ => {
            let keys: Vec<_> =
                ["k", "s", "b", "d", "n % 7", "coalesce(s, 'none')"].choose_multiple(rng, 2).copied().collect();
            let keys = keys[..rng.random_range(1..=2)].join(", ");
            (format!("SELECT {keys}, {} FROM r{filter} GROUP BY {keys}", aggregates(rng)), false)
        }
    }
}

/// Keys of one to three columns that `r` and `p` share values of.
fn join_condition(rng: &mut StdRng) -> String {
    let keys = ["k", "n", "m", "d", "t", "s", "id"];
    let count = rng.random_range(1..=3);
    let keys: Vec<_> = keys.choose_multiple(rng, count).map(|key| format!("r.{key} = p.{key}")).collect();
    keys.join(" AND ")
}

/// `r` joined with the small table `p`, in either order, perhaps with a second copy of it.
fn join_query(rng: &mut StdRng) -> String {
    let kind = ["INNER", "INNER", "LEFT", "RIGHT", "FULL"].choose(rng).unwrap();
    let (condition, p_filter) = (join_condition(rng), predicate(rng, 1));
    let tables = if rng.random_bool(0.5) { ("r", "p") } else { ("p", "r") };
    let second = if *kind == "INNER" && rng.random_bool(0.4) {
        format!(" JOIN (SELECT DISTINCT s AS s2 FROM p WHERE {}) q ON r.s = q.s2", predicate(rng, 1))
    } else {
        String::new()
    };
    // A filter in a sub-query stays below the join, whatever the join's kind.
    let source = |table: &str| match table {
        "p" => format!("(SELECT * FROM p WHERE {p_filter}) p"),
        table => table.to_owned(),
    };
    format!(
        "SELECT r.k, count(*), count(p.id), sum(r.n), min(p.m), max(r.s) FROM {} {kind} JOIN {} ON {condition}{second} GROUP BY r.k",
        source(tables.0),
        source(tables.1),
    )
}

/// Rows of `r` with a partner in `p`, or without.
fn semi_join_query(rng: &mut StdRng) -> String {
    let (condition, p_filter, filter) = (join_condition(rng), predicate(rng, 1), predicate(rng, 1));
    let key = *["k", "s", "m", "d"].choose(rng).unwrap();
    let not = *["", "NOT "].choose(rng).unwrap();
    let condition = match rng.random_bool(0.5) {
        true => format!("{not}EXISTS (SELECT 1 FROM (SELECT * FROM p WHERE {p_filter}) p WHERE {condition})"),
        false => format!("{key} {not}IN (SELECT {key} FROM p WHERE {p_filter})"),
    };
    format!("SELECT id, k, s FROM r WHERE ({filter}) AND {condition}")
}

fn aggregates(rng: &mut StdRng) -> String {
    let calls = [
        "count(s)",
        "sum(n)",
        "min(k)",
        "max(d)",
        "avg(f)",
        "sum(m)",
        "min(s)",
        "max(t)",
        "avg(n)",
        "stddev(f)",
        "count(DISTINCT k)",
        "sum(CASE WHEN b THEN n ELSE 0 END)",
        "bool_or(b)",
    ];
    let mut chosen: Vec<_> = calls.choose_multiple(rng, 3).copied().collect();
    chosen.insert(0, "count(*)");
    chosen.join(", ")
}

fn predicate(rng: &mut StdRng, depth: usize) -> String {
    if depth > 0 && rng.random_bool(0.5) {
        return match rng.random_range(0..3) {
            0 => format!("({} AND {})", predicate(rng, depth - 1), predicate(rng, depth - 1)),
            1 => format!("({} OR {})", predicate(rng, depth - 1), predicate(rng, depth - 1)),
            _ => format!("NOT ({})", predicate(rng, depth - 1)),
        };
    }
    let number: i32 = rng.random_range(-1000..1000);
    let word = WORDS.choose(rng).unwrap().replace('\'', "''");
    match rng.random_range(0..14) {
        0 => format!("k > {}", number.rem_euclid(150)),
        1 => format!("n BETWEEN {number} AND {}", number + 300),
        2 => format!("id < {}", number.rem_euclid(1000) * 9),
        3 => format!("s LIKE '{}%'", word.chars().next().unwrap_or('a')),
        4 => format!("s IN ('{word}', 'apple', 'zebra')"),
        5 => format!("m >= {}.5", number / 2),
        6 => "d < DATE '1992-03-01'".into(),
        7 => format!("f <= {number}.25"),
        8 => format!("{} IS {}NULL", ["s", "k", "m", "b"].choose(rng).unwrap(), ["", "NOT "].choose(rng).unwrap()),
        9 => "b".into(),
        10 => format!("id = {}", number.rem_euclid(1000) * 9),
        11 => format!("n IN ({number}, {}, {})", number / 2, number / 3),
        12 => "t >= TIMESTAMP '1992-03-08 00:30:00'".into(),
        _ => format!("length(s) + k % 5 = {}", number.rem_euclid(9)),
    }
}

/// A storage node that is told to push back none, half or all fragments, or as busy as it likes.
fn random_node(rng: &mut StdRng) -> NodeConfig {
    let pushback = [PushbackPolicy::Never, PushbackPolicy::Half, PushbackPolicy::Always, PushbackPolicy::Adaptive];
    NodeConfig {
        pushback: *pushback.choose(rng).unwrap(),
        pushdown_slots: rng.random_range(1..4),
        pushback_slots: rng.random_range(0..4),
        arbitration: *[Arbitration::PaAware, Arbitration::Fifo].choose(rng).unwrap(),
        // Behind a link, however fast, sending less pays.
        egress: rng.random_bool(0.7).then_some(10 << 30),
        ..NodeConfig::default()
    }
}

async fn session(directory: &Path, format: &str, cache_size: usize, embedded: NodeConfig) -> Session {
    let settings = Settings { cache_size, partition_size: 64 << 10, ..Settings::default() };
    let options = SessionOptions { settings, embedded, ..SessionOptions::default() };
    let session = Session::open(options).await.unwrap();
    let columns = "(id BIGINT NOT NULL, k INT, n BIGINT, f DOUBLE, m DECIMAL(12, 2), d DATE, t TIMESTAMP(6), s VARCHAR, b BOOLEAN)";
    let columns = if format == "csv" { columns } else { "" };
    for table in ["r", "p"] {
        session
            .run(&format!(
                "CREATE EXTERNAL TABLE {table} {columns} STORED AS {format} LOCATION '{}/{table}/{format}'",
                directory.display()
            ))
            .await
            .unwrap();
    }
    for column in ["id", "k", "n", "m", "s"] {
        session.run(&format!("CREATE INDEX r_{column} ON r ({column})")).await.unwrap();
    }
    session
}

/// Settings that must not change a result.
async fn set_randomly(rng: &mut StdRng, session: &Session, mode: Mode) -> String {
    let mut chosen = vec![
        ("thermocline.mode", mode.name()),
        ("thermocline.cache_policy", ["lru", "lfu"].choose(rng).unwrap()),
        ("thermocline.pushback", ["on", "on", "off"].choose(rng).unwrap()),
        ("thermocline.bitmaps", ["on", "on", "off"].choose(rng).unwrap()),
        ("thermocline.bloom_filters", ["on", "off"].choose(rng).unwrap()),
        ("thermocline.indexes", ["on", "off"].choose(rng).unwrap()),
        ("thermocline.bloom_filter_size", ["64", "1MiB"].choose(rng).unwrap()),
        // No lists, so that Bloom filters stand in for them.
        ("datafusion.optimizer.hash_join_inlist_pushdown_max_size", ["0", "131072"].choose(rng).unwrap()),
    ];
    // Both ways of running a join: one table for all, one per output partition.
    let threshold = ["0", "1048576"].choose(rng).unwrap();
    chosen.push(("datafusion.optimizer.hash_join_single_partition_threshold", threshold));
    chosen.push(("datafusion.optimizer.hash_join_single_partition_threshold_rows", threshold));
    for (name, value) in &chosen {
        session.run(&format!("SET {name} = '{value}'")).await.unwrap();
    }
    let chosen: Vec<_> = chosen.iter().map(|(name, value)| format!("{name}={value}")).collect();
    chosen.join(" ")
}

/// Leaves a few random columns in the cache, and room for no others, so that what a query needs is
/// cached in part.
async fn cache_some(session: &Session, rng: &mut StdRng, cache_size: usize) {
    let columns = ["id", "k", "n", "f", "m", "d", "t", "s", "b"];
    let read: Vec<_> = columns.choose_multiple(rng, 4).map(|column| format!("count({column})")).collect();
    session.set("cache_size", &cache_size.to_string()).unwrap();
    session.engine().cache.clear();
    session.set("mode", "caching").unwrap();
    for table in ["r", "p"] {
        session.run(&format!("SELECT {} FROM {table}", read.join(", "))).await.unwrap();
    }
    let (bytes, _) = session.engine().cache.bytes();
    session.set("cache_size", &bytes.to_string()).unwrap();
}

/// What the queries made use of.
#[derive(Default)]
struct Seen {
    bloom_filters: u64,
    bitmap_bytes_to_storage: u64,
    bitmap_bytes_from_storage: u64,
}

async fn round(seed: u64, duckdb: &mut Oracle, seen: &mut Seen) {
    let mut rng = StdRng::seed_from_u64(seed);
    let temporary = tempfile::tempdir().unwrap();
    let objects = rng.random_range(1..6);
    write_table(&mut rng, &temporary.path().join("r"), objects, 3000);
    write_table(&mut rng, &temporary.path().join("p"), 1, 400);
    for table in ["r", "p"] {
        duckdb.query(&format!(
            "CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet('{}/{table}/parquet/*.parquet')",
            temporary.path().display()
        ));
    }
    let cache_size = *[0, 50_000, 300_000, 1 << 30].choose(&mut rng).unwrap();
    let node = random_node(&mut rng);
    let sessions = [
        session(temporary.path(), "parquet", cache_size, node.clone()).await,
        session(temporary.path(), "csv", cache_size, node.clone()).await,
    ];
    for _ in 0..25 {
        let (sql, ordered) = random_query(&mut rng);
        let expected = duckdb.query(&sql);
        for session in &sessions {
            if rng.random_bool(0.05) {
                session.engine().cache.clear();
            }
            let partly = rng.random_bool(0.3);
            if partly {
                cache_some(session, &mut rng, cache_size).await;
            }
            for _ in 0..2 {
                let mode = if partly { Mode::Hybrid } else { *Mode::ALL.choose(&mut rng).unwrap() };
                let settings = set_randomly(&mut rng, session, mode).await;
                let pushback = node.pushback;
                let context = format!(
                    "THERMOCLINE_SEED={seed} cache {cache_size} partly {partly} {pushback:?} {settings}: {sql}"
                );
                let result = session.run(&sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                seen.bloom_filters += result.stats.bloom_filters;
                assert_same(canonical(&result), expected.clone(), ordered, &context);
                assert!(session.engine().cache.bytes_max() <= cache_size, "{context}: the cache passed its limit");
                seen.bitmap_bytes_to_storage += result.stats.bitmap_bytes_to_storage;
                seen.bitmap_bytes_from_storage += result.stats.bitmap_bytes_from_storage;
                let without = !session.settings().bitmaps;
                assert!(!without || result.stats.partitions(Route::Bitmap) == 0, "{context}: a bitmap");
            }
            session.set("cache_size", &cache_size.to_string()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_equal_duckdb() {
    let mut duckdb = Oracle::start();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let mut seen = Seen::default();
    if let Some(seed) = number("THERMOCLINE_SEED") {
        round(seed, &mut duckdb, &mut seen).await;
        return;
    }
    let first: u64 = rand::rng().random_range(0..1 << 40);
    for seed in first..first + number("THERMOCLINE_ROUNDS").unwrap_or(8) {
        println!("THERMOCLINE_SEED={seed}");
        round(seed, &mut duckdb, &mut seen).await;
    }
    assert!(seen.bloom_filters > 0, "no query had a Bloom filter");
    assert!(seen.bitmap_bytes_to_storage > 0, "no bitmap went to storage");
    assert!(seen.bitmap_bytes_from_storage > 0, "no bitmap came from storage");
}
