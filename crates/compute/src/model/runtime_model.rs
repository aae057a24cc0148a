//! Rates of all storages and of reading here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::calibration::{Calibration, Rates};
use super::credit::Credit;
use super::estimate::Estimate;
use super::ratio::Ratio;
use super::storage_rates::StorageRates;

/// Tables of which reading is remembered.
const TABLES_MAX: usize = 10_000;
/// Storages of which rates are remembered, beside those in use.
const STORAGES_MAX: usize = 1000;
/// Seconds of a core that decoding takes, until it was measured: per byte in memory of Parquet, 1400 MB/s batch by batch and
/// 700 MB/s for columns that are kept, each in new memory; and per byte of text, 500 MB/s.
const PARQUET_S_PER_BYTE: f64 = 1.0 / 1400e6;
const PARQUET_KEPT_S_PER_BYTE: f64 = 1.0 / 700e6;
const TEXT_S_PER_BYTE: f64 = 1.0 / 500e6;
/// Bytes of answers, and seconds of storage, over which fragments that were not seen before are compared with what was
/// expected of them.
const UNSEEN_BYTES: f64 = 64e6;
const UNSEEN_S: f64 = 5.0;
/// Expected seconds of scans over which their time is compared with what was expected of it.
const SCANS_S: f64 = 5.0;

/// What is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DecodeKind {
    /// Of which table.
    pub(crate) table: u64,
    /// Whether it is text.
    pub(crate) is_text: bool,
    /// Whether the columns are kept, rather than used batch by batch.
    pub(crate) is_kept: bool,
}

/// Rates by which the router estimates. All are shared by the queries of a database, and corrected by each.
#[derive(Debug, Default)]
pub(crate) struct RuntimeModel {
    storages: RwLock<HashMap<String, Arc<Mutex<StorageRates>>>>,
    /// Seconds of a core per byte: in memory, or of text.
    decoding: Mutex<HashMap<DecodeKind, Estimate>>,
    /// The same for tables of which nothing was read yet.
    assumed: Mutex<Assumed>,
    /// Time that loads may take.
    pub(crate) credit: Mutex<Credit>,
    /// How fragments and scans differ from what is expected of them.
    pub(crate) unseen: Mutex<Unexpected>,
}

/// By how much what had not run before has differed from what was expected of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unexpected {
    /// Bytes of answers to fragments.
    pub(crate) answers: Ratio,
    /// Seconds of storage for fragments.
    pub(crate) storage: Ratio,
    /// Seconds of scans that storage answered for all partitions.
    pub(crate) pushed: Ratio,
    /// Seconds of scans whose columns were fetched for all partitions.
    pub(crate) fetched: Ratio,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            answers: Ratio::new(UNSEEN_BYTES),
            storage: Ratio::new(UNSEEN_S),
            pushed: Ratio::new(SCANS_S),
            fetched: Ratio::new(SCANS_S),
        }
    }
}

/// Seconds of a core per byte in memory, and per byte of text.
#[derive(Debug)]
struct Assumed {
    parquet: f64,
    parquet_kept: f64,
    text: f64,
}

impl Default for Assumed {
    fn default() -> Self {
        Self { parquet: PARQUET_S_PER_BYTE, parquet_kept: PARQUET_KEPT_S_PER_BYTE, text: TEXT_S_PER_BYTE }
    }
}

impl RuntimeModel {
    /// The rates of the storage with this label.
    pub(crate) fn storage(&self, label: &str) -> Arc<Mutex<StorageRates>> {
        if let Some(known) = self.storages.read().get(label) {
            return Arc::clone(known);
        }
        Arc::clone(self.storages.write().entry(label.to_owned()).or_default())
    }

    /// If rates of many storages are remembered, forgets those of storages that are not `in_use`, by their labels.
    pub(crate) fn forget_storages(&self, in_use: impl FnOnce() -> HashSet<String>) {
        if self.storages.read().len() <= STORAGES_MAX {
            return;
        }
        let in_use = in_use();
        self.storages.write().retain(|label, _| in_use.contains(label));
    }

    /// Seconds of a core that decoding a byte takes: one in memory, or one of text.
    pub(crate) fn decoding_s_per_byte(&self, kind: DecodeKind) -> f64 {
        if let Some(known) = self.decoding.lock().get(&kind) {
            return known.value();
        }
        let assumed = self.assumed.lock();
        match kind {
            DecodeKind { is_text: true, .. } => assumed.text,
            DecodeKind { is_kept: true, .. } => assumed.parquet_kept,
            DecodeKind { is_kept: false, .. } => assumed.parquet,
        }
    }

    /// Begins with what was measured before of a storage, and of reading here.
    pub(crate) fn seed(&self, calibration: &Calibration) {
        self.storage(&calibration.node).lock().seed(&calibration.rates);
        let mut assumed = self.assumed.lock();
        match calibration.is_text() {
            true => assumed.text = calibration.rates.decode_s_per_byte,
            false => {
                assumed.parquet_kept = calibration.rates.decode_s_per_byte;
                assumed.parquet = assumed.parquet.min(assumed.parquet_kept);
            }
        }
    }

    /// Rates of a storage as queries have shown them so far, and of reading `table` here.
    pub(crate) fn rates(&self, label: &str, crosses_link: bool, (table, is_text): (u64, bool)) -> Rates {
        let decode_s_per_byte = self.decoding_s_per_byte(DecodeKind { table, is_text, is_kept: true });
        let rates = self.storage(label);
        let mut rates = rates.lock();
        rates.settle();
        Rates {
            bytes_per_s: crosses_link.then(|| rates.bytes_per_s()),
            round_trip_s: crosses_link.then(|| rates.round_trip_s()),
            slots: rates.slots(),
            slowness: rates.slowness(),
            decode_s_per_byte,
        }
    }

    /// Learns that decoding so many bytes, in memory or of text, took so long.
    pub(crate) fn decoded(&self, kind: DecodeKind, bytes: u64, took: Duration) {
        if bytes == 0 {
            return;
        }
        let mut known = self.decoding.lock();
        if known.len() >= TABLES_MAX && !known.contains_key(&kind) {
            known.clear();
        }
        known.entry(kind).or_insert(Estimate::assumed(0.0)).observe(took.as_secs_f64() / bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_storages_out_of_use_are_forgotten_when_there_are_many() {
        let model = RuntimeModel::default();
        for number in 0..=STORAGES_MAX {
            model.storage(&format!("node {number}"));
        }
        let used = model.storage("node 7");
        model.forget_storages(|| HashSet::from(["node 7".to_owned()]));
        assert_eq!(model.storages.read().len(), 1);
        assert!(Arc::ptr_eq(&used, &model.storage("node 7")));
        model.storage("node 8");
        model.forget_storages(HashSet::new);
        assert_eq!(model.storages.read().len(), 2, "they are few");
    }
}
