//! RocksDB in this process: direct I/O, the log on the disk before an update's result.
//!
//! ```text
//! memory limit = memtables + block cache + row cache
//!                1/8         the rest, of which the row cache has 3/4 if there is one
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options, WriteBatch, WriteOptions};
use thermocline_transactions::types::Value;

use crate::peer::{Connection, Engine, Failure, Loader, Origin, Peer, missing, no_field};
use crate::ycsb::{FIELD_BYTES, FIELDS};

/// Bits of a Bloom filter per row.
const BLOOM_BITS: f64 = 10.0;

/// Locks of rows, which share them by key.
const LOCKS: usize = 4096;

/// Memory of a database in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    /// All memtables.
    memtables: usize,
    /// Data blocks, and those of indexes and filters.
    blocks: usize,
    /// Single rows; 0 without a row cache.
    rows: usize,
}

impl Memory {
    fn new(limit: usize, has_row_cache: bool) -> Self {
        let memtables = limit / 8;
        let caches = limit - memtables;
        let rows = if has_row_cache { caches / 4 * 3 } else { 0 };
        Self { memtables, blocks: caches - rows, rows }
    }
}

/// A database in a directory.
pub struct RocksDb {
    store: Arc<Store>,
    directory: PathBuf,
}

struct Store {
    db: DB,
    /// Held from the read of an update until its log record is on the disk, as the servers' row locks are.
    locks: Vec<Mutex<()>>,
}

impl RocksDb {
    /// Opens the database, or makes a new one for a load.
    ///
    /// # Errors
    /// If it is missing, or exists before a load; if the file system has no direct I/O.
    pub fn open(directory: &Path, limit: u64, has_row_cache: bool, is_new: bool) -> Result<Self, Failure> {
        let memory = Memory::new(usize::try_from(limit)?, has_row_cache);
        let mut options = options(memory)?;
        options.create_if_missing(is_new);
        options.set_error_if_exists(is_new);
        let db = DB::open(&options, directory)?;
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        Ok(Self { store: Arc::new(Store { db, locks }), directory: directory.to_owned() })
    }
}

/// For point reads of rows that are there, from a solid-state disk, around the page cache.
fn options(memory: Memory) -> Result<Options, Failure> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(memory.blocks)?);
    // Otherwise they are in memory outside of the limit.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_bloom_filter(BLOOM_BITS, false);
    blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    if memory.rows > 0 {
        options.set_row_cache(&Cache::new_lru_cache(memory.rows)?);
    }
    options.set_db_write_buffer_size(memory.memtables);
    options.set_write_buffer_size((memory.memtables / 4).clamp(64 << 10, 64 << 20));
    options.set_max_write_buffer_number(4);
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options.set_compaction_readahead_size(2 << 20);
    options.set_compression_type(DBCompressionType::None);
    options.set_level_compaction_dynamic_level_bytes(true);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    options.increase_parallelism(i32::try_from(cores)?);
    Ok(options)
}

