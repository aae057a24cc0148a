//! Objects that differ in their columns' types, units, order and statistics, with NaN and zeros of two signs: every
//! mode gives DuckDB's rows, cold and warm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::oracle::{Oracle, Row};
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use arrow::array::*;
use arrow::datatypes::*;
use parquet::arrow::ArrowWriter;
use parquet::data_type::{ByteArray, Int96, Int96Type};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::SerializedFileWriter;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Mode;
use thermocline_storage::NodeConfig;

/// A directory of objects, a database without a link to it and one behind a link, and DuckDB.
struct Lake {
    directory: tempfile::TempDir,
    sessions: Vec<Session>,
    /// A storage node over the directory, at which the session behind these two has its tables.
    node: Option<NodeProcess>,
    duckdb: Oracle,
    /// Whether [`Lake::check`] leaves the cache unchanged.
    keep_cache: bool,
}

impl Lake {
    async fn new() -> Self {
        let mut sessions = vec![];
        for egress in [None, Some(10 << 30)] {
            let embedded = NodeConfig { egress, late_materialisation: egress.is_some(), ..NodeConfig::default() };
            let options = OpenOptions { embedded, threads: Some(2), ..OpenOptions::default() };
            let options = options.with("partition_size", "64KiB");
            sessions.push(Database::open(options, |_| {}).await.unwrap().session());
        }
        let directory = tempfile::tempdir().unwrap();
        Self { directory, sessions, node: None, duckdb: Oracle::start(), keep_cache: false }
    }

    /// With a third database, whose tables are at a storage node.
    async fn with_node() -> Self {
        let mut lake = Self::new().await;
        lake.node = Some(NodeProcess::over(lake.directory.path()));
        let options = OpenOptions { threads: Some(2), ..OpenOptions::default() }.with("partition_size", "64KiB");
        lake.sessions.push(Database::open(options, |_| {}).await.unwrap().session());
        lake
    }

    fn path(&self, table: &str, object: usize) -> PathBuf {
        let directory = self.directory.path().join(table);
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(format!("{object:03}.parquet"))
    }

    async fn run(&self, sql: &str) {
        for session in &self.sessions {
            session.run(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
        }
    }

    /// A table over `objects`, each with one column `c` beside `id`, and with declared `columns` if given; DuckDB has
    /// `c` as `of_duckdb`.
    async fn table(&mut self, name: &str, objects: &[ArrayRef], columns: &str, of_duckdb: &str) {
        let mut first_id = 0;
        for (position, values) in objects.iter().enumerate() {
            write(&self.path(name, position), first_id, values);
            first_id += values.len() as i64;
        }
        self.define(name, columns, of_duckdb).await;
    }

    async fn define(&mut self, name: &str, columns: &str, of_duckdb: &str) {
        self.run_definition(name, columns).await;
        let location = self.directory.path().join(name).display().to_string();
        self.duckdb.query(&format!(
            "CREATE OR REPLACE TABLE {name} AS SELECT id, c::{of_duckdb} AS c
             FROM read_parquet('{location}/*.parquet', union_by_name = true)"
        ));
    }

    async fn run_definition(&self, name: &str, columns: &str) {
        self.create(name, columns, "PARQUET").await;
    }

    async fn create(&self, name: &str, columns: &str, format: &str) {
        for (position, session) in self.sessions.iter().enumerate() {
            let location = match &self.node {
                Some(node) if position == 2 => format!("thermocline://{}/{name}", node.address),
                _ => self.directory.path().join(name).display().to_string(),
            };
            let sql = format!("CREATE EXTERNAL TABLE {name} {columns} STORED AS {format} LOCATION '{location}'");
            session.run(&sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
        }
    }

    /// Writes text objects by name.
    fn write_text(&self, table: &str, objects: &[(&str, &str)]) {
        let directory = self.directory.path().join(table);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in objects {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }

    /// Makes DuckDB copy the objects' rows before the test spoils the statistics, which DuckDB trusts.
    fn remember(&mut self, name: &str) {
        let location = self.directory.path().join(name).display().to_string();
        self.duckdb.query(&format!("CREATE TABLE {name} AS SELECT * FROM read_parquet('{location}/*.parquet')"));
    }

    /// A table with the columns of its objects; DuckDB has `columns` of it.
    async fn define_by_name(&mut self, name: &str, columns: &str) {
        let location = self.directory.path().join(name).display().to_string();
        self.run(&format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{location}'")).await;
        self.duckdb_by_name(name, columns);
    }

    fn duckdb_by_name(&mut self, name: &str, columns: &str) {
        self.duckdb.query(&format!(
            "CREATE OR REPLACE VIEW {name} AS SELECT {columns}
             FROM read_parquet('{}/*.parquet', union_by_name = true)",
            self.directory.path().join(name).display()
        ));
    }

    /// Compares `queries` with DuckDB's answers in all modes, cold and warm.
    async fn check(&mut self, queries: &[String]) {
        let expected: Vec<Vec<Row>> = queries.iter().map(|sql| self.duckdb.query(sql)).collect();
        for (link, session) in self.sessions.iter().enumerate() {
            for mode in Mode::ALL {
                session.set("mode", mode.name()).unwrap();
                if !self.keep_cache {
                    session.engine().cache().clear();
                }
                for run in ["cold", "warm"] {
                    for (sql, expected) in queries.iter().zip(&expected) {
                        let context = format!("{mode} {run}, link {link}: {sql}");
                        let result = session.run(sql).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                        assert_same(canonical(&result), expected.clone(), false, &context);
                    }
                }
            }
        }
    }

    /// Compares every query type that depends on statistics or order: comparisons of `c` with `constants`, NULLs,
    /// groups, order, joins.
    async fn check_column(&mut self, table: &str, constants: &[&str]) {
        let mut queries = vec![
            format!("SELECT count(*), count(c), count(DISTINCT c) FROM {table}"),
            format!("SELECT id FROM {table} WHERE c IS NULL"),
            format!("SELECT id FROM {table} WHERE c IS NOT NULL"),
            format!("SELECT count(*), min(id), max(id) FROM {table} GROUP BY c"),
            format!("SELECT id FROM {table} ORDER BY c NULLS LAST, id LIMIT 3"),
            format!("SELECT id FROM {table} ORDER BY c DESC NULLS LAST, id LIMIT 3"),
            format!("SELECT a.id, b.id FROM {table} a JOIN {table} b ON a.c = b.c"),
            format!("SELECT id FROM {table} WHERE c IN (SELECT c FROM {table} WHERE id % 3 = 0)"),
            format!("SELECT id FROM {table} WHERE c = (SELECT min(c) FROM {table})"),
            format!("SELECT id FROM {table} WHERE c = (SELECT max(c) FROM {table})"),
        ];
        for constant in constants {
            for operator in ["=", "<>", "<", "<=", ">", ">="] {
                queries.push(format!("SELECT id FROM {table} WHERE c {operator} {constant}"));
            }
        }
        if let [first, .., last] = constants {
            queries.push(format!("SELECT id FROM {table} WHERE c IN ({first}, {last})"));
            queries.push(format!("SELECT id FROM {table} WHERE c BETWEEN {first} AND {last}"));
        }
        self.check(&queries).await;
    }

    /// Errors of a query, one for each mode and run.
    async fn errors(&self, sql: &str) -> Vec<String> {
        let mut errors = vec![];
        for session in &self.sessions {
            for mode in Mode::ALL {
                session.set("mode", mode.name()).unwrap();
                errors.push(session.run(sql).await.map(|_: QueryResult| ()).unwrap_err().to_string());
            }
        }
        errors
    }
}

/// Small row groups of several pages, so that both are pruned.
fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(6))
        .set_data_page_row_count_limit(2)
        .set_write_batch_size(2)
        .build()
}

fn write(path: &Path, first_id: i64, values: &ArrayRef) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first_id..first_id + values.len() as i64));
    write_columns(path, &[("id", ids), ("c", Arc::clone(values))], properties());
}

fn write_columns(path: &Path, columns: &[(&str, ArrayRef)], properties: WriterProperties) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.iter().map(|(name, values)| (*name, Arc::clone(values), values.null_count() > 0)),
    )
    .unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Sorted values around the constants, with a NULL, over several row groups.
fn spaced(step: i64) -> Vec<Option<i64>> {
    (-9..9_i64).map(|at| (at != 4).then_some(at * step)).collect()
}

fn timestamps<T: ArrowTimestampType>(step: i64, zone: Option<&str>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter(spaced(step)).with_timezone_opt(zone))
}

const TIMES: &[&str] = &[
    "TIMESTAMP '1970-01-01 00:00:00'",
    "TIMESTAMP '1970-01-01 00:00:03'",
    "TIMESTAMP '1969-12-31 23:59:58.5'",
    "TIMESTAMP '1970-01-01 00:00:08'",
    "TIMESTAMP '2100-01-01 00:00:00'",
    // Between two values of a coarse unit, and beyond what nanoseconds hold.
    "TIMESTAMP '1970-01-01 00:00:03.0005'",
    "TIMESTAMP '1969-12-31 23:59:58.499999'",
    "TIMESTAMP '9999-12-31 00:00:00'",
    "DATE '0001-01-01'",
];

/// A literal without a zone is in the session's, wherever it stands and whatever the zone of the values beside it.
#[tokio::test(flavor = "multi_thread")]
async fn literals_without_a_zone_are_in_the_sessions() {
    let mut lake = Lake::new().await;
    let hours = |hour: i64| (hour != 5).then_some(1_719_864_000_000_000 + hour * 3_600_000_000);
    for (name, zone) in [("u", "UTC"), ("b", "Europe/Berlin"), ("n", "-03:00")] {
        let values = PrimitiveArray::<TimestampMicrosecondType>::from_iter((0..12).map(hours)).with_timezone(zone);
        lake.table(name, &[Arc::new(values) as ArrayRef], "", "TIMESTAMPTZ").await;
    }
    let session = &lake.sessions[0];
    for zone in ["UTC", "Europe/Berlin", "America/New_York"] {
        session.run(&format!("SET TIME ZONE '{zone}'")).await.unwrap();
        for table in ["u", "b", "n"] {
            for form in [
                "c = @",
                "c BETWEEN @ AND @",
                "c NOT BETWEEN @ AND @",
                "@ BETWEEN c AND c",
                "c IN (@)",
                "c IN (@, '2000-01-01')",
                "c NOT IN (@, NULL)",
                "CASE c WHEN @ THEN 1 ELSE 0 END = 1",
                "c = CASE WHEN id > 3 THEN c ELSE @ END",
                "nullif(c, @) IS NULL",
                "coalesce(nullif(c, c), @) = c",
                "greatest(c, @) = @",
                "least(c, @, '2100-01-01') = @",
            ] {
                let sql = |literal: &str| format!("SELECT id FROM {table} WHERE {}", form.replace('@', literal));
                let text = session.run(&sql("'2024-07-02 00:00:00'")).await.unwrap();
                let typed = session.run(&sql("TIMESTAMPTZ '2024-07-02 00:00:00'")).await.unwrap();
                assert_same(canonical(&text), canonical(&typed), false, &format!("{zone}: {}", sql("@")));
            }
        }
    }
}

