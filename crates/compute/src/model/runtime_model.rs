//! Rates of all storages and of reading here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::estimate::Estimate;
use super::storage_rates::StorageRates;

/// Tables of which reading is remembered.
const TABLES_MAX: usize = 10_000;
/// Seconds of a core that decoding takes, until it was measured: per byte in memory of Parquet (700 MB/s), which is new
/// memory in a cache that is being filled, and per byte of text (500 MB/s).
const PARQUET_S_PER_BYTE: f64 = 1.0 / 700e6;
const TEXT_S_PER_BYTE: f64 = 1.0 / 500e6;

/// Rates by which the router estimates. All are shared by the queries of a database, and corrected by each.
#[derive(Debug, Default)]
pub(crate) struct RuntimeModel {
    storages: RwLock<HashMap<String, Arc<Mutex<StorageRates>>>>,
    /// Seconds of a core per byte, by table: in memory, or of text.
    decoding: Mutex<HashMap<u64, Estimate>>,
}

impl RuntimeModel {
    /// The rates of the storage with this label.
    pub(crate) fn storage(&self, label: &str) -> Arc<Mutex<StorageRates>> {
        if let Some(known) = self.storages.read().get(label) {
            return Arc::clone(known);
        }
        Arc::clone(self.storages.write().entry(label.to_owned()).or_default())
    }

    /// Seconds of a core that decoding a byte of a table takes: one in memory, or one of text.
    pub(crate) fn decoding_s_per_byte(&self, table: u64, is_text: bool) -> f64 {
        let assumed = if is_text { TEXT_S_PER_BYTE } else { PARQUET_S_PER_BYTE };
        self.decoding.lock().get(&table).map_or(assumed, Estimate::value)
    }

    /// Learns that decoding so many bytes of a table, in memory or of text, took so long.
    pub(crate) fn decoded(&self, table: u64, bytes: u64, took: Duration) {
        if bytes == 0 {
            return;
        }
        let mut known = self.decoding.lock();
        if known.len() >= TABLES_MAX && !known.contains_key(&table) {
            known.clear();
        }
        known.entry(table).or_insert(Estimate::assumed(0.0)).observe(took.as_secs_f64() / bytes as f64);
    }
}
