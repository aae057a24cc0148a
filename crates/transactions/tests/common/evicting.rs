//! Databases with tables larger than memory.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Disk, SimulatedDisk};
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::types::{Value, ValueRef};

/// Bytes of memory for rows.
pub const LIMIT: u64 = 24 << 20;

pub fn open(disk: &SimulatedDisk, limit: u64) -> RowEngine {
    open_on(Arc::new(disk.clone()), limit)
}

pub fn open_on(disk: Arc<dyn Disk>, limit: u64) -> RowEngine {
    RowEngine::open(disk, settings(limit)).unwrap()
}

pub fn settings(limit: u64) -> Settings {
    Settings {
        memory_bytes_max: limit,
        eviction: Some(BlockStoreSettings { segment_bytes: 1 << 20, ..Default::default() }),
        partitions: 2,
        seed: 1,
        // They insert row after row; others test commits that wait.
        log: LogSettings { synchronous_commit: false, ..LogSettings::default() },
        ..Settings::default()
    }
}

pub fn run(session: &mut RowSession, sql: &str, parameters: &[Value]) -> StatementResult {
    session.execute(sql, parameters).unwrap_or_else(|error| panic!("{}: {error}", &sql[..sql.len().min(200)]))
}

pub fn int(answer: &StatementResult) -> i64 {
    let ValueRef::Int(value) = answer.rows.value(0, 0) else { panic!("{answer:?}") };
    value
}

pub fn text(length: usize, fill: i64) -> Value {
    Value::Text(char::from(b'a' + (fill % 26) as u8).to_string().repeat(length).into())
}

/// Bytes of the blocks' files.
pub fn block_bytes(disk: &SimulatedDisk) -> u64 {
    let names = disk.list().unwrap();
    names.iter().filter(|name| name.starts_with("blocks-")).map(|name| disk.open(name).unwrap().length().unwrap()).sum()
}

/// Makes a table `t` of rows of 1 KB in groups.
pub fn fill_groups(session: &mut RowSession, rows: i64, group: impl Fn(i64) -> i64) {
    create_groups(session);
    for k in 0..rows {
        run(session, "INSERT INTO t VALUES ($1, $2, $3)", &[Value::Int(k), Value::Int(group(k)), text(1000, k)]);
    }
}

pub fn create_groups(session: &mut RowSession) {
    let columns = "k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v TEXT NOT NULL";
    run(session, &format!("CREATE TABLE t ({columns}) PARTITION BY (k)"), &[]);
}

/// Waits until partitions that have nothing else to do have freed memory down to this.
pub fn wait_for_memory(database: &RowEngine, most: u64) {
    let start = Instant::now();
    while database.memory().table_bytes > most {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", database.memory());
        std::thread::sleep(Duration::from_millis(1));
    }
}