/// A literal with more digits than microseconds lies between, or is, one of a column of nanoseconds.
#[tokio::test(flavor = "multi_thread")]
async fn literals_keep_nanoseconds() {
    let mut lake = Lake::new().await;
    let at = |step: i64| (step != 2).then_some(1_704_067_200_123_456_700 + step * 100);
    let values: ArrayRef = Arc::new(PrimitiveArray::<TimestampNanosecondType>::from_iter((-4..4).map(at)));
    lake.table("n", &[values], "", "TIMESTAMP_NS").await;
    let literals = [
        "'2024-01-01 00:00:00.1234567'",
        "'2024-01-01 00:00:00.12345675'",
        "'2024-01-01 00:00:00.123457'",
        "'2024-01-01 00:00:00.1234570'",
    ];
    let mut queries = vec![];
    for literal in literals {
        queries.extend(["=", "<>", "<", "<=", ">", ">="].map(|op| format!("SELECT id FROM n WHERE c {op} {literal}")));
        queries.push(format!("SELECT id FROM n WHERE c BETWEEN {literal} AND '2024-01-01 00:00:00.123456999'"));
        queries.push(format!("SELECT id FROM n WHERE c IN ({literal}, '2024-01-01 00:00:00.1234565')"));
        queries.push(format!("SELECT id, c IS DISTINCT FROM {literal} FROM n"));
    }
    lake.check(&queries).await;
    for (sql, literal) in queries.iter().flat_map(|sql| literals.map(|literal| (sql, literal))) {
        let typed = sql.replace(literal, &format!("TIMESTAMP {literal}"));
        let session = &lake.sessions[0];
        let (text, typed) = (session.run(sql).await.unwrap(), session.run(&typed).await.unwrap());
        assert_same(canonical(&typed), canonical(&text), false, sql);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_any_unit() {
    let mut lake = Lake::new().await;
    let second: [ArrayRef; 3] = [
        timestamps::<TimestampMillisecondType>(1_000, None),
        timestamps::<TimestampMicrosecondType>(1_000_000, None),
        timestamps::<TimestampNanosecondType>(1_000_000_000, None),
    ];
    for (object, values) in second.iter().enumerate() {
        for (at, declared) in ["TIMESTAMP", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"].iter().enumerate() {
            let name = format!("t{object}{at}");
            let columns = format!("(id BIGINT NOT NULL, c {declared})");
            lake.table(&name, std::slice::from_ref(values), &columns, "TIMESTAMP").await;
            lake.check_column(&name, TIMES).await;
        }
    }
    for (name, order) in [("mixed", [0, 1, 2]), ("reversed", [2, 1, 0]), ("between", [1, 0, 2])] {
        lake.table(name, &order.map(|at| Arc::clone(&second[at])), "", "TIMESTAMP").await;
        lake.check_column(name, TIMES).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_any_unit() {
    let mut lake = Lake::new().await;
    let thousands = || spaced(1_000).into_iter().map(|value| value.map(|value| value.abs()));
    let objects: [ArrayRef; 2] = [
        Arc::new(Time32MillisecondArray::from_iter(thousands().map(|value| value.map(|value| value as i32)))),
        Arc::new(Time64MicrosecondArray::from_iter(thousands().map(|value| value.map(|value| value * 1_000)))),
    ];
    let constants = ["TIME '00:00:03'", "TIME '00:00:03.0005'", "TIME '23:59:59.999999'"];
    for (position, values) in objects.iter().enumerate() {
        let name = format!("t{position}");
        lake.table(&name, std::slice::from_ref(values), "", "TIME").await;
        let compared = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"];
        let queries = constants.iter().flat_map(|constant| {
            let of = |operator: &&str| format!("SELECT id FROM {name} WHERE c {operator} {constant}");
            compared.iter().map(of).collect::<Vec<_>>()
        });
        let mut queries: Vec<String> = queries.collect();
        queries.push(format!("SELECT id FROM {name} WHERE c IN ({})", constants.join(", ")));
        queries.push(format!("SELECT id FROM {name} WHERE c BETWEEN {} AND {}", constants[1], constants[2]));
        queries.push(format!("SELECT id FROM {name} WHERE NOT ({} = c)", constants[0]));
        lake.check(&queries).await;
    }
    let joins = ["a.c = b.c", "a.c < b.c", "a.c IS NOT DISTINCT FROM b.c"];
    let joins = joins.map(|condition| format!("SELECT a.id, b.id AS other FROM t0 a JOIN t1 b ON {condition}"));
    lake.check(&joins).await;
}

/// UUIDs of Parquet's own type and of CSV, and their output by COPY.
#[tokio::test(flavor = "multi_thread")]
async fn uuids() {
    let mut lake = Lake::with_node().await;
    let rows = "SELECT i AS id, CASE WHEN i % 7 > 0 THEN md5((i % 50)::VARCHAR)::UUID END AS c FROM range(400) t(i)";
    let parquet = lake.path("of_parquet", 0);
    lake.duckdb.query(&format!("COPY ({rows}) TO '{}' (FORMAT PARQUET)", parquet.display()));
    lake.define("of_parquet", "", "UUID").await;
    let text = lake.path("of_csv", 0).with_extension("csv");
    lake.duckdb.query(&format!("COPY ({rows}) TO '{}' (FORMAT CSV)", text.display()));
    lake.create("of_csv", "(id BIGINT, c UUID)", "CSV").await;
    for (copied, columns, format) in
        [("copied", "", "PARQUET"), ("copied_text", "(id BIGINT, c UUID)", "CSV"), ("copied_json", "", "JSON")]
    {
        let file = lake.path(copied, 0).with_extension(format.to_lowercase());
        let copy = format!("COPY (SELECT * FROM of_parquet) TO '{}' STORED AS {format}", file.display());
        lake.sessions[0].run(&copy).await.unwrap();
        match format {
            "JSON" => {
                let text = std::fs::read_to_string(file).unwrap();
                assert!(text.contains(r#"{"id":1,"c":"c4ca4238-a0b9-2382-0dcc-509a6f75849b"}"#), "{text}");
            }
            format => lake.create(copied, columns, format).await,
        }
    }
    let constants = ["'C4CA4238A0B923820DCC509A6F75849B'", "'80000000-0000-0000-0000-000000000000'"];
    let [first, last] = constants;
    for table in ["of_parquet", "of_csv", "copied", "copied_text"] {
        if table != "of_parquet" {
            lake.duckdb.query(&format!("CREATE VIEW {table} AS SELECT * FROM of_parquet"));
        }
        let mut queries = vec![
            format!("SELECT count(*), count(c), count(DISTINCT c) FROM {table}"),
            format!("SELECT id FROM {table} WHERE c IS NULL"),
            format!("SELECT CAST(c AS VARCHAR) AS text, count(*) FROM {table} GROUP BY c"),
            format!("SELECT id FROM {table} ORDER BY c NULLS LAST, id LIMIT 30"),
            format!("SELECT id FROM {table} ORDER BY c DESC NULLS LAST, id LIMIT 30"),
            format!("SELECT a.id, b.id AS other FROM {table} a JOIN {table} b ON a.c = b.c WHERE b.id < 60"),
            format!("SELECT id FROM {table} WHERE c IN (SELECT c FROM {table} WHERE id % 30 = 1)"),
            format!("SELECT id FROM {table} WHERE c IN ({first}, {last})"),
            format!("SELECT id FROM {table} WHERE c NOT IN ({first}, {last})"),
            format!("SELECT id FROM {table} WHERE c BETWEEN {last} AND {first}"),
            format!("SELECT CAST(coalesce(c, {last}) AS VARCHAR) AS text FROM {table} WHERE id < 9"),
        ];
        for constant in constants {
            for operator in ["=", "<>", "<", "<=", ">", ">="] {
                queries.push(format!("SELECT id FROM {table} WHERE c {operator} {constant}"));
            }
        }
        lake.check(&queries).await;
    }
    // Other bytes are read unchanged.
    std::fs::create_dir_all(lake.path("bytes", 0).parent().unwrap()).unwrap();
    std::fs::copy(parquet, lake.path("bytes", 0)).unwrap();
    lake.create("bytes", "(id BIGINT, c BYTEA)", "PARQUET").await;
    lake.duckdb.query("CREATE VIEW bytes AS SELECT id, unhex(replace(c::VARCHAR, '-', '')) AS c FROM of_parquet");
    let hex = "SELECT id FROM bytes WHERE c = '\\xC4\\xCA\\x42\\x38\\xA0\\xB9\\x23\\x82\\x0D\\xCC\\x50\\x9A\\x6F\\x75\\x84\\x9B'";
    let expected = lake.duckdb.query(hex);
    for session in &lake.sessions {
        let found = session.run("SELECT id FROM bytes WHERE c = '\\xc4ca4238a0b923820dcc509a6f75849b'").await.unwrap();
        assert_same(canonical(&found), expected.clone(), false, "bytes");
    }
}

/// A literal is the written number, not the nearest binary fraction.
#[tokio::test(flavor = "multi_thread")]
async fn decimal_literals() {
    let mut lake = Lake::new().await;
    let values = [Some(123_456_789), Some(9_999_999), Some(10), None, Some(-123_456_789), Some(110)];
    let values: Decimal128Array = values.into_iter().collect();
    let objects: [ArrayRef; 1] = [Arc::new(values.with_precision_and_scale(12, 2).unwrap())];
    lake.table("d", &objects, "", "DECIMAL(12, 2)").await;
    let conditions = [
        "c = 1234567.89",
        "c <> 99999.99",
        "c IN (99999.99, 0.1, -1234567.89)",
        "c NOT IN (0.10, 1.1)",
        "c BETWEEN 1234567.88 AND 1234567.89",
        "c < 1234567.8901",
        "c > 1234567.8899",
        "c < 1234567.88 + 0.02 AND c > 1234567.9 - 0.02",
        "c = 0.2 * 0.5",
        "c IS NOT DISTINCT FROM 0.1",
    ];
    let queries: Vec<String> =
        conditions.iter().map(|condition| format!("SELECT id FROM d WHERE {condition}")).collect();
    lake.check(&queries).await;
}

/// Written numbers are decimals in every position, and doubles beside floats.
#[tokio::test(flavor = "multi_thread")]
async fn written_numbers() {
    let mut lake = Lake::new().await;
    let prices: Decimal128Array = [Some(123_456_789), Some(10), None, Some(-110), Some(0)].into_iter().collect();
    let objects: [ArrayRef; 1] = [Arc::new(prices.with_precision_and_scale(12, 2).unwrap())];
    lake.table("prices", &objects, "", "DECIMAL(12, 2)").await;
    let floats = vec![Some(0.1), Some(1e-20), None, Some(1e30), Some(-1.1), Some(1234567.89), Some(1.5)];
    let objects: [ArrayRef; 1] = [Arc::new(Float64Array::from(floats))];
    lake.table("floats", &objects, "", "DOUBLE").await;
    let integers = vec![Some(9_007_199_254_740_993), Some(i64::MAX), Some(i64::MIN), None, Some(2), Some(-3)];
    let objects: [ArrayRef; 1] = [Arc::new(Int64Array::from(integers))];
    lake.table("integers", &objects, "", "BIGINT").await;
    let wide = vec![Some(u64::MAX), Some(0), Some(9_007_199_254_740_993)];
    let objects: [ArrayRef; 1] = [Arc::new(UInt64Array::from(wide))];
    lake.table("wide", &objects, "", "UBIGINT").await;
    let numbers = ["1234567.89", "0.1", "-1.10", "1.5", "0.000000000000001", "1e-20", "9007199254740993.0"];
    let places = [
        "c = {}",
        "c > {}",
        "{} >= c",
        "c <> {}",
        "c BETWEEN {} AND 1e20",
        "c IN ({}, 0.5)",
        "c NOT IN ({})",
        "c IN (SELECT {})",
        "c IN (SELECT v FROM (VALUES ({}), (7.25)) AS numbers(v))",
        "c = (SELECT max(v) FROM (VALUES ({}), (-100.5)) AS numbers(v))",
        "c IN (SELECT {} UNION ALL SELECT 0.5)",
        "c < ALL (SELECT {})",
        "coalesce(NULL, {}) = c",
        "nullif(c, {}) IS NULL",
        "CASE WHEN c IS NULL THEN {} ELSE c END = {}",
        "CASE c WHEN {} THEN 1 ELSE 2 END = 1",
        "(c IS DISTINCT FROM {})",
        "c = {} * 1.0",
        "c < {} + 0.1",
    ];
    let mut queries = vec![];
    for table in ["prices", "floats", "integers", "wide"] {
        for place in places {
            let conditions = numbers.iter().map(|number| place.replace("{}", number));
            queries.extend(conditions.map(|condition| format!("SELECT id FROM {table} WHERE {condition}")));
        }
    }
    for condition in ["a.c = b.c", "a.c < b.c", "a.c IS NOT DISTINCT FROM b.c"] {
        for (one, other) in [("prices", "floats"), ("integers", "prices"), ("integers", "floats"), ("wide", "prices")] {
            queries.push(format!("SELECT a.id, b.id AS other FROM {one} a JOIN {other} b ON {condition}"));
        }
    }
    queries.extend(
        [
            "SELECT id FROM prices WHERE c IN (SELECT c FROM floats)",
            "SELECT id FROM floats WHERE c IN (SELECT c FROM prices)",
            "SELECT count(*) FROM prices JOIN floats USING (c)",
            "SELECT count(*) FROM (SELECT c FROM floats INTERSECT SELECT c FROM prices)",
            "SELECT count(*) FROM (SELECT c FROM floats EXCEPT SELECT c FROM prices)",
            "SELECT c FROM prices UNION SELECT c FROM floats",
            "SELECT c FROM floats UNION ALL SELECT c FROM prices UNION ALL SELECT c FROM integers",
            "SELECT id, CASE WHEN id < 2 THEN 0.1 ELSE c END AS v FROM floats",
            "SELECT id, coalesce(c, 0.0) AS v, c * 0.1 AS w, c / 2.5 AS x FROM floats",
            "SELECT id, c * 0.1 AS v, c / 3 AS w, c / c AS x, c / 0.3 AS y FROM prices WHERE c <> 0",
            "SELECT id, c * 0.5 AS v, c / 2.5 AS w FROM integers WHERE c < 100 AND c > -100",
            "SELECT sum(c) / count(*) AS a, 100.00 * sum(c) / sum(c + 1.0) AS b, sum(c * 0.001) AS d FROM prices",
            "SELECT avg(c) AS a, avg(c) AS b, sum(c) AS d, avg(DISTINCT c) AS e, avg(c) FILTER (WHERE id > 99) AS f FROM prices",
            "SELECT id % 2 AS k, avg(c) AS a, avg(c + 0.5) / 3 AS b, count(c) AS d FROM prices GROUP BY k HAVING avg(c) > 0",
            "SELECT id, avg(c) OVER (ORDER BY id) AS a, sum(c) OVER (ORDER BY id) AS b, avg(id) OVER () AS d FROM prices",
            "SELECT id FROM prices WHERE c > (SELECT 0.2 * avg(c) FROM prices)",
            "SELECT id % 3 AS k, avg(c) AS a, grouping(id % 3) AS g FROM prices GROUP BY ROLLUP (id % 3)",
            "SELECT 0.1 + 0.2 AS a, 1.0 / 3 AS b, 1e5 AS c, -1.5e-3 AS d, 12345678901234567.891 AS e",
            "SELECT id FROM floats WHERE CASE WHEN id = 1 THEN 3 ELSE 2.75 END > 2.5",
            "SELECT id FROM floats WHERE CASE WHEN id = 1 THEN 3 ELSE c END > 2.5",
            "SELECT id FROM floats WHERE CASE WHEN id = 1 THEN 3 ELSE 2.75e0 END > 2.5",
            "SELECT id FROM prices WHERE CASE WHEN id = 1 THEN 3 ELSE c END / 3 = 1.0",
            "SELECT id, CASE WHEN id = 1 THEN 3 ELSE 2.5 END / 3 AS v FROM prices",
            "SELECT x FROM (SELECT 1 AS x UNION ALL SELECT 2.75) z WHERE x > 2.5",
            "SELECT x / 3 AS y FROM (SELECT 1 AS x UNION ALL SELECT 2.75) z",
            "SELECT max(x) > 2.5 AS y FROM (SELECT 1 AS x UNION ALL SELECT 2.75) z",
            "SELECT 2.75 > (SELECT CASE WHEN count(*) < 0 THEN 3 ELSE 2.5 END FROM floats) AS y",
            "SELECT 1 AS x UNION ALL SELECT 2.5 UNION ALL SELECT 1e-20 UNION ALL SELECT 1e30",
            "SELECT x FROM (VALUES (1e-20 * 1), (2.5)) v(x)",
            "SELECT x = 10 / 3.0 AS y FROM (VALUES (10 / 3.0), (2.5)) v(x)",
            "SELECT x FROM (VALUES (sqrt(2)), (2.5), (1)) v(x)",
            "SELECT id FROM integers WHERE c + 0 IN (CASE WHEN id = 3 THEN 2 END, 1, 10, 11, 12)",
            "SELECT id FROM integers WHERE c NOT IN (CASE id WHEN 3 THEN 2 ELSE 3 END, 1, 10)",
            "SELECT id FROM floats WHERE 10 NOT IN (SELECT c FROM prices)",
            "SELECT id FROM floats WHERE NOT (10 IN (SELECT c FROM prices))",
            "SELECT id FROM floats WHERE 10 NOT IN (SELECT c FROM prices WHERE c IS NOT NULL)",
            "SELECT concat(1.50, 'x') AS a, 'id ' || 1234567890123456.5 AS b",
            "SELECT id, ceil(c) AS a, floor(c) AS b, ceil(9.5) AS d, floor(-0.5) AS e, ceil(99.9) AS f FROM prices",
            "SELECT a.id FROM integers a JOIN wide b ON coalesce(a.c, b.c, 1e0) > 5 WHERE a.id < 4 AND b.id < 1",
            "SELECT CASE WHEN a.id < 3 THEN a.c ELSE b.c END > 1e10 AS x FROM integers a JOIN wide b ON true",
            "SELECT c FROM integers UNION ALL SELECT c FROM wide UNION ALL SELECT c FROM floats",
            "SELECT 18446744073709551616 AS a, -0.5 AS b, .5 AS c, 00.10 AS d, 0.1 = 0.10 AS e, 1.5 > 1e0 AS f",
        ]
        .map(str::to_owned),
    );
    lake.check(&queries).await;
    // Arrays, whose functions have other names in DuckDB, and parameters, to which DuckDB gives the column's type.
    for (sql, same) in [
        ("SELECT id FROM floats WHERE array_has([1, 2.5], 2.5)", "SELECT id FROM floats"),
        ("SELECT id FROM floats WHERE array_has([1.5, 22.5], 2.5)", "SELECT id FROM floats WHERE false"),
        ("SELECT id FROM floats WHERE array_has([1e0, 2.5], 2.5)", "SELECT id FROM floats"),
        ("SELECT id FROM floats WHERE 1.5 = ANY([1.5, 2])", "SELECT id FROM floats"),
        ("EXECUTE over(2.5)", "SELECT id FROM integers WHERE c > 3"),
        ("EXECUTE over(1.4)", "SELECT id FROM integers WHERE c > 1"),
        ("EXECUTE times(12.5)", "SELECT 12.5 * 0.5 AS x"),
        ("EXECUTE typed('2')", "SELECT id FROM integers WHERE c = 2"),
    ] {
        for session in &lake.sessions {
            if sql.starts_with("EXECUTE") && session.run("EXECUTE over(1)").await.is_err() {
                for statement in [
                    "PREPARE over AS SELECT id FROM integers WHERE c > $1",
                    "PREPARE times AS SELECT $1 * 0.5 AS x",
                    "PREPARE typed(BIGINT) AS SELECT id FROM integers WHERE c = $1",
                ] {
                    session.run(statement).await.unwrap();
                }
            }
            let [ours, expected] =
                [session.run(sql).await, session.run(same).await].map(|result| canonical(&result.unwrap()));
            assert_same(ours, expected, false, sql);
        }
    }
    for (sql, reason) in [
        ("EXECUTE over(1, 2)", "over has 1 parameters, and 2 are given"),
        ("EXECUTE over()", "over has 1 parameters, and 0 are given"),
        ("EXECUTE over(c)", "which is not a constant"),
        ("EXECUTE nobody(1)", "does not exist"),
    ] {
        let error = lake.sessions[0].run(sql).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{sql}: {error}");
    }
    // DuckDB compares text with numbers; PostgreSQL has no such operator.
    lake.write_text("texts", &[("a.csv", "id,c\n1,1.54\n2,1.5\n3,1.50\n")]);
    for session in &lake.sessions {
        let location = lake.directory.path().join("texts");
        let sql = format!(
            "CREATE EXTERNAL TABLE texts (id INT, c VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('has_header' 'true')",
            location.display()
        );
        session.run(&sql).await.unwrap();
        let error = session.run("SELECT id FROM texts WHERE c = 1.5").await.unwrap_err().to_string();
        assert!(error.contains("operator does not exist: TEXT = DECIMAL(2, 1)"), "{error}");
        let result = session.run("SELECT id FROM texts WHERE CAST(c AS DOUBLE) = 1.5").await.unwrap();
        assert_eq!(result.rows(), 2, "text is not rounded to the literal's digits");
    }
}

/// Large lists travel as such, alone and within structs.
#[tokio::test(flavor = "multi_thread")]
async fn large_lists() {
    let mut lake = Lake::new().await;
    let mut words = LargeListBuilder::new(StringBuilder::new());
    let mut numbers = ListBuilder::new(Int64Builder::new());
    let mut large_numbers = LargeListBuilder::new(Int32Builder::new());
    for row in 0..5000 {
        for item in 0..row % 4 {
            words.values().append_value(format!("{row} {item}"));
            numbers.values().append_value(row + item);
            large_numbers.values().append_value((row - item) as i32);
        }
        words.append(row % 7 != 0);
        numbers.append(true);
        large_numbers.append(row % 5 != 0);
    }
    let (words, numbers, large_numbers) = (words.finish(), numbers.finish(), large_numbers.finish());
    let nested = Field::new("l", large_numbers.data_type().clone(), true);
    let nested = StructArray::from(vec![(Arc::new(nested), Arc::new(large_numbers.clone()) as ArrayRef)]);
    lake.table("words", &[Arc::new(words)], "", "VARCHAR[]").await;
    lake.table("numbers", &[Arc::new(numbers), Arc::new(large_numbers)], "", "BIGINT[]").await;
    lake.table("nested", &[Arc::new(nested)], "", "STRUCT(l INTEGER[])").await;
    let mut queries = vec![];
    for table in ["words", "numbers", "nested"] {
        queries.push(format!("SELECT id, c FROM {table} WHERE id % 100 = 3"));
        queries.push(format!("SELECT id AS a, c AS b FROM {table} WHERE id % 2 = 5"));
        queries.push(format!("SELECT id, c FROM {table} WHERE c IS NULL AND id > 4900"));
        queries.push(format!("SELECT id, c, CASE WHEN id % 2 = 0 THEN 'a' END AS s FROM {table} WHERE id % 1000 = 1"));
    }
    lake.check(&queries).await;
}

/// Bounds of a type that cannot be read as the table's must not skip the object: the query must fail.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_read_are_not_skipped() {
    let lake = Lake::new().await;
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["10", "50", "9"]));
    for (name, objects) in [("a", [&number, &text]), ("b", [&text, &number])] {
        for (position, values) in objects.iter().enumerate() {
            write(&lake.path(name, position), position as i64 * 10, values);
        }
        lake.run_definition(name, "").await;
        for session in &lake.sessions {
            for mode in Mode::ALL {
                session.set("mode", mode.name()).unwrap();
                for condition in ["c > 40", "c < 0", "c = '50'", "c = 'x'"] {
                    let Err(error) = session.run(&format!("SELECT id FROM {name} WHERE {condition}")).await else {
                        panic!("{mode}: {name}, {condition}");
                    };
                    let error = error.to_string();
                    // Text columns do not compare with numbers, nor number columns with text that is not a number.
                    let expected = match (name, condition) {
                        ("a", "c = 'x'") => "'x'",
                        ("b", "c > 40" | "c < 0") => "operator does not exist",
                        _ => "001.parquet",
                    };
                    assert!(error.contains(expected), "{mode}: {name}, {condition}: {error}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instants_of_several_zones() {
    let mut lake = Lake::new().await;
    lake.duckdb.query("SET TimeZone = 'UTC'");
    let objects = [
        timestamps::<TimestampMillisecondType>(1_000, Some("UTC")),
        timestamps::<TimestampMicrosecondType>(1_000_000, Some("Europe/Berlin")),
        timestamps::<TimestampMicrosecondType>(500_000, Some("+05:30")),
    ];
    lake.table("zones", &objects, "", "TIMESTAMPTZ").await;
    let constants = [
        "TIMESTAMPTZ '1970-01-01 00:00:03+00'",
        "TIMESTAMPTZ '1970-01-01 01:00:02+01'",
        // Moments beyond the range of nanoseconds.
        "TIMESTAMPTZ '9999-06-01 00:00:00+00'",
        "TIMESTAMPTZ '0001-06-01 00:00:00+00'",
    ];
    lake.check_column("zones", &constants).await;
    let [near, .., far, early] = constants;
    let conditions = [
        format!("c IN ({near}, {far}, NULL)"),
        format!("c NOT IN ({far}, NULL)"),
        format!("c IN ({far}, {near}, c)"),
        format!("c BETWEEN {early} AND c"),
        format!("c NOT BETWEEN c AND {far}"),
    ];
    lake.check(&conditions.map(|condition| format!("SELECT id FROM zones WHERE {condition}"))).await;
}

/// Milliseconds of whole days are read as days if the table is declared so.
#[tokio::test(flavor = "multi_thread")]
async fn dates_of_both_widths() {
    const DAY: i64 = 86_400_000;
    let mut lake = Lake::new().await;
    let objects: [ArrayRef; 2] = [
        Arc::new(Date64Array::from(vec![Some(-DAY), None, Some(0), Some(8000 * DAY)])),
        Arc::new(Date32Array::from(vec![Some(-1), Some(7999), None])),
    ];
    let mut first_id = 0;
    for (position, values) in objects.iter().enumerate() {
        write(&lake.path("dates", position), first_id, values);
        first_id += values.len() as i64;
    }
    lake.run_definition("dates", "(id BIGINT, c DATE)").await;
    lake.duckdb.query(
        "CREATE TABLE dates AS SELECT i AS id, DATE '1970-01-01' + d::INT AS c
         FROM (VALUES (0, -1), (1, NULL), (2, 0), (3, 8000), (4, -1), (5, 7999), (6, NULL)) v(i, d)",
    );
    lake.check_column("dates", &["DATE '1969-12-31'", "DATE '1991-11-26'", "DATE '1991-11-27'"]).await;

    // Together with timestamps of years beyond the range of nanoseconds.
    let moments = [-62_135_596_800_000_000, 0, -86_400_000_000, 253_402_214_400_000_001];
    let moments: [ArrayRef; 1] = [Arc::new(TimestampMicrosecondArray::from(moments.to_vec()))];
    lake.table("moments", &moments, "", "TIMESTAMP").await;
    let conditions = ["a.c = b.c", "a.c < b.c", "b.c > a.c", "a.c IS DISTINCT FROM b.c"];
    let queries =
        conditions.map(|condition| format!("SELECT a.id, b.id AS other FROM dates a JOIN moments b ON {condition}"));
    lake.check(&queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_in_place_of_null() {
    let mut lake = Lake::new().await;
    let values = [Some("none".as_bytes()), None, Some(b""), Some(b"a")];
    let objects: [ArrayRef; 2] =
        [Arc::new(BinaryArray::from_iter(values)), Arc::new(LargeBinaryArray::from_iter(values))];
    lake.table("bytes", &objects, "", "BLOB").await;
    let conditions = [
        "coalesce(c, CAST('none' AS BYTEA)) = CAST('none' AS BYTEA)",
        "coalesce(NULL, CAST('a' AS BYTEA), c) = c",
        "coalesce(c, c) = CAST('a' AS BYTEA)",
    ];
    let mut queries = conditions.map(|condition| format!("SELECT id FROM bytes WHERE {condition}")).to_vec();
    queries.push("SELECT id, coalesce(c, CAST('none' AS BYTEA)) AS o FROM bytes".into());
    lake.check(&queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_several_widths() {
    let mut lake = Lake::new().await;
    let decimal = |precision: u8, scale: i8, step: i64| -> ArrayRef {
        let values = spaced(step).into_iter().map(|value| value.map(i128::from));
        Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(precision, scale).unwrap())
    };
    let constants = ["0", "2", "2.5", "-7.25", "8.9999"];
    for (name, declared, of_duckdb) in
        [("inferred", "", "DECIMAL(38, 4)"), ("declared", "(id BIGINT, c DECIMAL(24, 6))", "DECIMAL(24, 6)")]
    {
        let objects = [
            decimal(9, 2, 125),
            Arc::new(Int32Array::from_iter(spaced(1).into_iter().map(|value| value.map(|value| value as i32)))),
            decimal(18, 4, 12_345),
            Arc::new(Int16Array::from(vec![i16::MIN, -1, 2, i16::MAX])),
            decimal(5, 1, -15),
        ];
        lake.table(name, &objects, declared, of_duckdb).await;
        lake.check_column(name, &constants).await;
    }

    let integers: [ArrayRef; 4] = [
        Arc::new(UInt32Array::from(vec![0, 1, 7, u32::MAX - 1, u32::MAX, 1 << 31, 3])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(7)])),
        Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 1 << 31, -1, 0, 7, 8])),
        Arc::new(UInt16Array::from(vec![u16::MAX, 0, 7])),
    ];
    let constants = ["7", "2147483648", "4294967295", "-128", "9223372036854775807"];
    lake.table("integers", &integers, "", "BIGINT").await;
    lake.check_column("integers", &constants).await;
    let unsigned: [ArrayRef; 2] =
        [Arc::new(UInt64Array::from(vec![0, u64::MAX, 1 << 63, 7])), Arc::new(Int64Array::from(vec![-1, i64::MAX]))];
    lake.table("unsigned", &unsigned, "", "HUGEINT").await;
    lake.check_column("unsigned", &["7", "9223372036854775808", "18446744073709551615"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_in_another_order_than_declared() {
    let mut lake = Lake::new().await;
    let path = lake.path("swapped", 0);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..20).map(|id| 1000 - id)));
    write_columns(&path, &[("c", values), ("unused", Arc::clone(&ids)), ("id", ids)], properties());
    lake.define("swapped", "(id BIGINT, c BIGINT)", "BIGINT").await;
    lake.check_column("swapped", &["990", "10", "981", "1000"]).await;
    lake.check(&["SELECT c FROM swapped WHERE id BETWEEN 3 AND 7".into()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_whose_statistics_are_cut() {
    let mut lake = Lake::new().await;
    let stem = "ü".repeat(60);
    let values: Vec<String> = (0..12).map(|at| format!("{stem}{}{}", char::from(b'a' + at), "z".repeat(90))).collect();
    let last = char::MAX.to_string().repeat(40);
    let mut text: Vec<Option<&str>> = values.iter().map(|value| Some(value.as_str())).collect();
    text.extend([None, Some(""), Some(last.as_str()), Some("b")]);
    let quoted: Vec<String> = [&values[0], &values[7], &last].iter().map(|value| format!("'{value}'")).collect();
    let constants: Vec<&str> = quoted.iter().map(String::as_str).chain(["''", "'b'"]).collect();
    let objects: [ArrayRef; 4] = [
        Arc::new(StringArray::from(text.clone())),
        Arc::new(LargeStringArray::from(text.clone())),
        Arc::new(text.iter().copied().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(StringViewArray::from(text)),
    ];
    lake.table("cut", &objects, "", "VARCHAR").await;
    lake.check_column("cut", &constants).await;
}

/// INT96, which no statistics order: beyond the years of nanoseconds, and before 1970.
#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_int96() {
    let mut lake = Lake::new().await;
    let path = lake.path("old", 0);
    let schema = "message m { required int64 id; optional int96 c; }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties())).unwrap();
    // Julian days, of which 2 440 588 is 1970-01-01, and nanoseconds of the day.
    let days = [2_440_588_i64, 2_440_589, 2_440_000, 5_373_484, 2_415_021, 2_488_070];
    for group in 0..2 {
        let mut row_group = writer.next_row_group().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let ids: Vec<i64> = (group * 6..group * 6 + 6).collect();
        column.typed::<parquet::data_type::Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let values: Vec<Int96> = days
            .iter()
            .map(|day| {
                let nanos = group as u64 * 3_600_000_000_000 + 1_000;
                let mut value = Int96::new();
                value.set_data(nanos as u32, (nanos >> 32) as u32, *day as u32);
                value
            })
            .collect();
        column.typed::<Int96Type>().write_batch(&values, Some(&[1; 6]), None).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    let constants = [
        "TIMESTAMP '1970-01-01 00:00:00.000001'",
        "TIMESTAMP '2200-01-01 00:00:00'",
        "TIMESTAMP '1900-06-01 00:00:00'",
    ];
    for (name, columns) in [("old", ""), ("old6", "(id BIGINT, c TIMESTAMP(6))")] {
        if name != "old" {
            std::fs::copy(lake.path("old", 0), lake.path(name, 0)).unwrap();
        }
        lake.define(name, columns, "TIMESTAMP").await;
        lake.check_column(name, &constants).await;
        lake.check(&[format!("SELECT id, c FROM {name}")]).await;
    }
}

/// Writes the object at `path` again with a footer in which `edit` has changed the statistics of
/// every chunk of the second column.
fn edit_statistics(path: &Path, edit: impl Fn(&Statistics) -> Option<Statistics>) {
    let bytes = std::fs::read(path).unwrap();
    let file = std::fs::File::open(path).unwrap();
    let footer: ParquetMetaData = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let mut written = bytes[..bytes.len() - 8 - length].to_vec();
    let mut builder = footer.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let columns = group.take_columns().into_iter().enumerate().map(|(position, column)| {
            let statistics = column.statistics().filter(|_| position == 1).map(&edit);
            match statistics {
                None => column,
                Some(None) => column.into_builder().clear_statistics().build().unwrap(),
                Some(Some(statistics)) => column.into_builder().set_statistics(statistics).build().unwrap(),
            }
        });
        let columns = columns.collect();
        group.set_column_metadata(columns).build().unwrap()
    });
    let groups = groups.collect();
    let footer = builder.set_row_groups(groups).build();
    ParquetMetaDataWriter::new(&mut written, &footer).finish().unwrap();
    std::fs::write(path, written).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_of_old_and_sloppy_writers() {
    let mut lake = Lake::new().await;
    // The order of signed bytes, in which text beyond ASCII comes first.
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "zz", "é", "b", "ö", "c"]));
    write(&lake.path("signed", 0), 0, &text);
    lake.remember("signed");
    edit_statistics(&lake.path("signed", 0), |_| {
        let value = |text: &str| Some(ByteArray::from(text));
        Some(Statistics::ByteArray(ValueStatistics::new(value("é"), value("zz"), None, Some(0), true)))
    });
    lake.run_definition("signed", "").await;
    lake.check_column("signed", &["'zz'", "'a'", "'é'", "'ö'", "'x'"]).await;

    // NULLs that were not counted.
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None, Some(5), Some(6)]));
    write(&lake.path("uncounted", 0), 0, &values);
    lake.remember("uncounted");
    edit_statistics(&lake.path("uncounted", 0), |_| Some(Statistics::int32(Some(1), Some(6), None, None, false)));
    lake.run_definition("uncounted", "").await;
    lake.check_column("uncounted", &["1", "4", "7"]).await;

    // No statistics at all, and columns of NULLs only.
    for (name, statistics) in [("none", EnabledStatistics::None), ("nulls", EnabledStatistics::Page)] {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..12));
        let values: ArrayRef = Arc::new(Int32Array::from_iter((0..12).map(|at| (at < 5).then_some(at))));
        let properties = properties().into_builder().set_statistics_enabled(statistics).build();
        write_columns(&lake.path(name, 0), &[("id", ids), ("c", values)], properties);
        lake.define(name, "", "INTEGER").await;
        lake.check_column(name, &["1", "4", "7"]).await;
    }
}

/// Floats of every kind, each beside values that a row group's bounds leave out.
fn floats() -> Vec<Option<f64>> {
    let other_nan = f64::from_bits(0x7ff8_0000_0000_0001);
    vec![
        Some(1.5),
        Some(f64::NAN),
        Some(-1.0),
        Some(0.0),
        None,
        Some(-0.0),
        Some(-f64::NAN),
        Some(f64::NAN),
        None,
        None,
        Some(other_nan),
        Some(f64::NAN),
        Some(-0.0),
        Some(-0.0),
        Some(-0.0),
        None,
        Some(-0.0),
        Some(-0.0),
        Some(0.0),
        Some(0.0),
        None,
        Some(0.0),
        Some(0.0),
        Some(0.0),
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
        Some(f64::MAX),
        Some(f64::MIN),
        Some(5.0),
        Some(f64::NAN),
        Some(f64::INFINITY),
        Some(f64::INFINITY),
        Some(2.0),
        Some(3.0),
        Some(4.0),
        Some(1.5),
        Some(1.0),
        Some(2.0),
        Some(3.0),
        Some(4.0),
        Some(5.0),
        Some(6.0),
    ]
}

const FLOATS: &[&str] =
    &["0.0", "CAST('-0' AS DOUBLE)", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "1.5", "-1.0", "5.5"];

/// Queries that order, group and join floats, including computed ones.
fn float_queries(table: &str) -> Vec<String> {
    [
        "SELECT {t}.id FROM {t} JOIN (SELECT id % 3 AS g, max(c) AS x, min(c) AS n FROM {t} GROUP BY id % 3) m
         ON {t}.id % 3 = m.g AND ({t}.c = m.x OR {t}.c = m.n)",
        "SELECT {t}.id FROM {t} JOIN (SELECT id AS g, max(c) AS x, min(c) AS n FROM {t} GROUP BY id) m
         ON {t}.id = m.g AND {t}.c = m.x AND {t}.c = m.n",
        "SELECT id FROM {t} WHERE c * -1 >= 0.0",
        "SELECT id FROM {t} WHERE -c = 0.0",
        "SELECT id FROM {t} WHERE c - c = 0",
        "SELECT id FROM {t} WHERE c - c > 1e308",
        "SELECT id FROM {t} WHERE c * 0.0 <> 0",
        "SELECT id FROM {t} WHERE c IN (0.0, CAST('NaN' AS DOUBLE), 1.5)",
        "SELECT id FROM {t} WHERE c IS DISTINCT FROM -c",
        "SELECT count(*), min(id) FROM {t} GROUP BY c * 0.0",
        "SELECT count(*), min(id) FROM {t} GROUP BY -c, id % 2",
        "SELECT count(DISTINCT c * -1), count(DISTINCT abs(c)) FROM {t}",
        "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.c * -1 = b.c",
        "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.c = b.c AND a.id % 2 = b.id % 2 WHERE a.c > 1",
        "SELECT a.id, b.id FROM (SELECT id, -c AS n FROM {t}) a JOIN (SELECT id, c * 1 AS n FROM {t}) b ON a.n = b.n",
        "SELECT id FROM {t} ORDER BY -c DESC NULLS LAST, id LIMIT 9",
        "SELECT id, rank() OVER (ORDER BY c NULLS FIRST), rank() OVER (ORDER BY -c NULLS FIRST) FROM {t}",
        "SELECT id, count(*) OVER (PARTITION BY c * -1) FROM {t}",
        "SELECT id % 7, count(*) FROM {t} WHERE id < 30 OR id > 36 GROUP BY id % 7 HAVING max(c * -1) > 0",
        "SELECT id FROM {t} WHERE c BETWEEN -1 AND 0",
        "SELECT id FROM {t} WHERE c NOT BETWEEN 0 AND 2",
        "SELECT id FROM {t} WHERE NOT (c < 2)",
        "SELECT id FROM {t} WHERE CASE c WHEN 0 THEN true ELSE false END",
        "SELECT id FROM {t} WHERE nullif(c * -1, 0) IS NULL",
        "SELECT id FROM {t} WHERE greatest(c, 2.0) = 2.0",
        "SELECT id FROM {t} WHERE c > ALL (SELECT o.c FROM {t} o WHERE o.id > 36)",
        "SELECT id FROM {t} WHERE trunc(c / 4) = 0 AND trunc(c / -4) = 0",
        "SELECT count(*) FROM (SELECT c FROM {t} UNION SELECT -c FROM {t}) u",
        "SELECT count(*) FROM (SELECT c FROM {t} INTERSECT SELECT -c FROM {t}) u",
    ]
    .map(|sql| sql.replace("{t}", table))
    .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_of_floats() {
    let mut lake = Lake::new().await;
    let narrow = floats().into_iter().map(|value| value.map(|value| value as f32));
    let objects: [ArrayRef; 2] = [Arc::new(Float64Array::from(floats())), Arc::new(narrow.collect::<Float32Array>())];
    lake.table("wide", &objects[..1], "", "DOUBLE").await;
    lake.table("narrow", &objects[1..], "", "FLOAT").await;
    lake.table("mixed", &objects, "", "DOUBLE").await;

    // The same rows as text.
    let directory = lake.directory.path().join("text");
    std::fs::create_dir_all(&directory).unwrap();
    let lines = floats().into_iter().enumerate().map(|(id, value)| match value {
        Some(value) => format!("{id},{value:?}\n"),
        None => format!("{id},\n"),
    });
    std::fs::write(directory.join("0.csv"), format!("id,c\n{}", lines.collect::<String>())).unwrap();
    lake.run(&format!(
        "CREATE EXTERNAL TABLE text (id BIGINT, c DOUBLE) STORED AS CSV LOCATION '{}'",
        directory.display()
    ))
    .await;
    lake.duckdb.query("CREATE VIEW text AS SELECT * FROM wide");
    for indexed in [false, true] {
        for table in ["wide", "narrow", "mixed", "text"] {
            if indexed {
                lake.run(&format!("CREATE INDEX {table}_c ON {table} (c)")).await;
            }
            lake.check_column(table, FLOATS).await;
            lake.check(&float_queries(table)).await;
        }
    }
}

fn int32(values: impl IntoIterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(Int32Array::from_iter(values))
}

fn ids(ids: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(ids))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_lack_a_column_or_have_more() {
    let mut lake = Lake::new().await;
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..12).map(|at| format!("w{at}"))));
    write_columns(&lake.path("u", 0), &[("id", ids(0..12)), ("c", int32((0..12).map(Some)))], properties());
    write_columns(&lake.path("u", 1), &[("s", Arc::clone(&words)), ("id", ids(12..24))], properties());
    let with_nulls = int32((0..12).map(|at| (at % 2 == 0).then_some(at)));
    write_columns(&lake.path("u", 2), &[("c", with_nulls), ("id", ids(24..36)), ("s", words)], properties());
    lake.run(&format!(
        "CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION '{}'",
        lake.directory.path().join("u").display()
    ))
    .await;
    let view = |lake: &mut Lake| {
        let location = lake.directory.path().join("u").display().to_string();
        lake.duckdb.query(&format!(
            "CREATE OR REPLACE VIEW u AS SELECT id, c, s FROM read_parquet('{location}/*.parquet', union_by_name = true)"
        ));
    };
    let queries: Vec<String> = [
        "SELECT id, c, s FROM u",
        "SELECT c FROM u",
        "SELECT s, count(*) FROM u GROUP BY s",
        "SELECT id FROM u WHERE s IS NULL",
        "SELECT id FROM u WHERE c IS NULL",
        "SELECT id FROM u WHERE c IS NULL AND s > 'w3'",
        "SELECT id FROM u WHERE c IS NOT NULL OR s = 'w1'",
        "SELECT count(*), count(c), count(s), min(c), max(s) FROM u",
        "SELECT id FROM u WHERE coalesce(c, -1) < 3",
        "SELECT count(*) FROM u",
        "SELECT c FROM u ORDER BY c NULLS FIRST LIMIT 30",
        "SELECT a.id, b.id FROM u a JOIN u b ON a.c = b.c AND a.s = b.s",
        "SELECT a.id FROM u a LEFT JOIN u b ON a.s = b.s AND b.c = 4 WHERE b.id IS NULL",
    ]
    .map(String::from)
    .to_vec();
    view(&mut lake);
    lake.check(&queries).await;

    // Later objects: with NULLs, without the columns, with additional columns.
    write_columns(&lake.path("u", 3), &[("id", ids(36..38)), ("c", int32([None, Some(7)]))], properties());
    write_columns(&lake.path("u", 4), &[("id", ids(38..40)), ("new", int32([Some(1), None]))], properties());
    view(&mut lake);
    lake.check(&queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_does_not_widen_is_an_error_of_its_column() {
    let mut lake = Lake::new().await;
    write_columns(&lake.path("x", 0), &[("id", ids(0..3)), ("c", int32([Some(1), None, Some(3)]))], properties());
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    write_columns(&lake.path("x", 1), &[("id", ids(3..5)), ("c", text)], properties());
    lake.define_by_name("x", "id").await;
    lake.check(&["SELECT id FROM x".into(), "SELECT count(*), max(id) FROM x".into()]).await;
    for sql in ["SELECT c FROM x", "SELECT count(*) FROM x WHERE c IS NULL", "SELECT id FROM x ORDER BY c LIMIT 1"] {
        for error in lake.errors(sql).await {
            let names = ["001.parquet", "'c'", "text", "integer"].iter().all(|part| error.contains(part));
            assert!(names, "{sql}: {error}");
        }
    }
    // A later object of a wider type.
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
    write_columns(&lake.path("y", 0), &[("id", ids(0..1)), ("c", int32([Some(1)]))], properties());
    lake.define_by_name("y", "id").await;
    write_columns(&lake.path("y", 1), &[("id", ids(1..2)), ("c", wide)], properties());
    lake.duckdb_by_name("y", "id");
    lake.check(&["SELECT id FROM y".into()]).await;
    for error in lake.errors("SELECT c FROM y").await {
        assert!(["001.parquet", "'c'", "bigint", "integer"].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_null_is_kept_or_an_error() {
    let lake = Lake::new().await;
    let values = int32([Some(1), None, Some(3)]);
    write_columns(&lake.path("n", 0), &[("id", ids(0..3)), ("c", Arc::clone(&values))], properties());
    write_columns(&lake.path("m", 0), &[("id", ids(0..3))], properties());
    write_columns(&lake.path("k", 0), &[("id", ids(0..3)), ("c", values)], properties());
    edit_statistics(&lake.path("k", 0), |_| None);
    for name in ["n", "m", "k"] {
        let location = lake.directory.path().join(name).display().to_string();
        lake.run(&format!(
            "CREATE EXTERNAL TABLE {name} (id BIGINT NOT NULL, c INT NOT NULL) STORED AS PARQUET LOCATION '{location}'"
        ))
        .await;
        for _ in ["cold", "warm"] {
            for error in lake.errors(&format!("SELECT sum(c) FROM {name}")).await {
                let names = ["000.parquet", "'c'", "NOT NULL"].iter().all(|part| error.contains(part));
                assert!(names, "{name}: {error}");
            }
        }
        for session in &lake.sessions {
            assert_eq!(session.run(&format!("SELECT id FROM {name}")).await.unwrap().rows(), 3);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_defined_anew_is_decoded_anew() {
    let mut lake = Lake::new().await;
    let path = lake.directory.path().join("d.csv");
    std::fs::write(&path, "1,2,NA\n01,NA,4\n3,-,\n").unwrap();
    let definitions = [
        ("(a INT, b VARCHAR, c VARCHAR)", "NA", "{'a': 'INT', 'b': 'VARCHAR', 'c': 'VARCHAR'}"),
        ("(a INT, b VARCHAR, c VARCHAR)", "-", "{'a': 'INT', 'b': 'VARCHAR', 'c': 'VARCHAR'}"),
        ("(a VARCHAR, b VARCHAR, c VARCHAR)", "-", "{'a': 'VARCHAR', 'b': 'VARCHAR', 'c': 'VARCHAR'}"),
        ("(c VARCHAR, b VARCHAR, a VARCHAR)", "-", "{'c': 'VARCHAR', 'b': 'VARCHAR', 'a': 'VARCHAR'}"),
        ("(b VARCHAR, c VARCHAR, a VARCHAR)", "NA", "{'b': 'VARCHAR', 'c': 'VARCHAR', 'a': 'VARCHAR'}"),
    ];
    for (columns, null, of_duckdb) in definitions {
        lake.run(&format!(
            "CREATE EXTERNAL TABLE d {columns} STORED AS CSV LOCATION '{}' OPTIONS (has_header 'false', null_value '{null}')",
            path.display()
        ))
        .await;
        lake.duckdb.query(&format!(
            "CREATE OR REPLACE VIEW d AS SELECT * FROM read_csv('{}', header = false, nullstr = '{null}', columns = {of_duckdb})",
            path.display()
        ));
        // Twice: the second time the cache contains the columns that the first run's modes left there.
        let queries = ["SELECT a, b, c FROM d", "SELECT a FROM d WHERE b IS NULL", "SELECT c FROM d WHERE a = '1'"];
        lake.keep_cache = true;
        lake.check(&queries.map(String::from)).await;
        for session in &lake.sessions {
            assert!(session.engine().cache().bytes().0 > 0, "nothing was cached");
            session.run("DROP TABLE d").await.unwrap();
            assert_eq!(session.engine().cache().bytes(), (0, 0), "{columns}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_columns_by_the_names_of_headers() {
    let mut lake = Lake::new().await;
    let directory = lake.directory.path().join("h");
    std::fs::create_dir_all(&directory).unwrap();
    let objects =
        ["id,c,s\n1,10,a\n2,,b\n", "s,id\nc,3\nd,4\n", "extra,c,id,s\nx,30,5,e\ny,40,6,\n", "c,s,id\n50,f,7\n"];
    for (position, text) in objects.iter().enumerate() {
        std::fs::write(directory.join(format!("{position}.csv")), text).unwrap();
    }
    let location = directory.display().to_string();
    let types = "{'id': 'BIGINT', 'c': 'INT', 's': 'VARCHAR'}";
    lake.duckdb.query(&format!(
        "CREATE VIEW h AS SELECT id, c, s
         FROM read_csv('{location}/*.csv', header = true, delim = ',', union_by_name = true, types = {types})"
    ));
    let queries = [
        "SELECT id, c, s FROM h",
        "SELECT c FROM h",
        "SELECT id FROM h WHERE c IS NULL",
        "SELECT id FROM h WHERE c >= 30 AND s > 'e'",
        "SELECT count(*), sum(c), min(s) FROM h",
        "SELECT id FROM h WHERE c = 40",
    ]
    .map(String::from);
    for columns in ["", "(id BIGINT, c INT, s VARCHAR)", "(s VARCHAR, id BIGINT NOT NULL, c INT)"] {
        lake.run(&format!("CREATE EXTERNAL TABLE h {columns} STORED AS CSV LOCATION '{location}'")).await;
        lake.check(&queries).await;
        lake.run("CREATE INDEX h_c ON h (c)").await;
        lake.check(&queries).await;
        lake.run("DROP TABLE h").await;
    }

    // Names missing from the header: the fields are then the columns, in order.
    lake.run(&format!(
        "CREATE EXTERNAL TABLE own (x BIGINT, y INT, z VARCHAR) STORED AS CSV LOCATION '{location}/0.csv'"
    ))
    .await;
    lake.duckdb.query("CREATE VIEW own AS SELECT id AS x, c AS y, s AS z FROM h WHERE id < 3");
    lake.check(&["SELECT x, y, z FROM own".into(), "SELECT z FROM own WHERE y = 10".into()]).await;

    // A column that must not be missing.
    lake.run(&format!(
        "CREATE EXTERNAL TABLE strict (id BIGINT, c INT NOT NULL) STORED AS CSV LOCATION '{location}/1.csv'"
    ))
    .await;
    for error in lake.errors("SELECT sum(c) FROM strict").await {
        assert!(["1.csv", "'c'", "NOT NULL"].iter().all(|part| error.contains(part)), "{error}");
    }
    lake.duckdb.query("CREATE VIEW strict AS SELECT id FROM h WHERE id IN (3, 4)");
    lake.check(&["SELECT id FROM strict".into()]).await;
}

const STRUCTS: &[&str] = &[
    "SELECT count(*), count(c), count(c['a']), count(c['b']), sum(c['a']), max(c['b']) FROM t",
    "SELECT id, c['a'], c['b'] FROM t",
    "SELECT id FROM t WHERE c IS NULL",
    "SELECT id FROM t WHERE c IS NOT NULL AND c['b'] IS NULL",
    "SELECT id FROM t WHERE c['a'] > 2",
    "SELECT id, c['z'] FROM t WHERE c['z'] IS NOT NULL",
    "SELECT c['z'], count(*) FROM t GROUP BY c['z']",
    "SELECT count(*), min(id) FROM t GROUP BY c",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.c['a'] = b.c['a'] WHERE b.c['b'] = 'v3'",
];

const LISTS: &[&str] = &[
    "SELECT count(*), count(c) FROM t",
    "SELECT id, c[1], c[2] FROM t",
    "SELECT id FROM t WHERE c IS NULL",
    "SELECT id FROM t WHERE c[1] = 3",
    "SELECT sum(x), count(*), count(x) FROM (SELECT unnest(c) AS x FROM t) u",
    "SELECT count(*), min(id) FROM t GROUP BY c",
];

/// A struct of `fields`, NULL in every fifth row.
fn structs(fields: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let of = |(name, values): (&str, ArrayRef)| (Arc::new(Field::new(name, values.data_type().clone(), true)), values);
    let (fields, values): (Vec<_>, Vec<_>) = fields.into_iter().map(of).unzip();
    let valid = (0..values[0].len()).map(|row| row % 5 != 4).collect::<Vec<_>>();
    Arc::new(StructArray::new(fields.into(), values, Some(valid.into())))
}

/// Lists of `items`: two, one NULL list, none, one.
fn lists<Offset: OffsetSizeTrait>(name: &str, nullable: bool, items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new(name, items.data_type().clone(), nullable));
    let lengths = [2, 0, 0, 1].into_iter().cycle().take(items.len() / 3 * 4);
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths.clone());
    let valid = (0..lengths.count()).map(|row| row % 4 != 1).collect::<Vec<_>>();
    Arc::new(GenericListArray::<Offset>::new(field, offsets, items, Some(valid.into())))
}

#[tokio::test(flavor = "multi_thread")]
async fn structs_whose_fields_differ() {
    let numbers = |first: i32| int32((first..first + 15).map(|at| (at % 4 != 3).then_some(at)));
    let text = |first: i32| -> ArrayRef {
        Arc::new(StringArray::from_iter((first..first + 15).map(|at| (at % 3 != 2).then(|| format!("v{}", at % 7)))))
    };
    let wide = |first: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(first..first + 15)) };
    let mut lake = Lake::with_node().await;
    let objects = [
        structs(vec![("a", numbers(0)), ("b", text(0))]),
        structs(vec![("b", text(15)), ("a", numbers(15))]),
        structs(vec![("z", text(40)), ("a", wide(1 << 40)), ("b", text(30))]),
        structs(vec![("b", text(45))]),
        structs(vec![("nowhere_else", wide(0)), ("a", numbers(60))]),
    ];
    for (position, values) in objects.iter().enumerate() {
        write_columns(
            &lake.path("t", position),
            &[("id", ids(position as i64 * 15..position as i64 * 15 + 15)), ("c", Arc::clone(values))],
            properties(),
        );
    }
    lake.run_definition("t", "").await;
    let directory = lake.directory.path().join("t").display().to_string();
    let object = |position: usize, fields: &str| {
        format!(
            "SELECT id, CASE WHEN c IS NULL THEN NULL ELSE {{{fields}}} END AS c \
             FROM read_parquet('{directory}/{position:03}.parquet')"
        )
    };
    let all = [
        object(0, "'a': c.a::BIGINT, 'b': c.b, 'z': NULL::VARCHAR"),
        object(1, "'a': c.a::BIGINT, 'b': c.b, 'z': NULL::VARCHAR"),
        object(2, "'a': c.a, 'b': c.b, 'z': c.z"),
        object(3, "'a': NULL::BIGINT, 'b': c.b, 'z': NULL::VARCHAR"),
    ];
    let last = object(4, "'a': c.a::BIGINT, 'b': NULL::VARCHAR, 'z': NULL::VARCHAR");
    lake.duckdb.query(&format!("CREATE VIEW t AS {} UNION ALL {last}", all.join(" UNION ALL ")));
    let queries: Vec<String> = STRUCTS.iter().map(|sql| (*sql).into()).collect();
    let by_group = queries.iter().position(|sql| sql.ends_with("GROUP BY c")).unwrap();
    // Groups of whole structs differ by a field that only the last object has.
    let mut without_groups = queries.clone();
    without_groups.remove(by_group);
    lake.check(&without_groups).await;

    // A later object may have further fields, also in structs within lists.
    std::fs::remove_file(lake.path("t", 4)).unwrap();
    std::fs::remove_file(lake.path("t", 2)).unwrap();
    lake.run("DROP TABLE t").await;
    lake.run_definition("t", "").await;
    write_columns(&lake.path("t", 2), &[("id", ids(30..45)), ("c", Arc::clone(&objects[2]))], properties());
    for session in &lake.sessions {
        let error = session.run("SELECT c FROM t").await.unwrap_err().to_string();
        assert!(["002.parquet", "'c'", "bigint", "integer"].iter().all(|part| error.contains(part)), "{error}");
    }
    let narrow = structs(vec![("z", text(40)), ("a", numbers(30)), ("b", text(30))]);
    write_columns(&lake.path("t", 2), &[("id", ids(30..45)), ("c", narrow)], properties());
    let all = [0, 1, 2].map(|position| object(position, "'a': c.a, 'b': c.b"));
    let last = object(3, "'a': NULL::INT, 'b': c.b");
    lake.duckdb.query(&format!("CREATE OR REPLACE VIEW t AS {} UNION ALL {last}", all.join(" UNION ALL ")));
    let queries: Vec<String> = queries.into_iter().filter(|sql| !sql.contains("'z'")).collect();
    lake.check(&queries).await;

    // No column in common.
    let mut lake = Lake::new().await;
    write_columns(&lake.path("t", 0), &[("id", ids(0..15)), ("c", structs(vec![("a", numbers(0))]))], properties());
    write_columns(&lake.path("t", 1), &[("id", ids(0..15)), ("c", structs(vec![("b", text(0))]))], properties());
    lake.define_by_name("t", "id").await;
    lake.check(&["SELECT id FROM t".into()]).await;
    for error in lake.errors("SELECT c FROM t").await {
        assert!(["001.parquet", "'c'", "Struct"].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_maps_whose_parts_have_other_names() {
    let mut lake = Lake::with_node().await;
    let numbers = |first: i32| int32((first..first + 15).map(Some));
    let wide = |first: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(first..first + 15)) };
    let write = |lake: &Lake, objects: &[ArrayRef]| {
        let mut first = 0;
        for (position, values) in objects.iter().enumerate() {
            let next = first + values.len() as i64;
            write_columns(
                &lake.path("t", position),
                &[("id", ids(first..next)), ("c", Arc::clone(values))],
                properties(),
            );
            first = next;
        }
    };
    let small = [
        lists::<i32>("element", false, numbers(0)),
        lists::<i32>("item", true, int32((0..15).map(|at| (at % 3 != 1).then_some(at)))),
        lists::<i32>("array", false, wide(5)),
    ];
    let large = [
        lists::<i32>("element", true, numbers(3)),
        lists::<i64>("item", false, wide(7)),
        lists::<i64>("element", true, wide(1)),
    ];
    let item = |first: i32| structs(vec![("a", numbers(first)), ("b", wide(1))]);
    let of_structs = [
        lists::<i32>("element", true, item(0)),
        lists::<i32>("item", true, structs(vec![("z", wide(0)), ("b", wide(100)), ("a", numbers(50))])),
    ];
    let map = |names: [&str; 3], first: i32| -> ArrayRef {
        let names = MapFieldNames { entry: names[0].into(), key: names[1].into(), value: names[2].into() };
        let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), Int32Builder::new());
        for row in first..first + 12 {
            for at in 0..row % 3 {
                builder.keys().append_value(format!("k{at}"));
                builder.values().append_option((row % 4 != 3).then_some(row + at));
            }
            builder.append(row % 5 != 4).unwrap();
        }
        Arc::new(builder.finish())
    };
    let maps = [map(["entries", "keys", "values"], 0), map(["key_value", "key", "value"], 12)];
    let of_maps = [
        "SELECT count(*), count(c) FROM t",
        "SELECT id, map_keys(c)[1], map_values(c)[1], map_values(c)[2] FROM t",
        "SELECT id FROM t WHERE c IS NULL",
        "SELECT id FROM t WHERE map_values(c)[2] > 5",
    ];
    let of_list_of_structs = [
        "SELECT id, c[1]['a'], c[2]['b'] FROM t",
        "SELECT id, c[1]['z'] FROM t WHERE c[1]['z'] > 3",
        "SELECT id FROM t WHERE c IS NULL OR c[1] IS NULL",
    ];
    for (objects, queries) in
        [(&small[..], LISTS), (&large, LISTS), (&of_structs, &of_list_of_structs), (&maps, &of_maps)]
    {
        let _ = std::fs::remove_dir_all(lake.directory.path().join("t"));
        write(&lake, objects);
        lake.run("DROP TABLE IF EXISTS t").await;
        lake.run_definition("t", "").await;
        lake.duckdb_by_name("t", "id, c");
        lake.check(&queries.iter().map(|sql| (*sql).into()).collect::<Vec<String>>()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_of_several_units() {
    let mut lake = Lake::with_node().await;
    let objects: [ArrayRef; 3] = [
        Arc::new(DurationMillisecondArray::from(spaced(1))),
        Arc::new(DurationMicrosecondArray::from(spaced(500))),
        Arc::new(DurationSecondArray::from(spaced(2))),
    ];
    for (position, values) in objects.iter().enumerate() {
        write(&lake.path("t", position), position as i64 * 18, values);
    }
    lake.run_definition("t", "").await;
    // DuckDB has no durations: it reads the numbers.
    let object = |position: usize, factor: i64| {
        format!("SELECT id, c::BIGINT * {factor} AS c FROM read_parquet('{}')", lake.path("t", position).display())
    };
    let all = [object(0, 1_000), object(1, 1), object(2, 1_000_000)].join(" UNION ALL ");
    lake.duckdb.query(&format!("CREATE VIEW t AS {all}"));
    let queries = [
        "SELECT count(*), count(c), count(DISTINCT c) FROM t",
        "SELECT id FROM t WHERE c IS NULL",
        "SELECT count(*), min(id) FROM t GROUP BY c",
        "SELECT id FROM t ORDER BY c NULLS LAST, id LIMIT 20",
        "SELECT id FROM t ORDER BY c DESC NULLS LAST, id LIMIT 20",
        "SELECT a.id, b.id FROM t a JOIN t b ON a.c = b.c",
    ];
    lake.check(&queries.map(String::from)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_columns_are_those_of_all_objects() {
    let mut lake = Lake::with_node().await;
    let objects = [
        ("0.csv", "id,c,d,e,f,n\n"),
        ("1.csv", "id,c,d,e,f,n\n1,1,2024-01-02,true,7,\n2,,,,,\n"),
        ("2.csv", "f,id,c,d,e,g\nx7,3,2.5,2024-01-03 04:05:06,2,new\n"),
        ("3.csv", "id,g\n4,4\n"),
    ];
    lake.write_text("t", &objects);
    lake.create("t", "", "CSV").await;
    for session in &lake.sessions {
        let described = canonical(&session.run("DESCRIBE t").await.unwrap());
        let found: Vec<String> =
            described.iter().map(|row| [0, 1].map(|at| row[at].clone().unwrap()).join(" ")).collect();
        let (time, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|column| column.starts_with("d "));
        assert!(time[0].starts_with("d TIMESTAMP"), "{time:?}");
        assert_eq!(others, ["id BIGINT", "c DOUBLE PRECISION", "e TEXT", "f TEXT", "n TEXT", "g TEXT"]);
    }
    let directory = lake.directory.path().join("t").display().to_string();
    let types = "{'id': 'BIGINT', 'c': 'DOUBLE', 'd': 'TIMESTAMP', 'e': 'VARCHAR', 'f': 'VARCHAR', 'n': 'VARCHAR', 'g': 'VARCHAR'}";
    // DuckDB's sniffer learns nothing from a header alone.
    lake.duckdb.query(&format!(
        "CREATE VIEW t AS SELECT id, c, d, e, f, n, g FROM read_csv(['{directory}/1.csv', '{directory}/2.csv', '{directory}/3.csv'], \
         header = true, delim = ',', union_by_name = true, types = {types})"
    ));
    let queries = [
        "SELECT id, c, d, e, f, n, g FROM t",
        "SELECT sum(c), max(e), min(f), count(n), max(g) FROM t",
        "SELECT id FROM t WHERE g = '4' OR e = 'true'",
        "SELECT id FROM t WHERE d >= TIMESTAMP '2024-01-02 00:00:00' AND g IS NULL",
        "SELECT count(*) FROM t",
    ];
    lake.check(&queries.map(String::from)).await;

    // Without headers the fields are the columns.
    lake.write_text("u", &[("0.csv", "1,2\n"), ("1.csv", "1,2,3\n")]);
    let location = lake.directory.path().join("u").display().to_string();
    let sql = format!("CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '{location}' OPTIONS (has_header 'false')");
    for session in &lake.sessions {
        let error = session.run(&sql).await.unwrap_err().to_string();
        assert!(["table u", "0.csv has 2", "1.csv has 3"].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_csv_columns_are_the_same_fields_in_all_objects() {
    let mut lake = Lake::with_node().await;
    let view = |lake: &mut Lake, columns: &str| {
        let directory = lake.directory.path().join("t").display().to_string();
        lake.duckdb.query(&format!(
            "CREATE OR REPLACE VIEW t AS SELECT {columns} FROM read_csv('{directory}/*.csv', header = true, delim = ',', \
             union_by_name = true, all_varchar = true)"
        ));
    };
    let queries = [
        "SELECT id, c FROM t",
        "SELECT id FROM t WHERE c IS NULL",
        "SELECT id FROM t WHERE c = '20'",
        "SELECT count(c), min(c), max(c), max(id) FROM t",
    ]
    .map(String::from);
    lake.keep_cache = true;
    let columns = "(id BIGINT, c VARCHAR)";
    lake.write_text("t", &[("1.csv", "id,extra\n2,20\n3,\n")]);
    lake.create("t", columns, "CSV").await;
    lake.run("CREATE INDEX by_c ON t (c)").await;
    view(&mut lake, "id::BIGINT AS id, extra AS c");
    lake.check(&queries).await;
    // If any object's header names a column, no other field is that column; before and after the other objects.
    for name in ["0.csv", "2.csv"] {
        lake.write_text("t", &[(name, "c,id\n10,1\n20,7\n")]);
        view(&mut lake, "id::BIGINT AS id, c");
        lake.check(&queries).await;
        std::fs::remove_file(lake.directory.path().join("t").join(name)).unwrap();
        view(&mut lake, "id::BIGINT AS id, extra AS c");
        lake.check(&queries).await;
    }
    lake.run("DROP TABLE t").await;

    // Names of their own instead of those of the first header.
    lake.write_text("t", &[("1.csv", "n,s\n1,10\n2,\n"), ("2.csv", "s,n\n20,3\n"), ("3.csv", "other,n\n20,4\n")]);
    lake.create("t", columns, "CSV").await;
    view(&mut lake, "n::BIGINT AS id, s AS c");
    lake.check(&queries).await;
    lake.write_text("t", &[("4.csv", "p,q\n1,2\n")]);
    for error in lake.errors("SELECT c FROM t").await {
        assert!(["4.csv", "none of the table's columns"].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_headers_that_name_a_field_twice() {
    let mut lake = Lake::with_node().await;
    lake.write_text("t", &[("0.csv", "a,a,b\n1,2,3\n4,,6\n"), ("1.csv", "a,a,b\n7,8,9\n")]);
    let location = lake.directory.path().join("t").display().to_string();
    for session in &lake.sessions {
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'");
        let error = session.run(&sql).await.unwrap_err().to_string();
        assert!(["table t", "0.csv", "'a'", "declare"].iter().all(|part| error.contains(part)), "{error}");
    }
    for columns in ["(x INT, y INT, z INT)", "(a INT, y INT, b INT)"] {
        lake.create("t", columns, "CSV").await;
        let names: Vec<&str> = columns[1..].split([' ', ',']).filter(|word| word.len() == 1).collect();
        let typed: Vec<String> = names.iter().map(|name| format!("'{name}': 'INT'")).collect();
        lake.duckdb.query(&format!(
            "CREATE OR REPLACE VIEW t AS SELECT * FROM read_csv('{location}/*.csv', header = true, auto_detect = false, \
             delim = ',', columns = {{{}}})",
            typed.join(", ")
        ));
        let [x, y, z] = names[..] else { panic!("{names:?}") };
        let queries =
            [format!("SELECT {x}, {y}, {z} FROM t"), format!("SELECT {z} FROM t WHERE {y} IS NULL OR {x} = 7")];
        lake.check(&queries).await;
        lake.run("DROP TABLE t").await;
    }
    // A later object of an inferred table: it is unclear which of its fields is the column.
    lake.write_text("u", &[("0.csv", "a,b\n1,2\n")]);
    lake.create("u", "", "CSV").await;
    lake.write_text("u", &[("1.csv", "a,a,b\n1,2,3\n")]);
    for error in lake.errors("SELECT a FROM u").await {
        assert!(["1.csv", "'a'", "several"].iter().all(|part| error.contains(part)), "{error}");
    }
    lake.duckdb.query("CREATE VIEW u AS SELECT 2 AS b UNION ALL SELECT 3");
    lake.check(&["SELECT b FROM u".into()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_do_not_wrap_around() {
    let mut lake = Lake::with_node().await;
    let int64 = |values: [Option<i64>; 8]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let (max, min) = (Some(i64::MAX), Some(i64::MIN));
    // Whichever object comes first, partial sums exceed 64 bits.
    lake.table(
        "b",
        &[
            int64([max, max, None, Some(7), max, None, Some(-1), max]),
            int64([min, min, Some(5), min, None, Some(1), min, Some(2)]),
        ],
        "",
        "BIGINT",
    )
    .await;
    let narrow = [Some(i32::MAX), Some(-3), None, Some(i32::MIN), Some(46341), Some(0)];
    lake.table("i", &[int32(narrow), int32([Some(2), None])], "", "INTEGER").await;
    let wide: Vec<_> = [i128::MAX / 2, 10_i128.pow(38) - 1, -5, 4].into_iter().map(Some).collect();
    let wide = Decimal128Array::from(wide).with_precision_and_scale(38, 0).unwrap();
    lake.table("d", &[Arc::new(wide)], "", "DECIMAL(38, 0)").await;
    let dates = Date32Array::from(vec![Some(18_262), None, Some(18_300), Some(-719_162)]);
    lake.table("t", &[Arc::new(dates)], "", "DATE").await;
    let queries = [
        "SELECT sum(c) FROM b",
        "SELECT id % 2, sum(c) FROM b WHERE c < 0 OR c > 7 GROUP BY id % 2 HAVING sum(c) BETWEEN -9 AND 9",
        "SELECT sum(c), sum(c) FILTER (WHERE id IN (2, 4, 9)) FROM b WHERE id NOT IN (0, 1, 11, 14)",
        "SELECT id, sum(c) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
         FROM b WHERE id IN (1, 2, 7, 8)",
        "SELECT sum(DISTINCT c), count(DISTINCT id), sum(DISTINCT id) FROM b",
        "SELECT id, c - 1, 1 - c, c + 1 FROM b WHERE c BETWEEN -10 AND 10",
        "SELECT sum(c), sum(c * 2), max(c - id) FROM i WHERE c < 46342 AND c > -100",
        "SELECT id, c * 46340, c + c, -c FROM i WHERE abs(c::BIGINT) < 46341",
        "SELECT id, c::BIGINT * c, c::BIGINT + 1, -c::BIGINT, 2 * id + 1 AS n FROM i ORDER BY n, id * 3 DESC",
        "SELECT a.id, b.id FROM i a JOIN i b ON a.id + 1 = b.id * 1",
        "SELECT sum(c) FROM d WHERE c < 10",
        "SELECT count(*) FROM b GROUP BY id * 2 - id",
        "SELECT id, c - DATE '2020-01-02' FROM t WHERE c - DATE '2020-01-01' > 1 OR DATE '2019-12-31' - c = -1",
        "SELECT a.id, b.id, sum(a.c - b.c) FROM t a JOIN t b ON a.c - b.c <= 0 GROUP BY a.id, b.id",
    ];
    lake.check(&queries.map(str::to_owned)).await;
    let beyond = [
        ("SELECT sum(c) FROM b WHERE c > 0", "sum out of range for BIGINT"),
        ("SELECT id % 3, sum(c) FROM b WHERE c > 0 GROUP BY id % 3", "sum out of range for BIGINT"),
        ("SELECT sum(DISTINCT c) FROM b WHERE c > 0", "sum out of range for BIGINT"),
        ("SELECT sum(c) OVER (ORDER BY id) FROM b", "sum out of range for BIGINT"),
        ("SELECT sum(c) OVER (ORDER BY id ROWS 1 PRECEDING) FROM b", "sum out of range for BIGINT"),
        ("SELECT sum(c) FROM d", "sum out of range for DECIMAL"),
        ("SELECT id, sum(c) FROM d JOIN (VALUES (0), (1)) v (n) ON n < 2 GROUP BY id", "sum out of range for DECIMAL"),
        ("SELECT max(c + 1) FROM b", "number out of range"),
        ("SELECT id FROM b WHERE c - 1 < 0", "number out of range"),
        ("SELECT -c FROM b", "number out of range"),
        ("SELECT c * c FROM i", "number out of range"),
        ("SELECT sum(c * c) FROM i", "number out of range"),
        ("SELECT c + c FROM i WHERE c > 0", "number out of range"),
        ("SELECT 9223372036854775807 + 1", "number out of range"),
    ];
    for (sql, expected) in beyond {
        for error in lake.errors(sql).await {
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn comparisons_of_casts_that_lose_something() {
    let mut lake = Lake::with_node().await;
    let decimals = |values: &[i128]| -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(9, 2).unwrap())
    };
    lake.table("d", &[decimals(&[5, 150, -150, 100, 149]), decimals(&[99, 101, 14])], "", "DECIMAL(9, 2)").await;
    let wide = [Some(40_000), Some(3), None, Some(-1), Some(1 << 40), Some(2)];
    lake.table("b", &[Arc::new(Int64Array::from(wide.to_vec()))], "", "BIGINT").await;
    let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_577_836_800_500, 1_577_836_800_000, -500]));
    lake.table("t", &[millis], "", "TIMESTAMP").await;
    let queries = [
        "SELECT id, TRY_CAST(c AS SMALLINT) > 2 FROM b",
        "SELECT id FROM b WHERE TRY_CAST(c AS SMALLINT) <> 3",
        "SELECT id FROM b WHERE TRY_CAST(c AS INT) IN (2, 40000) OR TRY_CAST(c AS TINYINT) IS NULL",
        "SELECT id FROM b WHERE NOT (TRY_CAST(c AS SMALLINT) BETWEEN 0 AND 2)",
        "SELECT id FROM b WHERE CAST(c AS DECIMAL(38, 2)) > 2",
        "SELECT id FROM d WHERE CAST(c AS DECIMAL(9, 1)) = 0.1",
        "SELECT id, CAST(c AS DECIMAL(9, 1)) IN (0.1, 1.5) FROM d",
        "SELECT id FROM d WHERE CAST(c AS DECIMAL(18, 4)) > 1.0001",
        "SELECT id FROM t WHERE date_trunc('second', c) = TIMESTAMP '2020-01-01 00:00:00'",
    ];
    lake.check(&queries.map(str::to_owned)).await;
}

/// Joins, set operations and subqueries for which plain DataFusion gives wrong results.
#[tokio::test(flavor = "multi_thread")]
async fn joins_sets_and_subqueries() {
    let mut lake = Lake::new().await;
    let integers = |values: Vec<Option<i64>>| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from(values))] };
    lake.table("x", &integers((0..1000).map(Some).collect()), "", "BIGINT").await;
    lake.table("y", &integers((0..1000).map(|id| Some(100_000 + id)).collect()), "", "BIGINT").await;
    lake.table("w", &integers((0..5000).map(|id| Some(id % 1000)).collect()), "", "BIGINT").await;
    lake.table("h", &integers(vec![Some(100_500), Some(100_501), Some(7), None]), "", "BIGINT").await;
    let halves = [0, 1, 2, 2, 3, 3].map(|value| (value > 0).then_some(value));
    let with_nulls = integers(halves.to_vec()).into_iter().chain(integers(vec![None, Some(2), Some(3), Some(9)]));
    lake.table("n", &with_nulls.collect::<Vec<_>>(), "", "BIGINT").await;
    let few = integers(vec![Some(1), Some(3), None, Some(2)]);
    lake.table("m", &few, "", "BIGINT").await;
    let mut queries: Vec<String> = vec![];
    for third in ["JOIN w ON x.id = w.id", "LEFT JOIN w ON x.id = w.id", "JOIN w ON x.id = w.c", ""] {
        let chain = format!("x JOIN y ON x.id = y.id {third}");
        queries.extend([
            format!("SELECT x.c AS xc, y.c AS yc FROM {chain} JOIN h ON y.c = h.c"),
            format!("SELECT x.c AS xc, y.c AS yc FROM {chain} WHERE y.c IN (SELECT c FROM h)"),
            format!("SELECT x.c AS xc, y.c AS yc FROM {chain} JOIN h ON x.c = h.c"),
            format!("SELECT * FROM (SELECT x.c AS p, y.c AS q FROM {chain}) z JOIN h ON z.q = h.c"),
            format!("SELECT p, q FROM (SELECT x.c AS p, y.c AS q FROM {chain}) z ORDER BY q DESC, p LIMIT 3"),
            format!("SELECT min(x.c) AS p, min(y.c) AS q, max(x.id) AS r FROM {chain}"),
            format!("SELECT p, q FROM (SELECT x.c AS p, y.c AS q, count(*) AS n FROM {chain} GROUP BY x.c, y.c) z JOIN h ON z.q = h.c"),
        ]);
    }
    for (one, other) in [("IS NOT DISTINCT FROM", "="), ("=", "IS NOT DISTINCT FROM")] {
        queries.extend([
            format!("SELECT count(*) AS a FROM m JOIN n ON m.c {one} n.c JOIN m AS z ON z.id {other} m.id"),
            format!("SELECT count(*) AS a FROM m JOIN m AS z ON m.c {one} z.c JOIN n ON m.c {other} n.c"),
            format!("SELECT count(*) AS a FROM m, n, m AS z WHERE (m.c {one} n.c) AND (z.c {other} n.c)"),
            format!("SELECT count(*) AS a FROM m CROSS JOIN n JOIN m AS z ON (m.c {one} z.c) AND (n.c {other} z.c)"),
        ]);
    }
    for set in ["INTERSECT ALL", "EXCEPT ALL", "INTERSECT", "EXCEPT", "UNION ALL", "UNION"] {
        queries.extend([
            format!("SELECT c FROM n {set} SELECT c FROM m"),
            format!("SELECT c, c + 1 AS d FROM n {set} SELECT c, c + 1 FROM m"),
            format!("SELECT DISTINCT c FROM n {set} SELECT c FROM n WHERE id < 4"),
            format!("SELECT c FROM n {set} SELECT c FROM m {set} SELECT c FROM n WHERE id > 2"),
            format!("SELECT count(*) AS a FROM (SELECT id % 2 AS k FROM n {set} SELECT 1 FROM m) z WHERE k > 0"),
            format!("SELECT v FROM (VALUES (1), (1), (2), (NULL), (NULL)) a(v) {set} SELECT w FROM (VALUES (1), (NULL), (3)) b(w)"),
        ]);
    }
    let derived = [
        "(SELECT id * 1.5 AS v FROM m UNION ALL SELECT CAST(3 AS DECIMAL(9, 3)))",
        "(SELECT id AS v FROM m UNION ALL SELECT 1)",
        "(SELECT CAST(id AS INT) AS v FROM m UNION ALL SELECT id FROM n)",
        "(SELECT CAST(id AS INT) AS v FROM m UNION ALL SELECT 2.0)",
        "(SELECT CASE WHEN id > 1 THEN CAST(id AS INT) ELSE id END AS v FROM m)",
        "(SELECT CASE WHEN id > 1 THEN id ELSE 2.0 END AS v FROM m)",
    ];
    for of in derived {
        queries.extend([
            format!("SELECT count(*) AS a FROM {of} q WHERE EXISTS (SELECT 1 FROM n WHERE n.id = q.v)"),
            format!("SELECT count(*) AS a FROM {of} q WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.id = q.v)"),
            format!("SELECT count(*) AS a FROM {of} q CROSS JOIN m z WHERE EXISTS (SELECT 1 FROM n WHERE n.id = q.v)"),
            format!("SELECT v, (SELECT count(*) FROM n WHERE n.id = q.v) AS a FROM {of} q"),
            format!("SELECT v, one FROM {of} q LEFT JOIN LATERAL (SELECT 1 AS one FROM n WHERE n.id = q.v) l ON TRUE"),
        ]);
    }
    queries.extend(
        [
            // Tables of one name and other types at two levels.
            "SELECT * FROM (SELECT 1.5 AS k) a JOIN (SELECT l.v FROM (SELECT 1 AS k) a JOIN LATERAL \
             (SELECT b.v FROM (SELECT 1 AS v) b WHERE b.v = a.k) l ON TRUE) q ON TRUE",
            "SELECT a.k, l.v FROM (SELECT 1 AS k UNION ALL SELECT 1.5) a JOIN LATERAL (SELECT b.v FROM (SELECT 1 AS v) b \
             WHERE b.v = a.k AND EXISTS (SELECT 1 FROM (SELECT 1.25 AS k UNION ALL SELECT 1) a WHERE a.k = b.v)) l ON TRUE",
            "SELECT 1.5 AS x UNION ALL SELECT 1e-20 UNION ALL SELECT 2e-20",
            "SELECT 1 AS x UNION SELECT 2.5 UNION SELECT 1e-20 UNION ALL SELECT c FROM m",
            "SELECT x / 2 AS y FROM (SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 1e-20) z",
            "SELECT DISTINCT ON (c) c, id FROM n ORDER BY c, id, c",
            "SELECT id, c FROM n ORDER BY c, id, c DESC LIMIT 4",
            "SELECT array_agg(c ORDER BY id, id) FILTER (WHERE c IS NOT NULL) AS a FROM m",
            "SELECT id, row_number() OVER (ORDER BY c, id, c) AS a FROM n",
            "SELECT k / 2 AS h FROM (SELECT c + 0.5 AS k FROM m) p RIGHT JOIN (SELECT id AS k FROM n) q USING (k)",
            "SELECT count(*) AS a FROM m WHERE (SELECT count(*) FROM n WHERE n.c = m.c) = 0",
            "SELECT id FROM m WHERE EXISTS (SELECT 1 FROM n JOIN h ON n.id < h.c WHERE n.c = m.c)",
            "SELECT id FROM m WHERE id NOT IN (SELECT max(id) FROM n)",
        ]
        .map(str::to_owned),
    );
    lake.check(&queries).await;
    for (sql, error) in [
        ("SELECT * FROM m WHERE EXISTS (SELECT count(*) FROM n WHERE n.c = m.c)", "aggregate without GROUP BY"),
        ("SELECT * FROM m WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.c = m.c HAVING count(*) = 0)", "without GROUP BY"),
        ("SELECT * FROM m WHERE 0 IN (SELECT count(*) FROM n WHERE n.c = m.c)", "aggregate without GROUP BY"),
        ("SELECT * FROM m WHERE id NOT IN (SELECT max(id) FROM n WHERE n.c = m.c)", "aggregate without GROUP BY"),
        (
            "SELECT * FROM m JOIN LATERAL (SELECT count(*) AS k FROM n WHERE n.c = m.c HAVING count(*) > 1) l ON TRUE",
            "HAVING",
        ),
        ("SELECT * FROM m WHERE EXISTS (SELECT 1 FROM n WHERE n.c = m.c OFFSET 1)", "OFFSET"),
        (
            "SELECT * FROM m WHERE 1 IN (SELECT row_number() OVER (ORDER BY id) FROM n WHERE n.c = m.c)",
            "window function",
        ),
        (
            "SELECT * FROM m LEFT JOIN LATERAL (SELECT sum(id) OVER () AS k FROM n WHERE n.c = m.c) l ON TRUE",
            "window function",
        ),
        (
            "SELECT * FROM m WHERE EXISTS (SELECT 1 FROM n LEFT JOIN h ON n.id = h.id AND h.c = m.c WHERE n.c = m.c)",
            "outer join",
        ),
        (
            "SELECT * FROM m WHERE EXISTS (SELECT 1 FROM n LEFT JOIN (SELECT * FROM h WHERE h.c = m.c) g ON n.id = g.id)",
            "outer join",
        ),
        ("SELECT m.* FROM m FULL JOIN n USING (c)", "m.*"),
        ("SELECT n.* FROM m RIGHT JOIN n USING (c)", "n.*"),
    ] {
        let found = lake.sessions[0].run(sql).await.expect_err(sql).to_string();
        assert!(found.contains(error), "{sql}: {found}");
    }
}

/// Structs have an order, with NULL as their greatest field, wherever NULLs themselves go.
#[tokio::test(flavor = "multi_thread")]
async fn nested_values_in_order() {
    let mut lake = Lake::new().await;
    let object = |a: Vec<Option<i32>>, b: Vec<Option<&str>>, valid: Vec<bool>| -> ArrayRef {
        let fields: Vec<(Arc<Field>, ArrayRef)> = vec![
            (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(a))),
            (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(b))),
        ];
        let (fields, arrays): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        Arc::new(StructArray::new(fields.into(), arrays, Some(valid.into())))
    };
    let objects = [
        object(vec![Some(2), None, Some(1), None], vec![Some("a"), Some("b"), None, None], vec![true; 4]),
        object(vec![Some(1), Some(5), None], vec![Some("x"), Some("yy"), None], vec![true, true, false]),
    ];
    lake.table("s", &objects, "", "STRUCT(a INT, b VARCHAR)").await;
    let mut queries = vec![];
    for order in ["NULLS FIRST", "NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"] {
        queries.push(format!("SELECT id FROM s ORDER BY c {order}, id LIMIT 4"));
        queries.push(format!("SELECT id FROM (SELECT id, c FROM s ORDER BY c {order}, id LIMIT 2) z"));
    }
    lake.check(&queries).await;
    for sql in ["SELECT min(c) FROM s", "SELECT id % 2, max([c]) FROM s GROUP BY 1", "SELECT max(c) OVER () FROM s"] {
        let error = lake.sessions[0].run(sql).await.expect_err(sql).to_string();
        assert!(error.contains("there is no m"), "{sql}: {error}");
    }
}

/// Outer joins by equal names, and keys of groups that have one name.
#[tokio::test(flavor = "multi_thread")]
async fn equal_names() {
    let mut lake = Lake::new().await;
    let integers = |values: &[i64]| -> [ArrayRef; 1] { [Arc::new(Int64Array::from(values.to_vec()))] };
    lake.table("a", &integers(&[10, 20, 30, 30]), "", "BIGINT").await;
    lake.table("b", &integers(&[30, 20, 50, 60, 70]), "", "BIGINT").await;
    let floats: [ArrayRef; 1] = [Arc::new(Float64Array::from(vec![Some(20.0), Some(70.0), Some(0.5), None]))];
    lake.table("f", &floats, "", "DOUBLE").await;
    let mut queries = vec![];
    for join in ["RIGHT", "FULL", "LEFT", "INNER", "RIGHT OUTER", "FULL OUTER"] {
        for from in [
            "a {} JOIN b USING (c)",
            "a {} JOIN f USING (c)",
            "f {} JOIN a USING (c)",
            "a {} JOIN b USING (c, id)",
            "a NATURAL {} JOIN b",
            "a {} JOIN b USING (c) {} JOIN f USING (c)",
            "a JOIN b ON a.id = b.id {} JOIN (SELECT c AS other FROM b) g ON true",
            "a x JOIN (SELECT id, c AS d FROM b) y USING (id) {} JOIN (SELECT c FROM f) z USING (c)",
            "(a {} JOIN b USING (c)) LEFT JOIN f USING (c)",
            "f LEFT JOIN (a {} JOIN b USING (c)) USING (c)",
        ] {
            let from = from.replace("{}", join);
            let is_merging = join.contains("RIGHT") || join.contains("FULL");
            // DataFusion finds the names of its own joins ambiguous in a filter, unless the statement qualifies them.
            let is_unclear = (from.contains("NATURAL") || from.starts_with("a x")) && !is_merging;
            if !from.contains("other") {
                queries.push(format!("SELECT c, count(*) AS n FROM {from} GROUP BY c"));
            }
            if !is_unclear && !from.contains("other") {
                queries.push(format!("SELECT c + 1 AS d FROM {from} WHERE c > 15 OR c IS NULL"));
                queries.push(format!("SELECT c AS d FROM {from} ORDER BY c NULLS LAST LIMIT 2"));
                queries.push(format!("SELECT c % 20 AS c, max(c) AS e FROM {from} GROUP BY 1 HAVING count(c) > 0"));
                queries.push(format!("SELECT c FROM {from} WHERE c IN (SELECT c FROM b WHERE c < 60)"));
            }
            queries.push(format!("SELECT count(*) AS n FROM {from}"));
        }
        // The merged column comes first; in DuckDB only if the left side has it there.
        queries.push(format!(
            "SELECT * FROM (SELECT c, id AS x FROM a) a {join} JOIN (SELECT c, id AS y FROM b) b USING (c)"
        ));
        queries.push(format!("SELECT b.id AS i, c FROM a {join} JOIN b USING (c)"));
        queries.push(format!(
            "WITH a AS (SELECT c FROM a {join} JOIN b USING (c)) SELECT c FROM a {join} JOIN f USING (c)"
        ));
    }
    queries.extend(
        [
            "SELECT c AS x, CAST(c AS DOUBLE) AS y, count(*) AS n FROM a GROUP BY c, CAST(c AS DOUBLE)",
            "SELECT c AS x, CAST(c AS DOUBLE) AS y FROM a GROUP BY c, CAST(c AS DOUBLE), c + 1, 'x'",
            "SELECT c AS x, CAST(c AS FLOAT) AS y, sum(c) AS n FROM f GROUP BY c, CAST(c AS FLOAT)",
            "SELECT c AS x, CAST(c AS FLOAT) AS y, max(c / 4) AS n FROM f GROUP BY c, CAST(c AS FLOAT) HAVING avg(c) > 1",
            "SELECT c AS x, c + 1 AS y, count(*) AS n FROM a GROUP BY c, c + 1, 'x'",
        ]
        .map(str::to_owned),
    );
    lake.check(&queries).await;
    // A column merged from two tables belongs to neither of them.
    for sql in ["SELECT a.c FROM a FULL JOIN b USING (c)", "SELECT a.c FROM a RIGHT JOIN b USING (c)"] {
        let error = lake.sessions[0].run(sql).await.unwrap_err().to_string();
        assert!(error.contains("a.c"), "{error}");
    }
    let joins = |count: usize| format!("SELECT count(*) FROM a{}", " FULL JOIN b USING (c)".repeat(count));
    let error = lake.sessions[0].run(&joins(3000)).await.unwrap_err().to_string();
    assert!(error.contains("3000 RIGHT and FULL JOINs"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_of_in_subqueries() {
    let mut lake = Lake::with_node().await;
    lake.table("a", &[int32([Some(1), Some(2), None]), int32([Some(7), Some(1)])], "", "INTEGER").await;
    lake.table("b", &[int32([Some(1), None, Some(3)])], "", "INTEGER").await;
    lake.table("k", &[int32([Some(1), Some(3)])], "", "INTEGER").await;
    let mut queries = vec![
        "SELECT id FROM a WHERE (c IN (SELECT NULL::INT)) IS NULL".to_owned(),
        "SELECT id FROM a WHERE c NOT IN (SELECT c FROM b WHERE c > 100) OR id < 0".to_owned(),
        "SELECT count(*) FROM a GROUP BY c HAVING (max(c) IN (SELECT c FROM b)) IS NOT TRUE".to_owned(),
        "SELECT id FROM a WHERE c + 1 NOT IN (SELECT c - 1 FROM k) OR c IN (SELECT id FROM b) ".to_owned(),
    ];
    for set in ["SELECT c FROM b", "SELECT c FROM k", "SELECT b.c FROM b WHERE b.id = a.id", "SELECT c FROM a"] {
        for outcome in [
            "c NOT IN (S)",
            "NOT (c IN (S))",
            "c NOT IN (S) OR id < 0",
            "c IN (S) OR id = 1",
            "CASE WHEN c NOT IN (S) THEN true END",
            "(c NOT IN (S)) IS NULL",
            "(c IN (S)) IS NOT FALSE AND id < 4",
            "(c IN (S)) = (id < 2)",
            "id > 0 AND NOT (c IN (S) AND id < 100)",
            "c = ANY (S)",
            "NOT (c = ANY (S)) OR id < 0",
            "c <> ALL (S)",
        ] {
            queries.push(format!("SELECT id FROM a WHERE {}", outcome.replace("(S)", &format!("({set})"))));
        }
    }
    lake.check(&queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_beside_instants() {
    let mut lake = Lake::with_node().await;
    let millis = |values: Vec<Option<i64>>, zone: Option<&str>| -> ArrayRef {
        let values = TimestampMillisecondArray::from(values);
        Arc::new(match zone {
            Some(zone) => values.with_timezone(zone),
            None => values,
        })
    };
    let values = vec![Some(1_577_836_800_000), None, Some(1_577_836_800_500), Some(0), Some(1_577_817_000_000)];
    lake.table("p", &[millis(values.clone(), None)], "", "TIMESTAMP").await;
    lake.table("z", &[millis(values.clone(), Some("UTC"))], "", "TIMESTAMPTZ").await;
    lake.table("e", &[millis(values, Some("Europe/Berlin"))], "", "TIMESTAMPTZ").await;
    let mut queries = vec![
        "SELECT id, c IN (TIMESTAMP '2020-01-01 00:00:00.0005', NULL) FROM p".to_owned(),
        "SELECT id, c NOT IN (NULL, TIMESTAMP '2020-01-01 00:00:00.5', TIMESTAMP '2020-01-01 00:00:00.0005') FROM p"
            .to_owned(),
    ];
    for table in ["z", "e"] {
        for constant in [
            "TIMESTAMPTZ '2020-01-01 00:00:00.0005Z'",
            "TIMESTAMPTZ '2020-01-01 00:00:00Z'",
            "TIMESTAMPTZ '2020-01-01 00:00:00'",
            "TIMESTAMPTZ '2020-01-01 05:30:00'",
            "TIMESTAMPTZ '9999-12-30 00:00:00+00'",
            "'2020-01-01 05:30:00'",
            "'2020-01-01 00:00:00.5+00:00'",
            "'2019-12-31 18:30:00'",
        ] {
            for operator in ["=", "<>", "<", ">=", "IS DISTINCT FROM"] {
                queries.push(format!("SELECT id FROM {table} WHERE c {operator} {constant}"));
            }
            queries.push(format!("SELECT id FROM {table} WHERE c IN ({constant}, NULL)"));
        }
    }
    for zone in ["UTC", "Asia/Kolkata"] {
        lake.run(&format!("SET datafusion.execution.time_zone = '{zone}'")).await;
        lake.duckdb.query(&format!("SET TimeZone = '{zone}'"));
        lake.check(&queries).await;
    }
}
