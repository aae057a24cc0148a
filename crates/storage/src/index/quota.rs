//! Bytes that index objects may take on disk: all of a node, and those of one owner.
//!
//! The owner of an index object is the client that first had it made: its address, and below it the tenant
//! that it names. It is kept in the file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::units::format_size;
use thermocline_pushdown::wire::ErrorKind;

/// Bytes of a node's index objects, by file.
///
/// Invariants: total = sum over files; owners = sums over files by owner.
#[derive(Debug)]
pub(super) struct Quota {
    bytes_max: u64,
    owner_bytes_max: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    files: HashMap<PathBuf, (Arc<str>, u64)>,
    owners: HashMap<Arc<str>, u64>,
    total: u64,
    /// Whether the files of earlier processes are counted.
    is_complete: bool,
}

impl Taken {
    fn remove(&mut self, path: &Path) {
        let Some((owner, bytes)) = self.files.remove(path) else { return };
        self.total = self.total.saturating_sub(bytes);
        if let Some(of_owner) = self.owners.get_mut(&owner) {
            *of_owner = of_owner.saturating_sub(bytes);
            if *of_owner == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    fn insert(&mut self, path: PathBuf, owner: Arc<str>, bytes: u64) {
        self.remove(&path);
        self.total += bytes;
        *self.owners.entry(Arc::clone(&owner)).or_default() += bytes;
        self.files.insert(path, (owner, bytes));
    }
}

impl Quota {
    pub(super) fn new(bytes_max: u64, owner_bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, owner_bytes_max, taken: Mutex::default() })
    }

    /// Counts files that are there already; `files` is asked for them once.
    pub(super) fn complete(&self, files: impl FnOnce() -> Vec<(PathBuf, String, u64)>) {
        if self.taken.lock().is_complete {
            return;
        }
        let files = files();
        let mut taken = self.taken.lock();
        if !std::mem::replace(&mut taken.is_complete, true) {
            for (path, owner, bytes) in files {
                taken.insert(path, owner.into(), bytes);
            }
        }
    }

    /// The file at `path` is gone.
    pub(super) fn forget(&self, path: &Path) {
        self.taken.lock().remove(path);
    }

    /// A claim of a file that is being written.
    pub(super) fn claim(self: &Arc<Self>, path: PathBuf, owner: &str) -> Claim {
        Claim { quota: Arc::clone(self), path, owner: owner.into() }
    }
}

/// Bytes of a file that is being written; given back if it is not finished.
#[derive(Debug)]
pub(crate) struct Claim {
    quota: Arc<Quota>,
    path: PathBuf,
    owner: Arc<str>,
}

impl Claim {
    /// The file has `bytes` bytes now.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if those are more than the node or the owner may have.
    pub(crate) fn grow_to(&self, bytes: u64) -> Result<(), NodeError> {
        let mut taken = self.quota.taken.lock();
        taken.insert(self.path.clone(), Arc::clone(&self.owner), bytes);
        let of_owner = taken.owners.get(&self.owner).copied().unwrap_or(0);
        let refused = |whose: &str, max: u64, option: &str| {
            let max = format_size(max);
            let why = format!("the index would pass the {max} that {whose}; drop indexes, or raise {option}");
            Err(NodeError::new(ErrorKind::Refused, why))
        };
        if of_owner > self.quota.owner_bytes_max {
            let whose = format!("indexes of '{}' may take on the storage node's disk", self.owner);
            return refused(&whose, self.quota.owner_bytes_max, "--index-limit-per-client");
        }
        if taken.total > self.quota.bytes_max {
            return refused("indexes may take on the storage node's disk", self.quota.bytes_max, "--index-limit");
        }
        Ok(())
    }

    /// The file is at `path` now and has `bytes` bytes, in place of an older one.
    pub(crate) fn finish(self, path: PathBuf, bytes: u64) {
        self.quota.taken.lock().insert(path, Arc::clone(&self.owner), bytes);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.quota.forget(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_for_the_node_and_for_their_owner() {
        let quota = Quota::new(100, 60);
        quota.complete(|| vec![("old".into(), "b".into(), 30)]);
        quota.complete(|| panic!("they are counted once"));
        let claim = quota.claim("a.partial".into(), "a");
        claim.grow_to(50).unwrap();
        let error = claim.grow_to(61).unwrap_err();
        assert!(error.message.contains("'a'") && error.message.contains("--index-limit-per-client"), "{error}");
        claim.grow_to(60).unwrap();
        claim.finish("a".into(), 60);
        let claim = quota.claim("b.partial".into(), "b");
        let error = claim.grow_to(11).unwrap_err();
        assert!(error.message.contains("raise --index-limit"), "{error}");
        drop(claim);
        quota.forget(Path::new("a"));
        let taken = quota.taken.lock();
        assert_eq!((taken.total, taken.files.len(), taken.owners.len()), (30, 1, 1));
    }
}
