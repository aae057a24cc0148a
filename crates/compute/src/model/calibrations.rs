//! A database's calibrations, and their use once the storage is known to be what it was.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use thermocline_storage::NodeClient;

use super::calibration::{Calibration, CalibrationFile, CalibrationFileError, HereIdentity, NodeIdentity};
use super::runtime_model::RuntimeModel;

/// Longest wait for a storage to say what it is, and time after which one that did not is asked again.
const STATUS_WAIT: Duration = Duration::from_secs(2);
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// Whether a calibration is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrationState {
    /// No table at the storage was planned with yet.
    Unchecked,
    /// The model began with it.
    Used,
    /// The storage or this side has changed: how.
    Refused(String),
}

/// What became of asking a storage what it is.
#[derive(Debug)]
enum Check {
    /// Not to be asked before then: another plan has asked it, or it did not answer.
    NotBefore(Instant),
    /// How it has changed since it was calibrated; empty if it has not.
    Done(Vec<String>),
}

/// Calibrations of the storages of a database.
#[derive(Debug, Default)]
pub struct Calibrations {
    /// `None` for a database in memory.
    file: Option<CalibrationFile>,
    /// Why the calibrations in the file are not known; `None` if they are.
    unread: Option<CalibrationFileError>,
    records: RwLock<Vec<Calibration>>,
    /// Whether the model begins without them from now on.
    set_aside: AtomicBool,
    /// By storage and format.
    checks: Mutex<HashMap<(String, String), Check>>,
}

impl Calibrations {
    /// Those of the database in `directory`. A file that is damaged, of a newer version or unreadable is a warning, and
    /// there are none.
    pub(crate) fn open(directory: Option<&Path>) -> Self {
        let file = directory.map(CalibrationFile::of);
        let (records, unread) = match file.as_ref().map(CalibrationFile::read) {
            None => (vec![], None),
            Some(Ok(records)) => (records, None),
            Some(Err(error)) => {
                tracing::warn!("calibrations are not used: {error}; {}", error.remedy());
                (vec![], Some(error))
            }
        };
        Self { file, unread, records: RwLock::new(records), ..Self::default() }
    }

    /// All of them, with their states.
    pub fn all(&self) -> Vec<(Calibration, CalibrationState)> {
        let records = self.records.read().clone();
        let checks = self.checks.lock();
        let state = |record: &Calibration| match checks.get(&key(record)) {
            None | Some(Check::NotBefore(_)) => CalibrationState::Unchecked,
            Some(Check::Done(changes)) if changes.is_empty() => CalibrationState::Used,
            Some(Check::Done(changes)) => CalibrationState::Refused(changes.join(", ")),
        };
        records.into_iter().map(|record| (record.clone(), state(&record))).collect()
    }

    /// Keeps a calibration in place of the one of the same storage and format. It is used when the database is opened
    /// again. Others that a damaged file had are gone.
    ///
    /// # Errors
    /// Those of [`Calibrations::check_keeps`], or if the file cannot be written; then the old one stays.
    pub fn keep(&self, calibration: Calibration) -> io::Result<()> {
        let file = self.check_keeps()?;
        let mut records = self.records.write();
        let mut next = records.clone();
        next.retain(|known| key(known) != key(&calibration));
        next.push(calibration);
        file.write(&next)?;
        *records = next;
        Ok(())
    }

    /// The file, if calibrations can be kept in it.
    ///
    /// # Errors
    /// If the database is in memory, or if the file is of a newer version or unreadable: to replace it would lose what
    /// others can read.
    pub fn check_keeps(&self) -> io::Result<&CalibrationFile> {
        let unsupported = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
        match (&self.file, &self.unread) {
            (None, _) => Err(unsupported("a database in memory keeps no calibration".to_owned())),
            (Some(_), Some(error)) if !error.is_replaceable() => {
                Err(unsupported(format!("{error}; it is not replaced: {}", error.remedy())))
            }
            (Some(file), _) => Ok(file),
        }
    }

    /// Uses none of them from now on: storages are being measured again.
    pub fn set_aside(&self) {
        self.set_aside.store(true, Ordering::Relaxed);
    }

    /// Has the model begin with what was measured of `node`, once, if `node` and this side are what they were. A storage that
    /// does not answer is asked again a minute later; plans that come meanwhile do not wait for it.
    pub(crate) async fn seed(&self, node: &NodeClient, model: &RuntimeModel) {
        if self.set_aside.load(Ordering::Relaxed) {
            return;
        }
        let of_node: Vec<Calibration> =
            self.records.read().iter().filter(|record| record.node == node.label()).cloned().collect();
        for record in of_node {
            if !self.may_ask(&record) {
                continue;
            }
            match self.changes(&record, node).await {
                Ok(changes) => {
                    match changes.is_empty() {
                        true => model.seed(&record),
                        false => self.warn(&record, &changes),
                    }
                    self.checks.lock().insert(key(&record), Check::Done(changes));
                }
                Err(error) => tracing::debug!(node = node.label(), "calibration not checked: {error}"),
            }
        }
    }

    /// Whether to ask the storage of `record` now; nobody else does for a while.
    fn may_ask(&self, record: &Calibration) -> bool {
        let now = Instant::now();
        let mut checks = self.checks.lock();
        let may_ask = match checks.get(&key(record)) {
            None => true,
            Some(Check::NotBefore(then)) => *then <= now,
            Some(Check::Done(_)) => false,
        };
        if may_ask {
            checks.insert(key(record), Check::NotBefore(now + ASKED_AGAIN));
        }
        may_ask
    }

