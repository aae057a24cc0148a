//! Evicted rows that are read side by side: by replays, indexes and statements that need many.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thermocline_transactions::Result;
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, SnapshotSettings};
use thermocline_transactions::disk::{AppendFile, DirectoryLock, Disk, Faults, ReadFile, SimulatedDisk};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::types::Value;

use crate::evicting::{LIMIT, block_bytes, int, run, text};

#[path = "common/evicting.rs"]
mod evicting;

const ROWS: i64 = 40_000;

/// Reads of files of blocks.
#[derive(Debug, Default)]
struct Reads {
    all: AtomicUsize,
    under_way: AtomicUsize,
    /// Those that began while no other was under way.
    alone: AtomicUsize,
    most: AtomicUsize,
}

impl Reads {
    fn reset(&self) {
        [&self.all, &self.alone, &self.most].into_iter().for_each(|count| count.store(0, Ordering::SeqCst));
    }

    fn all(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }

    fn alone(&self) -> usize {
        self.alone.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A disk that reads several things at once, and counts.
#[derive(Debug, Clone)]
struct Counting {
    disk: SimulatedDisk,
    reads: Arc<Reads>,
}

impl Counting {
    fn new() -> Self {
        Self { disk: SimulatedDisk::new(1, Faults::default()), reads: Arc::default() }
    }

    fn open(&self, settings: Settings) -> RowEngine {
        RowEngine::open(Arc::new(self.clone()), settings).unwrap()
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn ReadFile>,
    /// `None` for files of something else.
    reads: Option<Arc<Reads>>,
}

impl ReadFile for CountedFile {
    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(reads) = &self.reads else { return self.file.read_at(offset, buffer) };
        reads.all.fetch_add(1, Ordering::SeqCst);
        let others = reads.under_way.fetch_add(1, Ordering::SeqCst);
        reads.alone.fetch_add(usize::from(others == 0), Ordering::SeqCst);
        reads.most.fetch_max(others + 1, Ordering::SeqCst);
        // Long enough for others to begin.
        std::thread::sleep(Duration::from_micros(300));
        let read = self.file.read_at(offset, buffer);
        reads.under_way.fetch_sub(1, Ordering::SeqCst);
        read
    }
}

impl Disk for Counting {
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        let reads = name.starts_with("blocks-").then(|| Arc::clone(&self.reads));
        Ok(Box::new(CountedFile { file: self.disk.open(name)?, reads }))
    }

    fn reads_at_once(&self) -> usize {
        16
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.disk.lock()
    }
}

fn settings() -> Settings {
    let snapshots = SnapshotSettings { interval: None, closing_log_bytes: u64::MAX, ..SnapshotSettings::default() };
    // No rows move on their own meanwhile.
    let eviction = Some(BlockStoreSettings { fill_factor: "0.1".parse().unwrap(), ..BlockStoreSettings::default() });
    // A snapshot leaves little of the log.
    let log = LogSettings { synchronous_commit: false, segment_bytes: 1 << 20, ..LogSettings::default() };
    Settings { snapshots, eviction, log, ..evicting::settings(LIMIT) }
}

/// A database with rows of 1 KB, most of which are in blocks.
fn filled(disk: &Counting) -> RowEngine {
    let database = disk.open(settings());
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v TEXT NOT NULL) PARTITION BY (k)", &[]);
    for k in 0..ROWS {
        run(&mut session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), Value::Int(k % 100), text(1000, k)]);
    }
    assert!(block_bytes(&disk.disk) > 16 << 20);
    disk.reads.reset();
    database
}

fn bytes(session: &mut RowSession) -> i64 {
    int(&run(session, "SELECT sum(length(v)) FROM t", &[]))
}

/// The records of a log have their rows read together, although each of them needs one or two.
#[test]
fn a_replay_reads_rows_of_many_records_side_by_side() {
    let disk = Counting::new();
    let database = filled(&disk);
    database.snapshot().unwrap();
    let mut session = database.session();
    let body = "UPDATE t SET v = v || '!' WHERE k = a; UPDATE t SET v = v || '?' WHERE k = a + 1";
    run(&mut session, &format!("CREATE PROCEDURE p(a BIGINT) LANGUAGE sql AS $$ {body} $$"), &[]);
    let mut changed = 0;
    for k in (0..30_000).step_by(29) {
        match k % 4 {
            0 => run(&mut session, "UPDATE t SET v = v || '!' WHERE k = $1", &[Value::Int(k)]),
            1 => run(&mut session, "UPDATE t SET v = v || '!?' WHERE k = $1", &[Value::Int(k)]),
            2 => run(&mut session, "CALL p($1)", &[Value::Int(k)]),
            _ => {
                run(&mut session, "BEGIN", &[]);
                run(&mut session, "UPDATE t SET v = v || '!' WHERE k = $1", &[Value::Int(k)]);
                run(&mut session, "COMMIT", &[])
            }
        };
        changed += 1;
    }
    let expected = bytes(&mut session);
    drop(session);
    drop(database);
    disk.reads.reset();
    let database = disk.open(settings());
    let (all, alone, most) = (disk.reads.all(), disk.reads.alone(), disk.reads.most());
    assert!(database.read_only().is_none());
    assert!(all > 200, "{all}");
    assert!(most > 4 && alone * 4 < changed, "{most} at once, {alone} of {changed} alone");
    assert_eq!(bytes(&mut database.session()), expected);
}

