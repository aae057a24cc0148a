//! The files of a storage node's index objects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use prost::Message;
use thermocline_pushdown::wire::{ErrorKind, Format, ObjectEntry};
use thermocline_pushdown::{FileFormat, NodeError};

use super::file::{IndexFile, Unusable};
use super::quota::{Claim, Quota};
use crate::Root;

/// Below a local ROOT, unless told otherwise. Hidden, so that it is never listed as data.
const DEFAULT_DIRECTORY: &str = ".thermocline/index";
/// Advice of the error where there is no place for index objects.
const ELSEWHERE: &str = "start the storage node with --index-dir DIR";
const EXTENSION: &str = "index";
/// Of files that are being written.
const ASIDE_EXTENSION: &str = "partial";
/// Files whose damage is remembered; which are forgotten does not matter.
const TROUBLES_MAX: usize = 10_000;

/// Place and limits of a node's index objects.
#[derive(Debug)]
pub(crate) struct IndexLimits {
    /// Directory outside of ROOT; `None` for the default one.
    pub(crate) directory: Option<PathBuf>,
    /// Longest time that building one may take; files of builds that began before that are left over.
    pub(crate) build_time_max: Duration,
    /// Bytes of all of them, and of those that one client has built.
    pub(crate) bytes_max: u64,
    pub(crate) bytes_per_client_max: u64,
}

/// What an index object is of, whatever the object's version: path, how its bytes encode rows, and
/// the column with its type. Two tables that read one object alike share its index objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity(String);

impl Identity {
    /// The identity of the index of `column` (a position in `schema`).
    pub(crate) fn new(path: &str, format: &FileFormat, schema: &SchemaRef, column: usize) -> Self {
        let dialect = Format::from(format).encode_to_vec();
        let dialect: String = dialect.iter().map(|byte| format!("{byte:02x}")).collect();
        let field = schema.fields().get(column);
        let (name, data_type) =
            field.map_or((String::new(), String::new()), |field| (field.name().clone(), field.data_type().to_string()));
        // The columns of Parquet are found by name, those of CSV by position or as the dialect says.
        let position = if matches!(format, FileFormat::Parquet) { 0 } else { column };
        Self(format!("{name:?} {data_type} ({position}) of {path:?}, {} {dialect}", format.name()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// FNV-1a of 128 bits. Names that collide are told apart by the identity in the file.
    fn hash(&self) -> u128 {
        self.0.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        })
    }
}

/// Where an index object is written.
#[derive(Debug, Clone)]
pub(crate) struct IndexPlace {
    /// Its name until it is complete.
    pub(crate) aside: PathBuf,
    /// Its name from then on.
    pub(crate) to: PathBuf,
    /// Owner of the file, for the quota.
    pub(crate) owner: String,
}

/// A node's index directory, and what is known of the files in it.
#[derive(Debug)]
pub(crate) struct IndexStore {
    /// The directory, or why there is none.
    place: Result<PathBuf, String>,
    /// Files that were found unusable, with the version that the object had then: told once, and not
    /// opened again if they are damaged.
    troubles: Mutex<HashMap<PathBuf, (String, Unusable)>>,
    quota: Arc<Quota>,
    /// Locks of files that are being built; a second builder waits and finds its file built.
    builders: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

impl IndexStore {
    /// The store of a node over `root`. An explicit `directory` is made now, and may be shared by
    /// nodes of several ROOTs; the default one is made with the first index.
    ///
    /// # Errors
    /// If `directory` cannot be made.
    pub(crate) fn new(root: &Root, limits: &IndexLimits) -> Result<Self, NodeError> {
        let place = match (limits.directory.as_deref(), root.directory()) {
            (Some(directory), _) => {
                let below = directory.join(format!("{:032x}", Identity(root.label().to_owned()).hash()));
                fs::create_dir_all(&below).map_err(|error| {
                    let why = format!("index directory {}: {error}", directory.display());
                    NodeError::new(ErrorKind::Refused, why)
                })?;
                Ok(below)
            }
            (None, Some(root)) => Ok(root.join(DEFAULT_DIRECTORY)),
            (None, None) => {
                Err(format!("{} is no directory, so its indexes need one of their own: {ELSEWHERE}", root.label()))
            }
        };
        if let Ok(place) = &place {
            remove_leftovers(place, limits.build_time_max);
        }
        let quota = Quota::new(limits.bytes_max, limits.bytes_per_client_max);
        Ok(Self { place, quota, troubles: Mutex::default(), builders: Mutex::default() })
    }

    /// Where the index object of `identity` is or would be; `None` if the node keeps none.
    pub(crate) fn path(&self, identity: &Identity) -> Option<PathBuf> {
        let place = self.place.as_ref().ok()?;
        Some(place.join(format!("{:032x}.{EXTENSION}", identity.hash())))
    }

