//! Objects of many partitions, and many objects: partitions share requests, fragments travel once, footers are decoded
//! once, and no row changes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Route;
use thermocline_storage::{NodeConfig, Root, StorageNode, serve};

/// Row groups of the Parquet object, and approximate pieces of the CSV object.
const PARTITIONS: i64 = 120;
const ROWS: i64 = 40;

/// `c0` is the row group, `c1` the row in it, `c2` text; further columns are `c1` times their number.
fn parquet(path: &Path, columns: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let batch = |group: i64| {
        let column = |column: usize| -> ArrayRef {
            match column {
                0 => Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| group))),
                2 => Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("text {}", row % 7)))),
                _ => Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * column as i64))),
            }
        };
        let named = (0..columns).map(|at| (format!("c{at}"), column(at)));
        if columns > 100 {
            return RecordBatch::try_from_iter(named).unwrap();
        }
        // So that no partition is merged with its neighbours.
        let digits = |seed: u64| format!("{:016x}", (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        let noise = |row| (0..150).map(|at| digits(((group * ROWS + row) * 150 + at) as u64)).collect::<String>();
        let padding: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(noise)));
        RecordBatch::try_from_iter(named.chain([("padding".to_owned(), padding)])).unwrap()
    };
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS as usize)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch(0).schema(), Some(properties)).unwrap();
    (0..PARTITIONS).for_each(|group| writer.write(&batch(group)).unwrap());
    writer.close().unwrap();
}

/// The first three columns, padded so that a partition of 64 KiB has few rows.
fn csv(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    writeln!(file, "c0,c1,c2,padding").unwrap();
    let padding = "x".repeat(1600);
    for group in 0..PARTITIONS {
        (0..ROWS).for_each(|row| writeln!(file, "{group},{row},text {},{padding}", row % 7).unwrap());
    }
}

async fn session(location: &str, format: &str) -> Session {
    // Of the Parquet object, every row group is a partition. Two in flight are few beside 120.
    let options = OpenOptions::default().with("partition_size", "64KiB").with("partitions_in_flight", 2);
    let session = Database::open(options, |_| {}).await.unwrap().session();
    let options = if format == "csv" { " OPTIONS (has_header 'true')" } else { "" };
    session.run(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{location}'{options}")).await.unwrap();
    session
}

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(c0), sum(c1) FROM t WHERE c1 < 30",
    "SELECT c0, c2, sum(c1) FROM t GROUP BY c0, c2 ORDER BY c0, c2",
    "SELECT c0, c1, c2 FROM t WHERE c1 = 3",
    "SELECT c0, c1, c2 FROM t WHERE c1 >= 0",
    "SELECT c0, c1 FROM t ORDER BY c1 DESC, c0 LIMIT 7",
    "SELECT count(*) FROM t WHERE c0 < 0",
];