/// An index is built from whole blocks, each of which is read once, now and in a replay.
#[test]
fn an_index_reads_each_block_once() {
    let disk = Counting::new();
    let database = filled(&disk);
    let mut session = database.session();
    let blocks: u64 = session.statistics().unwrap().partitions.iter().map(|of| of.blocks.unwrap().blocks).sum();
    let blocks = blocks as usize;
    disk.reads.reset();
    run(&mut session, "CREATE INDEX t_g ON t (g)", &[]);
    assert!(disk.reads.all() <= 2 * blocks, "{} reads of {blocks} blocks", disk.reads.all());
    assert!(disk.reads.most() > 2, "{}", disk.reads.most());
    let count = |session: &mut RowSession| int(&run(session, "SELECT count(k) FROM t WHERE g = 7", &[]));
    assert_eq!(count(&mut session), ROWS / 100);
    drop(session);
    drop(database);
    disk.reads.reset();
    let database = disk.open(settings());
    assert!(disk.reads.all() <= 3 * blocks, "{} reads of {blocks} blocks", disk.reads.all());
    assert_eq!(count(&mut database.session()), ROWS / 100);
}

/// A statement that needs many evicted rows has all of them read while it waits elsewhere, and scans its table as often
/// as one that needs few.
#[test]
fn many_rows_of_a_statement_are_read_while_others_run() {
    let disk = Counting::new();
    let database = filled(&disk);
    let mut session = database.session();
    let update = "UPDATE t SET v = v || '!' WHERE g % 12 = 3";
    assert_eq!(run(&mut session, update, &[]).affected as i64, ROWS / 100 * 9);
    let waits: Vec<_> = session.statistics().unwrap().partitions.iter().map(|of| of.waits).collect();
    assert!(waits.iter().all(|waits| waits.blocking_total == 0 && waits.rows_total > 500), "{waits:?}");
    assert_eq!(bytes(&mut session), ROWS * 1000 + ROWS / 100 * 9);
    assert_eq!(run(&mut session, "DELETE FROM t WHERE g = 4", &[]).affected as i64, ROWS / 100);
    // In a session's transaction they are read where it runs, side by side.
    run(&mut session, "BEGIN", &[]);
    disk.reads.reset();
    assert_eq!(run(&mut session, "DELETE FROM t WHERE g = 5", &[]).affected as i64, ROWS / 100);
    assert!(disk.reads.most() > 4, "{}", disk.reads.most());
    run(&mut session, "ROLLBACK", &[]);
    assert_eq!(int(&run(&mut session, "SELECT count(*) FROM t", &[])), ROWS - ROWS / 100);
}

/// Closing takes a snapshot if the next start would read many rows from blocks, however short the log is.
#[test]
fn rows_that_a_replay_would_read_count_like_log() {
    for (rows, taken) in [(5000, true), (10, false)] {
        let disk = Counting::new();
        let mut database = filled(&disk);
        database.snapshot().unwrap();
        drop(database);
        let mut closing = settings();
        closing.snapshots.closing_log_bytes = 8 << 20;
        database = disk.open(closing);
        let before = database.snapshot_status().log_bytes;
        let mut session = database.session();
        for k in 0..rows {
            let k = Value::Int(k * 7);
            // Also rows that a query has brought back before.
            run(&mut session, "SELECT v FROM t WHERE k = $1", std::slice::from_ref(&k));
            run(&mut session, "UPDATE t SET v = v || '!' WHERE k = $1", &[k]);
        }
        drop(session);
        let grown = database.snapshot_status().log_bytes - before;
        assert!(grown < 4 << 20, "{grown} bytes of log");
        let newest =
            |disk: &Counting| disk.list().unwrap().into_iter().filter(|name| name.starts_with("snapshot")).max();
        let before = newest(&disk);
        assert!(before.is_some());
        database.close().unwrap();
        assert_eq!(newest(&disk) != before, taken, "{rows} rows");
    }
}