impl Store {
    fn lock(&self, key: i64) -> Result<MutexGuard<'_, ()>, Failure> {
        let number = key.unsigned_abs() as usize % LOCKS;
        let lock = self.locks.get(number).ok_or("there are no locks")?;
        Ok(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine for RocksDb {
    /// The library's version is in the file of its options.
    fn engine(&self) -> Result<String, Failure> {
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("OPTIONS-") {
                let text = std::fs::read_to_string(entry.path())?;
                let version = text.lines().find_map(|line| line.trim().strip_prefix("rocksdb_version="));
                return Ok(format!("rocksdb {}", version.unwrap_or_default()));
            }
        }
        Err(format!("{} has no options of RocksDB", self.directory.display()).into())
    }
}

impl Peer for RocksDb {
    fn define(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn loader(&self) -> Result<Box<dyn Loader>, Failure> {
        // A load ends with a flush.
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        Ok(Box::new(RocksDbLoader { store: Arc::clone(&self.store), options }))
    }

    fn settle(&self) -> Result<(), Failure> {
        self.store.db.flush()?;
        self.store.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        let bytes = self.store.db.property_int_value("rocksdb.total-sst-files-size")?;
        bytes.ok_or_else(|| "RocksDB does not know the size of its files".into())
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let mut options = WriteOptions::default();
        // One fdatasync for all updates that wait at that moment.
        options.set_sync(true);
        Ok(Box::new(RocksDbConnection { store: Arc::clone(&self.store), options }))
    }
}

/// The row as it is stored: its fields, all of the same length, without the key.
fn stored(row: &[Value]) -> Result<(i64, Vec<u8>), Failure> {
    let Some((Value::Int(key), fields)) = row.split_first() else {
        return Err("a row without a key".into());
    };
    let mut bytes = Vec::with_capacity(FIELDS * FIELD_BYTES);
    for field in fields {
        match field {
            Value::Text(text) if text.len() == FIELD_BYTES => bytes.extend_from_slice(text.as_bytes()),
            _ => return Err(format!("a row with the value {field:?}").into()),
        }
    }
    Ok((*key, bytes))
}

struct RocksDbLoader {
    store: Arc<Store>,
    options: WriteOptions,
}

impl Loader for RocksDbLoader {
    fn insert(&mut self, rows: &[Vec<Value>]) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        for row in rows {
            let (key, bytes) = stored(row)?;
            batch.put(key.to_be_bytes(), bytes);
        }
        Ok(self.store.db.write_opt(batch, &self.options)?)
    }
}

struct RocksDbConnection {
    store: Arc<Store>,
    options: WriteOptions,
}

impl Connection for RocksDbConnection {
    fn read(&mut self, key: i64, fields: &mut Vec<u8>) -> Result<Origin, Failure> {
        let row = self.store.db.get_pinned(key.to_be_bytes())?.ok_or_else(|| missing(key))?;
        fields.extend_from_slice(&row);
        Ok(Origin::Database)
    }

    fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure> {
        let _held = self.store.lock(key)?;
        let mut row = self.store.db.get(key.to_be_bytes())?.ok_or_else(|| missing(key))?;
        let from = field * FIELD_BYTES;
        let bytes = row.get_mut(from..from + FIELD_BYTES).ok_or_else(|| no_field(field))?;
        if value.len() != FIELD_BYTES {
            return Err(format!("a field of {} bytes", value.len()).into());
        }
        bytes.copy_from_slice(value.as_bytes());
        Ok(self.store.db.put_opt(key.to_be_bytes(), row, &self.options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::row;

    #[test]
    fn memory_adds_up_to_the_limit() {
        for (has_row_cache, rows) in [(false, 0), (true, 672 << 20)] {
            let memory = Memory::new(1 << 30, has_row_cache);
            assert_eq!((memory.memtables, memory.rows), (128 << 20, rows));
            assert_eq!(memory.memtables + memory.blocks + memory.rows, 1 << 30);
        }
    }

    #[test]
    fn a_row_is_its_fields() {
        let (key, bytes) = stored(&row(7, FIELD_BYTES)).unwrap();
        assert_eq!((key, bytes.len()), (7, FIELDS * FIELD_BYTES));
        assert!(stored(&[]).is_err());
        assert!(stored(&[Value::Int(1), Value::from("short")]).is_err());
    }

    #[test]
    fn an_update_replaces_one_field_and_stays() {
        // Below target/: a file system without direct I/O, such as tmpfs, does not do.
        let directory = std::env::current_exe().unwrap().with_extension("rocksdb");
        let _ = std::fs::remove_dir_all(&directory);
        let (_, before) = stored(&row(5, FIELD_BYTES)).unwrap();
        {
            let peer = RocksDb::open(&directory, 16 << 20, true, true).unwrap();
            peer.loader().unwrap().insert(&[row(5, FIELD_BYTES), row(6, FIELD_BYTES)]).unwrap();
            peer.settle().unwrap();
            assert!(peer.data_bytes().unwrap() > 2000);
            assert!(peer.engine().unwrap().starts_with("rocksdb "));
            let mut connection = peer.connect().unwrap();
            connection.update(5, 3, &"x".repeat(FIELD_BYTES)).unwrap();
            assert!(connection.update(5, FIELDS, &"x".repeat(FIELD_BYTES)).is_err());
            assert!(connection.update(7, 0, &"x".repeat(FIELD_BYTES)).is_err());
        }
        let peer = RocksDb::open(&directory, 16 << 20, false, false).unwrap();
        let mut after = Vec::new();
        peer.connect().unwrap().read(5, &mut after).unwrap();
        let mut expected = before;
        expected[300..400].fill(b'x');
        assert_eq!(after, expected);
        assert!(RocksDb::open(&directory, 16 << 20, false, true).is_err());
        drop(peer);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