    /// How `node` and this side differ from what they were.
    async fn changes(&self, record: &Calibration, node: &NodeClient) -> Result<Vec<String>, String> {
        let status = tokio::time::timeout(STATUS_WAIT, node.status()).await.map_err(|_| "no answer".to_owned())?;
        let status = status.map_err(|error| error.to_string())?;
        let now = status.as_ref().and_then(NodeIdentity::of);
        let mut changes = match (&record.identity, &now) {
            (Some(before), Some(now)) => before.changes(now),
            (None, None) => vec![],
            (Some(before), None) => vec![format!("version {} -> one that is not told", before.version)],
            (None, Some(now)) => vec![format!("version not told -> {}", now.version)],
        };
        let here = record.here.changes(&HereIdentity::current());
        changes.extend(here.into_iter().map(|change| format!("{change} on this side")));
        Ok(changes)
    }

    fn warn(&self, record: &Calibration, changes: &[String]) {
        let directory = self.file.as_ref().and_then(|file| file.path().parent());
        let directory = directory.map_or_else(|| "DB".to_owned(), |directory| directory.display().to_string());
        tracing::warn!(
            "the calibration of storage node {} is not used, because it has changed: {}; renew it with: {}",
            record.node,
            changes.join(", "),
            record.command(&directory)
        );
    }
}

fn key(record: &Calibration) -> (String, String) {
    (record.node.clone(), record.format.clone())
}

#[cfg(test)]
mod tests {
    use thermocline_storage::{NodeConfig, Root, StorageNode};

    use super::super::calibration::{CALIBRATION_FILE, calibration};
    use super::super::runtime_model::DecodeKind;
    use super::super::storage_rates::Probe;
    use super::*;

    fn node(directory: &Path, slots: usize) -> NodeClient {
        let config = NodeConfig { pushdown_slots: slots, egress: Some(25_000_000), ..NodeConfig::default() };
        NodeClient::embedded(StorageNode::new(Root::open(directory.to_str().unwrap()).unwrap(), config).unwrap())
    }

    #[tokio::test]
    async fn a_node_that_is_what_it_was_seeds_the_model_and_another_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let client = node(directory.path(), 3);
        let identity = NodeIdentity::of(&client.status().await.unwrap().unwrap());
        assert!(identity.is_some());
        let kept = Calibrations::open(Some(directory.path()));
        kept.keep(Calibration { identity, ..calibration(client.label()) }).unwrap();

        let reopened = Calibrations::open(Some(directory.path()));
        assert_eq!(reopened.all()[0].1, CalibrationState::Unchecked);
        let model = RuntimeModel::default();
        reopened.seed(&client, &model).await;
        assert_eq!(reopened.all()[0].1, CalibrationState::Used);
        let rates = model.rates(client.label(), true, (1, false));
        assert_eq!(rates, calibration("").rates);
        assert!(Probe::begin(&model.storage(client.label()), false).is_none(), "the link is known");
        let decoding = |is_text| model.decoding_s_per_byte(DecodeKind { table: 1, is_text, is_kept: true });
        assert_eq!(decoding(false), 0.5e-8);
        assert_ne!(decoding(true), 0.5e-8, "text was not measured");

        let changed = Calibrations::open(Some(directory.path()));
        let model = RuntimeModel::default();
        changed.seed(&node(directory.path(), 4), &model).await;
        assert_eq!(changed.all()[0].1, CalibrationState::Refused("pushdown slots 3 -> 4".into()));
        assert!(Probe::begin(&model.storage(client.label()), false).is_some(), "nothing is known");
    }

    #[test]
    fn one_is_kept_for_each_storage_and_format() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Calibrations::open(Some(directory.path()));
        let csv = Calibration { format: "csv".into(), ..calibration("a") };
        for record in [calibration("a"), calibration("b"), csv, Calibration { taken_at: 7, ..calibration("a") }] {
            kept.keep(record).unwrap();
        }
        let all = Calibrations::open(Some(directory.path())).all();
        let times: Vec<_> = all.iter().map(|(one, _)| (one.node.as_str(), one.format.as_str(), one.taken_at)).collect();
        assert_eq!(times, [("b", "parquet", 1_700_000_000), ("a", "csv", 1_700_000_000), ("a", "parquet", 7)]);
        assert!(Calibrations::open(None).keep(calibration("a")).is_err());
    }

    #[test]
    fn a_damaged_file_leaves_the_defaults() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CALIBRATION_FILE), "x").unwrap();
        let damaged = Calibrations::open(Some(directory.path()));
        assert!(damaged.all().is_empty());
        damaged.keep(calibration("a")).unwrap();
        assert_eq!(Calibrations::open(Some(directory.path())).all().len(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CALIBRATION_FILE);
        let refused = |part: &str| {
            let kept = Calibrations::open(Some(directory.path()));
            assert!(kept.all().is_empty());
            let error = kept.keep(calibration("a")).unwrap_err().to_string();
            assert!([CALIBRATION_FILE, part, "not replaced"].iter().all(|part| error.contains(part)), "{error}");
        };
        let newer = "thermocline calibration 2 sha256 0\n[]\n";
        std::fs::write(&path, newer).unwrap();
        refused("newer version");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
        // A link to itself cannot be read, but could be renamed over.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        refused("cannot be read");
        assert!(path.is_symlink());
        // Moved away, it is no obstacle.
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        Calibrations::open(Some(directory.path())).keep(calibration("a")).unwrap();
    }
}
