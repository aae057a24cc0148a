//! Databases with tables larger than memory.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::Arc;

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
