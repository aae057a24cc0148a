//! Memory of queries over cached columns: operators that buffer rows are charged as much as for rows read from storage.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::OnceLock;

use crate::support::oracle::Oracle;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::memory_pool::MemoryLimit;
use futures::TryStreamExt;
use thermocline_compute::EngineSettings;
use thermocline_database::{Database, OpenOptions, Session, Statement};
use thermocline_pushdown::Route;

/// Two objects of this many rows each: eight chunks per segment.
const ROWS: usize = 60_000;

/// Integers, decimals, short strings, strings of a dictionary and long ones, with NULLs.
fn data() -> &'static Path {
    static DATA: OnceLock<tempfile::TempDir> = OnceLock::new();
    DATA.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("t")).unwrap();
        let mut duckdb = Oracle::start();
        duckdb.query("SELECT setseed(0.25)");
        for object in 0..2 {
            duckdb.query(&format!(
                "COPY (SELECT i AS id, (random() * 1000)::INT AS a,
                        CASE WHEN random() < 0.9 THEN (random() * 10000)::DECIMAL(12, 2) END AS d,
                        CASE WHEN random() < 0.9 THEN 'w' || (random() * 100)::INT END AS s,
                        'of a dictionary of ' || (i % 7) AS e,
                        md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS l
                    FROM range({0}, {1}) r(i)) TO '{2}/t/{object}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 61440)",
                object * ROWS,
                (object + 1) * ROWS,
                directory.path().display()
            ));
        }
        duckdb.query(&format!(
            "COPY (SELECT i AS x FROM range(3) r(i)) TO '{}/few.parquet' (FORMAT parquet)",
            directory.path().display()
        ));
        directory
    })
    .path()
}

async fn session() -> Session {
    let options = OpenOptions { threads: Some(1), ..OpenOptions::default() };
    let session = Database::open(options, |_| {}).await.unwrap().session();
    let directory = data().display();
    for sql in [
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{directory}/t/'"),
        format!("CREATE EXTERNAL TABLE few STORED AS PARQUET LOCATION '{directory}/few.parquet'"),
        // The reservation of a sort for merging would hide its charge for rows.
        "SET datafusion.execution.sort_spill_reservation_bytes = 65536".to_owned(),
        // A nested loop join buffers its left side.
        "SET datafusion.optimizer.join_reordering = false".to_owned(),
    ] {
        session.run(&sql).await.unwrap();
    }
    session
}

/// Number of rows and a hash of them.
type Rows = (usize, u64);

async fn rows(session: &Session, sql: &str, ordered: bool) -> Result<Rows, String> {
    let statement = Statement::parse(sql).unwrap().pop().unwrap();
    let mut query = session.stream(statement).await.map_err(|error| error.to_string())?;
    let (mut count, mut hash) = (0, 0_u64);
    while let Some(batch) = query.rows.try_next().await.map_err(|error| error.to_string())? {
        count += batch.num_rows();
        for row in hashes(&batch) {
            hash = if ordered { hash.wrapping_mul(31).wrapping_add(row) } else { hash.wrapping_add(row) };
        }
    }
    Ok((count, hash))
}

fn hashes(batch: &RecordBatch) -> Vec<u64> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    let text = |row| columns.iter().map(|column| format!("{}|", column.value(row))).collect::<String>();
    (0..batch.num_rows()).map(|row| BuildHasherDefault::<DefaultHasher>::default().hash_one(text(row))).collect()
}

async fn set(session: &Session, name: &str, value: &str) {
    session.run(&format!("SET {name} = '{value}'")).await.unwrap();
}

async fn limit(session: &Session, kib: usize) {
    session.run(&format!("ALTER DATABASE SET query_memory_limit = '{kib}KiB'")).await.unwrap();
}

const LARGE_KIB: usize = 1 << 20;

/// The smallest limit, to within 2 %, for which `works` returns true; it does for a GiB.
async fn smallest_kib(session: &Session, works: impl AsyncFn(&Session) -> bool) -> usize {
    let (mut fails, mut suffices) = (16, LARGE_KIB);
    while suffices - fails > 1 + suffices / 50 {
        let middle = (fails + suffices) / 2;
        limit(session, middle).await;
        if works(session).await {
            suffices = middle;
        } else {
            fails = middle;
        }
    }
    suffices
}

