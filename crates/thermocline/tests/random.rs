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
use thermocline_pushdown::Mode;

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

/// Writes `objects` objects of both formats below `directory`.
fn write_table(rng: &mut StdRng, directory: &Path, objects: usize) {
    std::fs::create_dir_all(directory.join("parquet")).unwrap();
    std::fs::create_dir_all(directory.join("csv")).unwrap();
    let mut first_id = 0;
    for object in 0..objects {
        let rows = rng.random_range(1..3000);
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
    match rng.random_range(0..4) {
        0 => {
            let mut columns = vec!["id"];
            columns.extend(["k", "n", "f", "m", "d", "t", "s", "b"].choose_multiple(rng, 3));
            (format!("SELECT {}, n + k, m * 2 FROM r{filter}", columns.join(", ")), false)
        }
        1 => {
            let calls = aggregates(rng);
            (format!("SELECT {calls} FROM r{filter}"), false)
        }
        2 => {
            let keys: Vec<_> =
                ["k", "s", "b", "d", "n % 7", "coalesce(s, 'none')"].choose_multiple(rng, 2).copied().collect();
            let keys = keys[..rng.random_range(1..=2)].join(", ");
            (format!("SELECT {keys}, {} FROM r{filter} GROUP BY {keys}", aggregates(rng)), false)
        }
        _ => {
            let column = *["k", "n", "m", "d", "t", "s"].choose(rng).unwrap();
            let direction = *["ASC", "DESC"].choose(rng).unwrap();
            let nulls = *["FIRST", "LAST"].choose(rng).unwrap();
            let limit = rng.random_range(0..50);
            let sql = format!(
                "SELECT {column}, id, f FROM r{filter} ORDER BY {column} {direction} NULLS {nulls}, id LIMIT {limit}"
            );
            (sql, true)
        }
    }
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
    match rng.random_range(0..12) {
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
        10 => "t >= TIMESTAMP '1992-03-08 00:30:00'".into(),
        _ => format!("length(s) + k % 5 = {}", number.rem_euclid(9)),
    }
}

async fn session(directory: &Path, format: &str, cache_size: usize) -> Session {
    let settings = Settings { cache_size, partition_size: 64 << 10, ..Settings::default() };
    let session = Session::open(SessionOptions { settings, ..SessionOptions::default() }).await.unwrap();
    let columns = "(id BIGINT NOT NULL, k INT, n BIGINT, f DOUBLE, m DECIMAL(12, 2), d DATE, t TIMESTAMP(6), s VARCHAR, b BOOLEAN)";
    let columns = if format == "csv" { columns } else { "" };
    session
        .run(&format!(
            "CREATE EXTERNAL TABLE r {columns} STORED AS {format} LOCATION '{}/{format}'",
            directory.display()
        ))
        .await
        .unwrap();
    session
}

async fn round(seed: u64, duckdb: &mut Oracle) {
    let mut rng = StdRng::seed_from_u64(seed);
    let temporary = tempfile::tempdir().unwrap();
    let objects = rng.random_range(1..6);
    write_table(&mut rng, temporary.path(), objects);
    duckdb.query(&format!(
        "CREATE OR REPLACE VIEW r AS SELECT * FROM read_parquet('{}/parquet/*.parquet')",
        temporary.path().display()
    ));
    let cache_size = *[0, 50_000, 300_000, 1 << 30].choose(&mut rng).unwrap();
    let sessions =
        [session(temporary.path(), "parquet", cache_size).await, session(temporary.path(), "csv", cache_size).await];
    for _ in 0..25 {
        let (sql, ordered) = random_query(&mut rng);
        let expected = duckdb.query(&sql);
        for session in &sessions {
            if rng.random_bool(0.05) {
                session.engine().cache.clear();
            }
            for _ in 0..2 {
                let mode = *Mode::ALL.choose(&mut rng).unwrap();
                session.set("mode", mode.name()).unwrap();
                session.set("cache_policy", ["lru", "lfu"].choose(&mut rng).unwrap()).unwrap();
                let context = format!("THERMOCLINE_SEED={seed} mode {mode}, cache {cache_size}: {sql}");
                let result = session.run(&sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_same(canonical(&result), expected.clone(), ordered, &context);
                assert!(session.engine().cache.bytes_max() <= cache_size, "{context}: the cache passed its limit");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_equal_duckdb() {
    let mut duckdb = Oracle::start();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("THERMOCLINE_SEED") {
        return round(seed, &mut duckdb).await;
    }
    let first: u64 = rand::rng().random_range(0..1 << 40);
    for seed in first..first + number("THERMOCLINE_ROUNDS").unwrap_or(8) {
        println!("THERMOCLINE_SEED={seed}");
        round(seed, &mut duckdb).await;
    }
}
