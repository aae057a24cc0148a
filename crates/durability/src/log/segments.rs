use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_machine::ids::Sequence;
use thermocline_types::{Error, Result};

use super::segment::SegmentNumber;
use crate::disk::Disk;

/// The segments of a log, for the writer, who begins them, and for whoever removes those that a snapshot covers:
/// unlinking files of many megabytes takes the disk longer than a group of records may wait. Cloning gives another
/// access.
///
/// Invariants:
/// - the list has no gap: segments are added behind, and taken off the front
/// - what is removed is older than the segment that the directory's control file names
#[derive(Debug, Clone)]
pub struct Segments {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// All of them, the current one included, with the sequence that each begins with.
    list: VecDeque<(SegmentNumber, Sequence)>,
    /// The segment that the directory says the log goes up to.
    told: Option<SegmentNumber>,
}

impl Shared {
    /// The oldest segment, if every record of it is one up to `covered` and it may go.
    fn covered(&self, covered: Sequence) -> Option<SegmentNumber> {
        let (oldest, _) = self.list.front()?;
        let (_, behind) = self.list.get(1)?;
        (Some(*oldest) < self.told && *behind <= covered.next()).then_some(*oldest)
    }
}

/// What became of removing segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Why one could not be removed; it stays, with those behind it, until the next removal. `None` if all were.
    pub kept: Option<Error>,
    /// Why it is not known what a crash would leave of the directory, so that the log has to end; `None` if it is.
    pub unsynced: Option<Error>,
}

impl Segments {
    /// The segments that there are; the last of them is the one that the directory names.
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

    /// Removes segments of which every record is in a snapshot of the state up to `covered`. The one that the
    /// directory says the log goes up to stays: behind it there may be a segment of which no record is durable yet.
    /// One caller at a time.
    ///
    /// # Errors
    /// If the directory cannot be read; nothing has happened then.
    pub fn remove_covered(&self, disk: &dyn Disk, covered: Sequence) -> Result<Removal> {
        let mut removal = Removal::default();
        if self.shared.lock().covered(covered).is_none() {
            return Ok(removal);
        }
        let present = disk.list()?;
        // From the oldest on, so that a crash in between leaves no gap. The lock is not held while the disk works.
        loop {
            let Some(oldest) = self.shared.lock().covered(covered) else { break };
            let name = oldest.file_name();
            // Somebody else may have removed it.
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