    /// Where to write the index object of `identity`.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if there is no place that can be written.
    pub(crate) fn place_for(&self, identity: &Identity, owner: &str) -> Result<IndexPlace, NodeError> {
        let place = self.place.as_ref().map_err(|why| NodeError::new(ErrorKind::Refused, why))?;
        fs::create_dir_all(place).map_err(|error| {
            let why = format!("no index can be written to {}: {error}; {ELSEWHERE}", place.display());
            NodeError::new(ErrorKind::Refused, why)
        })?;
        // Nodes of one process may share the directory.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:032x}", identity.hash());
        let aside = place.join(format!("{name}-{:x}-{number:x}.{ASIDE_EXTENSION}", std::process::id()));
        Ok(IndexPlace { aside, to: place.join(format!("{name}.{EXTENSION}")), owner: owner.to_owned() })
    }

    /// A claim on the disk for the index object that is written to `place`.
    pub(crate) fn claim(&self, place: &IndexPlace) -> Claim {
        self.quota.complete(|| {
            let Ok(directory) = &self.place else { return vec![] };
            let Ok(entries) = fs::read_dir(directory) else { return vec![] };
            let indexes = entries.flatten().map(|entry| entry.path());
            let indexes = indexes.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
            let counted = |path: PathBuf| {
                let bytes = fs::metadata(&path).ok()?.len();
                let owner = IndexFile::owner(&path).unwrap_or_default();
                Some((path, owner, bytes))
            };
            indexes.filter_map(counted).collect()
        });
        self.quota.claim(place.aside.clone(), &place.owner)
    }

    /// The error of an index object that could not be written.
    pub(crate) fn not_written(&self, error: &io::Error) -> NodeError {
        let place = self.place.as_ref().map_or_else(|_| String::new(), |place| place.display().to_string());
        let denied = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let (kind, advice) = match (denied, full) {
            (true, _) => (ErrorKind::Refused, format!("; {ELSEWHERE}")),
            (_, true) => (ErrorKind::Refused, format!("; free some of its disk, or {ELSEWHERE}")),
            _ => (ErrorKind::Internal, String::new()),
        };
        NodeError::new(kind, format!("no index can be written to {place}: {error}{advice}"))
    }

    /// A lock whose holder is the only one in this node that builds the file.
    pub(crate) fn builder(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut builders = self.builders.lock();
        builders.retain(|_, builder| Arc::strong_count(builder) > 1);
        Arc::clone(builders.entry(path.to_owned()).or_default())
    }

    /// Opens the index object of `identity`; `None` if there is none.
    ///
    /// # Errors
    /// [`Unusable`] also if an earlier search found it so. The log says it the first time.
    pub(crate) fn open(&self, identity: &Identity, object: &ObjectEntry) -> Result<Option<IndexFile>, Unusable> {
        let Some(path) = self.path(identity) else {
            return Ok(None);
        };
        if let Some((version, why @ Unusable::Damaged(_))) = self.troubles.lock().get(&path)
            && *version == object.version
        {
            return Err(why.clone());
        }
        IndexFile::open(&path, identity, object).inspect_err(|why| self.unusable(&path, object, why))
    }

    /// Remembers what is wrong with a file, and says so once.
    pub(crate) fn unusable(&self, path: &Path, object: &ObjectEntry, why: &Unusable) {
        let trouble = (object.version.clone(), why.clone());
        let mut troubles = self.troubles.lock();
        if troubles.len() >= TROUBLES_MAX {
            troubles.clear();
        }
        if troubles.get(path) != Some(&trouble) {
            tracing::warn!("index object {} of {} is not used: {why}", path.display(), object.path);
            troubles.insert(path.to_owned(), trouble);
        }
    }

    /// The file at `path` is new.
    pub(crate) fn renewed(&self, path: &Path) {
        self.troubles.lock().remove(path);
    }

    /// Removes the index object of `identity`; `false` if there was none.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn remove(&self, identity: &Identity) -> Result<bool, NodeError> {
        let Some(path) = self.path(identity) else {
            return Ok(false);
        };
        self.renewed(&path);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.quota.forget(&path);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(NodeError::new(ErrorKind::Internal, format!("index object {}: {error}", path.display()))),
        }
    }
}

/// Removes what a process that died was writing. Younger files may be another process's.
fn remove_leftovers(place: &Path, after: Duration) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let age = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let old = age.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|age| age > after));
        if old && path.extension().is_some_and(|extension| extension == ASIDE_EXTENSION) {
            let _best_effort = fs::remove_file(&path);
        }
    }
}
