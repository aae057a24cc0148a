//! Speed of opening a database: rows of a snapshot a second.
//!
//! ```text
//! cargo bench -p thermocline-transactions --bench opening -- [ROWS] [PARTITIONS] [SHAPE]
//! ```
//!
//! A row is a key, a number in no order and 100 bytes of text. `SHAPE` is `hash` (the key's index only), `ordered` (the
//! key's index is ordered), `second` (an ordered index of the numbers beside the key's), or `replicated` (`hash`, and
//! every partition has all rows). Files are in the directory of `BENCH_DIRECTORY` (default: the current directory). The
//! bench writes them, so they are in the system's cache; with `BENCH_KEPT`, a directory, it keeps them there and reuses
//! existing ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot go on stops")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::types::ValueRef;

fn open(directory: &Path, partitions: u16) -> RowEngine {
    let disk = Arc::new(RealDisk::open_or_create(directory.to_path_buf()).unwrap());
    let snapshots = SnapshotSettings { interval: None, ..SnapshotSettings::default() };
    RowEngine::open(disk, Settings { partitions, memory_bytes_max: 64 << 30, snapshots, ..Settings::default() })
        .unwrap()
}

/// Processor time of this process in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn fill(directory: &Path, rows: i64, partitions: u16, shape: &str) {
    let database = open(directory, partitions);
    let mut session = database.session();
    let using = if shape == "ordered" { "USING BTREE" } else { "" };
    let by = if shape == "replicated" { "" } else { "PARTITION BY (id)" };
    let columns = "id BIGINT, n BIGINT NOT NULL, text VARCHAR(100) NOT NULL";
    session.execute(&format!("CREATE TABLE items ({columns}, PRIMARY KEY (id) {using}) {by}"), &[]).unwrap();
    if shape == "second" {
        session.execute("CREATE INDEX items_n ON items (n)", &[]).unwrap();
    }
    let mut load = session.load("items", &["id", "n", "text"]).unwrap();
    let text = "t".repeat(100);
    for id in 0..rows {
        let number = id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()) >> 20;
        load.push(&[ValueRef::Int(id), ValueRef::Int(number), ValueRef::Text(&text)]).unwrap();
    }
    assert_eq!(load.finish().unwrap(), rows.cast_unsigned());
    drop(session);
    database.close().unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |at: usize, default: i64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    // Smoke test.
    let (rows, partitions) = (number(0, 50_000), u16::try_from(number(1, 2)).unwrap());
    let shape = arguments.get(2).map_or("second", String::as_str);
    let temporary = tempfile::tempdir_in(std::env::var("BENCH_DIRECTORY").unwrap_or_else(|_| ".".into())).unwrap();
    let kept = std::env::var_os("BENCH_KEPT").map(PathBuf::from);
    let directory = kept.unwrap_or_else(|| temporary.path().join("rows"));
    if !directory.exists() {
        fill(&directory, rows, partitions, shape);
    }
    for _ in 0..3 {
        let before = (Instant::now(), processor_seconds());
        let database = open(&directory, partitions);
        let (seconds, processor) = (before.0.elapsed().as_secs_f64(), processor_seconds() - before.1);
        let memory = database.memory_bytes() as f64 / 1e6;
        println!(
            "{rows} rows, {partitions} partitions, {shape}: opened in {seconds:.2} s, {:.2} million rows a second; \
             {processor:.2} s of processor, {memory:.0} MB of tables",
            rows as f64 / seconds / 1e6
        );
        let counted = database.session().execute("SELECT count(*) FROM items", &[]).unwrap();
        assert_eq!(counted.rows.len(), 1);
        let find = database.session().execute("SELECT n FROM items WHERE id = $1", &[(rows / 2).into()]).unwrap();
        assert_eq!(find.rows.len(), 1);
        database.close().unwrap();
    }
}