async fn all(session: &Session, mode: &str) -> Vec<QueryResult> {
    session.set("mode", mode).unwrap();
    let mut results = vec![];
    for sql in QUERIES {
        results.push(session.run(sql).await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_an_object_share_requests_and_no_row_changes() {
    let temporary = tempfile::tempdir().unwrap();
    parquet(&temporary.path().join("parquet/t.parquet"), 12);
    csv(&temporary.path().join("csv/t.csv"));
    for format in ["parquet", "csv"] {
        let root = temporary.path().join(format);
        let root = root.to_str().unwrap();
        let embedded = session(root, format).await;
        let expected = all(&embedded, "pullup").await;
        assert_eq!(expected[0].rows(), 1);
        for pushback in ["none", "half", "all"] {
            let node = NodeProcess::start(root, "127.0.0.1:0", &["--pushback", pushback], &[]);
            let remote = session(&format!("thermocline://{}", node.address), format).await;
            for (session, place) in [(&embedded, "embedded"), (&remote, pushback)] {
                for mode in ["pushdown", "pullup", "hybrid", "caching", "hybrid"] {
                    let results = all(session, mode).await;
                    for ((sql, result), expected) in QUERIES.iter().zip(&results).zip(&expected) {
                        let what = format!("{format} {place} {mode}: {sql}");
                        assert_same(canonical(result), canonical(expected), false, &what);
                    }
                    let stats = &results[0].stats;
                    let partitions = stats.partitions(Route::Pushdown).max(stats.partitions(Route::Pullup));
                    if mode == "pushdown" || (mode == "pullup" && place != "embedded") {
                        assert!(partitions >= 100, "{format} {place} {mode}: {partitions} partitions");
                        let requests = stats.requests;
                        assert!(requests * 4 <= partitions, "{format} {place} {mode}: {requests} requests");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_for_many_partitions_are_kept_when_they_are_asked_for_again() {
    let temporary = tempfile::tempdir().unwrap();
    parquet(&temporary.path().join("t.parquet"), 12);
    let root = temporary.path().to_str().unwrap();
    let node = NodeProcess::start(root, "127.0.0.1:0", &["--egress-limit", "20Mbps"], &[]);
    let session = session(&format!("thermocline://{}", node.address), "parquet").await;
    let sql = "SELECT count(*), max(c1) FROM t WHERE padding LIKE '%99%'";
    let mut runs = vec![];
    for _ in 0..3 {
        runs.push(session.run(sql).await.unwrap());
    }
    session.set("mode", "pushdown").unwrap();
    let expected = canonical(&session.run(sql).await.unwrap());
    runs.iter().for_each(|run| assert_same(canonical(run), expected.clone(), false, sql));
    let stats: Vec<_> = runs.iter().map(|run| &run.stats).collect();
    let partitions = stats[0].partitions(Route::Pushdown);
    assert!(partitions >= 100, "{:?}", stats[0]);
    assert!(stats[0].requests * 4 <= partitions, "neighbours are asked for together: {:?}", stats[0]);
    assert!(stats[1].requests * 2 >= partitions, "each is asked for alone: {:?}", stats[1]);
    assert!(stats[2].partitions(Route::Answered) * 2 >= partitions, "{:?}", stats[2]);
    assert_eq!(stats[2].bytes_from_storage, 0, "{:?}", stats[2]);
}

/// The `partitions=X of Y` of a scan.
async fn partitions_left(session: &Session, sql: &str) -> String {
    let plan = session.run(&format!("EXPLAIN {sql}")).await.unwrap();
    let text = canonical(&plan).iter().map(|row| format!("{row:?}")).collect::<String>();
    let start = text.find("partitions=").expect(&text);
    text[start..].split(", ").next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_finds_out_is_learnt_of_each_of_its_partitions() {
    let temporary = tempfile::tempdir().unwrap();
    csv(&temporary.path().join("t.csv"));
    let node = NodeProcess::start(temporary.path().to_str().unwrap(), "127.0.0.1:0", &[], &[]);
    for mode in ["pushdown", "pullup"] {
        let session = session(&format!("thermocline://{}", node.address), "csv").await;
        session.set("mode", mode).unwrap();
        let one = "SELECT count(*) FROM t WHERE c0 = 77";
        let before = partitions_left(&session, one).await;
        let total = before.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(before, format!("partitions={total} of {total}"), "{mode}: nothing is known yet");
        let rows = canonical(&session.run(one).await.unwrap());
        // A partition begins in the middle of a group of rows.
        let after = partitions_left(&session, one).await;
        assert!(["1", "2"].map(|left| format!("partitions={left} of {total}")).contains(&after), "{mode}: {after}");
        assert_eq!(canonical(&session.run(one).await.unwrap()), rows, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_schemas_and_fragments_travel_once_and_again_to_a_node_that_forgot_them() {
    let temporary = tempfile::tempdir().unwrap();
    parquet(&temporary.path().join("t.parquet"), 1500);
    let mut bytes_to_storage = vec![];
    for contents_bytes_max in [128 << 20, 0] {
        let config = NodeConfig { contents_bytes_max, ..NodeConfig::default() };
        let node = StorageNode::new(Root::open(temporary.path().to_str().unwrap()).unwrap(), config).unwrap();
        let server = serve(node, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let session = session(&format!("thermocline://{}", server.address()), "parquet").await;
        session.set("mode", "pushdown").unwrap();
        let list: Vec<String> = (0..4000).map(|value| (value * 3).to_string()).collect();
        let sql = format!("SELECT count(*), sum(c3) FROM t WHERE c3 IN ({})", list.join(", "));
        let first = session.run(&sql).await.unwrap();
        let second = session.run(&sql).await.unwrap();
        assert_eq!(canonical(&first), canonical(&second));
        assert!(first.stats.partitions(Route::Pushdown) > 100, "{:?}", first.stats);
        bytes_to_storage.push((first.stats.bytes_to_storage, second.stats.bytes_to_storage));
        let others = all(&session, "pushdown").await;
        let expected = all(&session, "pullup").await;
        for ((sql, result), expected) in QUERIES.iter().zip(&others).zip(&expected) {
            assert_same(canonical(result), canonical(expected), false, sql);
        }
    }
    let [(first, second), (forgetful, _)] = bytes_to_storage[..] else { panic!("{bytes_to_storage:?}") };
    assert!(second * 4 < first, "the second run names what the first one sent: {bytes_to_storage:?}");
    assert!(first * 4 < forgetful, "each request carried all of it: {bytes_to_storage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_come_go_and_change_are_seen_and_no_others_are_described_again() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |name: &str, rows: &str| fs::write(temporary.path().join(name), format!("a\n{rows}")).unwrap();
    (0..300).for_each(|object| write(&format!("{object:03}.csv"), &format!("{object}\n")));
    let session = session(temporary.path().to_str().unwrap(), "csv").await;
    let sum = async |sql: &str| canonical(&session.run(sql).await.unwrap());
    let total = "SELECT count(*), sum(a) FROM t";
    let before = sum(total).await;
    assert_eq!(before, sum("SELECT 300, 300 * 299 / 2").await);
    let table = session.engine().tables().remove(0);
    let snapshot = table.latest();
    assert_eq!(sum(total).await, before);
    assert!(Arc::ptr_eq(&snapshot, &table.latest()), "nothing changed, so nothing is planned anew");

    write("150.csv", "1000\n2000\n");
    fs::remove_file(temporary.path().join("000.csv")).unwrap();
    write("150a.csv", "7\n");
    write("zzz.csv", "8\n");
    assert_eq!(sum(total).await, sum("SELECT 302, 300 * 299 / 2 - 150 + 3000 + 15").await);
    let after = table.latest();
    let known = after.objects.iter().filter(|now| snapshot.objects.iter().any(|before| Arc::ptr_eq(now, before)));
    assert_eq!((known.count(), after.objects.len()), (298, 301));
}