/// Spills of a query, summed over its operators.
async fn spills(session: &Session, sql: &str) -> Result<usize, String> {
    let result = session.run(&format!("EXPLAIN ANALYZE {sql}")).await.map_err(|error| error.to_string())?;
    let text = arrow::util::pretty::pretty_format_batches(&result.batches).unwrap().to_string();
    let counts = text.split("spill_count=").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<usize>().unwrap()
    });
    Ok(counts.sum())
}

/// Runs `sql` in mode `hybrid` until it needs only the cache.
async fn warm(session: &Session, sql: &str, ordered: bool) -> Rows {
    limit(session, LARGE_KIB).await;
    set(session, "thermocline.mode", "hybrid").await;
    rows(session, sql, ordered).await.unwrap();
    let warm = rows(session, sql, ordered).await.unwrap();
    let stats = session.engine().queries().pop().unwrap().stats;
    assert_eq!((stats.segments_missed, stats.requests), (0, 0), "{sql}");
    assert!(stats.partitions(Route::Local) > 0, "{sql}");
    warm
}

/// Every operator that buffers rows.
const BUFFERING: [(&str, &str, bool); 9] = [
    ("sort", "SELECT * FROM t ORDER BY l, id", true),
    ("sort of fixed widths", "SELECT id, a, d FROM t ORDER BY a, id", true),
    ("top-K", "SELECT * FROM t ORDER BY l, id LIMIT 1000", true),
    ("hash join's build side", "SELECT b.id, a.l, a.d, a.s, b.e FROM t a JOIN t b ON a.id = b.id AND a.a = b.a", false),
    ("nested loop join", "SELECT t.id, t.s, t.e, x FROM t JOIN few ON t.a % 3 < few.x AND t.a > 900 + few.x", false),
    ("cross join", "SELECT t.id, t.l, x FROM t CROSS JOIN few", false),
    ("window", "SELECT id, l, sum(d) OVER (PARTITION BY e ORDER BY id) FROM t", false),
    ("distinct", "SELECT DISTINCT a, s, l FROM t", false),
    (
        "array_agg",
        "SELECT e, count(*), array_length(array_agg(l)), array_length(array_agg(d)) FROM t GROUP BY e",
        false,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn buffering_operators_need_no_more_memory_over_cached_columns() {
    let session = session().await;
    for (operator, sql, ordered) in BUFFERING {
        set(&session, "thermocline.mode", "pullup").await;
        limit(&session, LARGE_KIB).await;
        let expected = rows(&session, sql, ordered).await.unwrap();
        let pullup = smallest_kib(&session, async |session| rows(session, sql, ordered).await.is_ok()).await;
        assert_eq!(warm(&session, sql, ordered).await, expected, "{operator}");
        let hybrid = smallest_kib(&session, async |session| rows(session, sql, ordered).await.is_ok()).await;
        println!("{operator}: {} rows; pullup {pullup} KiB, hybrid {hybrid} KiB", expected.0);
        limit(&session, pullup * 11 / 10).await;
        assert_eq!(rows(&session, sql, ordered).await, Ok(expected), "{operator} under {pullup} KiB + 10 %");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sorting_cached_columns_spills_no_sooner() {
    let session = session().await;
    for ((_, sql, ordered), batch_rows) in BUFFERING[..2].iter().flat_map(|query| [(query, 8192), (query, 1000)]) {
        set(&session, "datafusion.execution.batch_size", &batch_rows.to_string()).await;
        set(&session, "thermocline.mode", "pullup").await;
        let pullup = smallest_kib(&session, async |session| spills(session, sql).await == Ok(0)).await;
        limit(&session, pullup / 2).await;
        assert!(
            spills(&session, sql).await.is_ok_and(|spills| spills > 0),
            "{sql} does not spill in half of {pullup} KiB"
        );
        let expected = warm(&session, sql, *ordered).await;
        let hybrid = smallest_kib(&session, async |session| spills(session, sql).await == Ok(0)).await;
        println!("{sql}, batches of {batch_rows}: no spill from {pullup} KiB on in pullup, {hybrid} KiB in hybrid");
        limit(&session, pullup * 11 / 10).await;
        assert_eq!(spills(&session, sql).await, Ok(0), "{sql} under {pullup} KiB + 10 %");
        assert_eq!(rows(&session, sql, *ordered).await, Ok(expected));
    }
}

/// A limit that is set is shared like the initial one: no sort takes another's memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_set_is_shared_fairly() {
    let session = session().await;
    let sql = "SELECT * FROM t ORDER BY l, id LIMIT 100000";
    let expected = rows(&session, sql, true).await;
    assert!(expected.is_ok());
    for mib in [4, 2, 3] {
        limit(&session, mib << 10).await;
        let error = rows(&session, sql, true).await.unwrap_err();
        assert!(error.contains(&format!("fair(pool_size: {mib}.0 MB)")), "{error}");
    }
    session.run("ALTER DATABASE SET temporary_files_limit = '1GiB'").await.unwrap();
    assert!(rows(&session, sql, true).await.is_err(), "the limit is not the setting that was changed");
    session.run("ALTER DATABASE RESET query_memory_limit").await.unwrap();
    assert_eq!(rows(&session, sql, true).await, expected, "what the session began with is there again");
    let pool = session.engine().memory_pool();
    let begun = EngineSettings::default().query_memory_limit;
    assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(limit) if limit == begun));
}

/// A text column that takes six times the memory suggested by its share of the stored bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_outgrows_the_cache_hands_its_columns_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wide.csv");
    let zeros = (0..8).map(|column| format!("0 AS z{column}")).collect::<Vec<_>>().join(", ");
    Oracle::start().query(&format!(
        "COPY (SELECT i AS id, repeat(md5(i::VARCHAR), 8) AS wide, {zeros} FROM range(30000) r(i)) TO '{}'",
        path.display()
    ));
    let sql = "SELECT id, wide FROM wide";
    let opened = async |cache_size: usize| {
        let options = OpenOptions { threads: Some(1), ..OpenOptions::default() }.with("cache_size", cache_size);
        let session = Database::open(options, |_| {}).await.unwrap().session();
        let table = format!("CREATE EXTERNAL TABLE wide STORED AS CSV LOCATION '{}'", path.display());
        session.run(&table).await.unwrap();
        session
    };
    let last = |session: &Session| session.engine().queries().pop().unwrap().stats;

    let small = opened(4 << 20).await;
    set(&small, "thermocline.mode", "pullup").await;
    let expected = rows(&small, sql, true).await.unwrap();
    let pullup = last(&small);
    set(&small, "thermocline.mode", "caching").await;
    assert_eq!(rows(&small, sql, true).await.as_ref(), Ok(&expected));
    let loaded = last(&small);
    assert_eq!(loaded.partitions(Route::Load), 1, "it seemed to fit");
    assert_eq!((loaded.segments_admitted, loaded.bytes_from_storage), (0, pullup.bytes_from_storage));
    assert_eq!(small.engine().cache().bytes(), (0, 0));
    // A query that waits for the load learns that it failed, and reads for itself.
    let (a, b) = tokio::join!(rows(&small, sql, true), rows(&small, sql, true));
    assert_eq!((a.as_ref(), b.as_ref()), (Ok(&expected), Ok(&expected)));
    assert!(small.engine().cache().bytes_max() <= 4 << 20);

    let large = opened(64 << 20).await;
    assert_eq!(rows(&large, sql, true).await.as_ref(), Ok(&expected));
    assert_eq!(last(&large).segments_admitted, 2);
    let (bytes, _) = large.engine().cache().bytes();
    let values = 30_000 * (8 + 16 + 256);
    assert!(bytes < values * 11 / 10, "{bytes} bytes are kept for {values}");
    assert_eq!(rows(&large, sql, true).await, Ok(expected));
    assert_eq!((last(&large).segments_hit, last(&large).requests), (2, 0));
}
