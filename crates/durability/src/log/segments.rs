//! The list of a log's segments, and the removal of those that a snapshot covers.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::Sequence;
use thermocline_types::{Error, Result};

use super::segment::SegmentNumber;
use crate::disk::Disk;

/// The segments of a log, shared by the writer, which adds them, and the thread that removes those covered by a
/// snapshot: unlinking files of many megabytes takes longer than a group of records may wait. Clones share the list.
///
/// Invariants:
/// - the list has no gap: segments are appended, and removed from the front
/// - removed segments are older than the one that the directory's control file names
#[derive(Debug, Clone)]
pub struct Segments {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// All segments including the current one, each with its first sequence.
    list: VecDeque<(SegmentNumber, Sequence)>,
    /// The segment that the control file names.
    told: Option<SegmentNumber>,
}

impl Shared {
    /// The oldest segment, if all of its records are at or before `covered` and it may be removed.
    fn covered(&self, covered: Sequence) -> Option<SegmentNumber> {
        let (oldest, _) = self.list.front()?;
        let (_, behind) = self.list.get(1)?;
        (Some(*oldest) < self.told && *behind <= covered.next()).then_some(*oldest)
    }
}

/// Result of removing segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Why one could not be removed; it and the later ones stay until the next removal. `None` if all were removed.
    pub kept: Option<Error>,
    /// Why it is unknown which names a crash would leave, so that the log has to end; `None` if it is known.
    pub unsynced: Option<Error>,
}

impl Segments {
    /// The existing segments; the control file names the last.
    pub(super) fn new(list: VecDeque<(SegmentNumber, Sequence)>) -> Self {
        let told = list.back().map(|(last, _)| *last);
        Self { shared: Arc::new(Mutex::new(Shared { list, told })) }
    }

    pub(super) fn begin(&self, segment: SegmentNumber, first: Sequence) {
        self.shared.lock().list.push_back((segment, first));
    }

    pub(super) fn told(&self) -> Option<SegmentNumber> {
        self.shared.lock().told
    }

    pub(super) fn tell(&self, segment: SegmentNumber) {
        self.shared.lock().told = Some(segment);
    }

    pub(super) fn list(&self) -> Vec<(SegmentNumber, Sequence)> {
        self.shared.lock().list.iter().copied().collect()
    }

    /// Removes segments whose records are all in a snapshot of the state up to `covered`. The segment that the control
    /// file names stays: the one behind it may not have a durable record yet. Only one caller at a time.
    ///
    /// # Errors
    /// If the directory cannot be read; nothing has been removed then.
    pub fn remove_covered(&self, disk: &dyn Disk, covered: Sequence) -> Result<Removal> {
        let mut removal = Removal::default();
        if self.shared.lock().covered(covered).is_none() {
            return Ok(removal);
        }
        let present = disk.list()?;
        // Oldest first, so that a crash in between leaves no gap. The lock is not held during I/O.
        loop {
            let Some(oldest) = self.shared.lock().covered(covered) else { break };
            let name = oldest.file_name();
            // A segment that is gone already does not keep the later ones.
            if present.contains(&name)
                && let Err(error) = disk.remove(&name)
            {
                removal.kept = Some(error);
                break;
            }
            self.shared.lock().list.pop_front();
        }
        removal.unsynced = disk.sync_directory().err();
        Ok(removal)
    }
}
