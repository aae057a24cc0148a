//! Files of blocks: which there are, and which of them snapshots refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_machine::ids::{PartitionId, Sequence};
use thermocline_tables::table::BlockNumber;
use thermocline_types::{Class, Error, Result};

use super::writer::SegmentWrites;
use crate::disk::Disk;

/// First part of the names of all files of blocks.
const PREFIX: &str = "blocks-";

/// A file of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Its partition.
    pub partition: PartitionId,
    /// Its number, which no other file of the directory has.
    pub number: u64,
}

impl Segment {
    /// Its name.
    pub fn file_name(self) -> String {
        format!("{PREFIX}{:05}-{:020}", self.partition.0, self.number)
    }

    /// The file of blocks with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let (partition, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let segment = Self { partition: PartitionId(partition.parse().ok()?), number: number.parse().ok()? };
        // Others would leave no number for the next file.
        (segment.file_name() == name && segment.number < 1 << 63).then_some(segment)
    }
}

/// The part of a file that a snapshot refers to: its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentExtent {
    /// The file.
    pub segment: Segment,
    /// Number of bytes.
    pub bytes: u64,
    /// CRC-32C of them.
    pub checksum: u32,
}

/// What a snapshot refers to of all blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Greater than the numbers of all blocks so far.
    pub next_block: BlockNumber,
    /// The files, in order.
    pub segments: Vec<SegmentExtent>,
}

impl References {
    /// The files that are missing or too short, each with its bytes, `None` if it is missing. Checksums are not compared.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn missing(&self, disk: &dyn Disk) -> Result<Vec<(SegmentExtent, Option<u64>)>> {
        let mut missing = Vec::new();
        if self.segments.is_empty() {
            return Ok(missing);
        }
        let there: BTreeSet<String> = disk.list()?.into_iter().collect();
        for extent in &self.segments {
            let name = extent.segment.file_name();
            let length = if there.contains(&name) { Some(disk.open(&name)?.length()?) } else { None };
            if length.is_none_or(|length| length < extent.bytes) {
                missing.push((*extent, length));
            }
        }
        Ok(missing)
    }
}

/// Where the bytes of a segment are from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// An earlier process; nothing follows them.
    Earlier(SegmentExtent),
    /// This process.
    Written(Arc<SegmentWrites>),
}

/// The files of all partitions' blocks.
///
/// ```text
///  used by a store --its last row has left--+--> no snapshot refers to it: removed
///                                           |                 ^
///                                           +--> kept --------+ a later snapshot, which does not, is complete
/// ```
///
/// Invariant: a file that a complete snapshot refers to, or one in progress, is not removed, nor are the bytes changed
/// that it refers to.
#[derive(Debug)]
pub struct BlockFiles {
    disk: Arc<dyn Disk>,
    next_block: AtomicU64,
    next_segment: AtomicU64,
    replay_reads: AtomicU64,
    /// Whether they are of a database that is copied: then none is removed.
    is_copied: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The files that snapshots refer to, complete or in progress, and the number of bytes.
    snapshots: BTreeMap<Sequence, BTreeMap<Segment, (Source, u64)>>,
    /// Files with rows of this process.
    used: BTreeSet<Segment>,
    /// Files of earlier processes to which the snapshot does not refer.
    left: Vec<Segment>,
    /// Bytes of the files without rows that stay because a snapshot refers to them: the sum of
    /// [`State::kept_bytes_of`].
    kept_bytes: u64,
}

impl State {
    fn is_referred_to(&self, segment: Segment) -> bool {
        self.snapshots.values().any(|snapshot| snapshot.contains_key(&segment))
    }

    /// Bytes of a file that has no rows and stays for a snapshot, as far as the last one of them refers to it; 0 of
    /// another file.
    fn kept_bytes_of(&self, segment: Segment) -> u64 {
        if self.used.contains(&segment) {
            return 0;
        }
        let mut snapshots = self.snapshots.values().rev();
        snapshots.find_map(|snapshot| snapshot.get(&segment)).map_or(0, |(_, bytes)| *bytes)
    }

    /// Changes what is known of a file.
    fn change(&mut self, segment: Segment, change: impl FnOnce(&mut Self)) {
        self.kept_bytes -= self.kept_bytes_of(segment);
        change(self);
        self.kept_bytes += self.kept_bytes_of(segment);
    }

    /// Sums up all files.
    fn sum_kept_bytes(&self) -> u64 {
        let referred_to: BTreeSet<Segment> = self.snapshots.values().flat_map(BTreeMap::keys).copied().collect();
        referred_to.into_iter().map(|segment| self.kept_bytes_of(segment)).sum()
    }

    /// The extent of a file that an earlier process has written.
    fn extent(&self, segment: Segment) -> Option<SegmentExtent> {
        self.snapshots.values().find_map(|snapshot| match snapshot.get(&segment) {
            Some((Source::Earlier(extent), _)) => Some(*extent),
            _ => None,
        })
    }
}

impl BlockFiles {
    /// The files in a directory, of which the newest snapshot refers to some. Changes nothing.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(disk: Arc<dyn Disk>, snapshot: Option<(Sequence, &References)>) -> Result<Arc<Self>> {
        Self::opened(disk, snapshot, false)
    }

    /// The files of a database that is to be copied, to which its newest snapshot refers, as [`BlockFiles::open`], but
    /// none is ever removed.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open_to_copy(disk: Arc<dyn Disk>, references: Option<&References>) -> Result<Arc<Self>> {
        // No copy has this position: a copy refers to what it needs of them.
        Self::opened(disk, references.map(|references| (Sequence::ZERO, references)), true)
    }

    fn opened(disk: Arc<dyn Disk>, snapshot: Option<(Sequence, &References)>, is_copied: bool) -> Result<Arc<Self>> {
        let mut state = State::default();
        let next_block = snapshot.map_or(0, |(_, references)| references.next_block.0);
        if let Some((position, references)) = snapshot {
            let held = references.segments.iter();
            let held = held.map(|extent| (extent.segment, (Source::Earlier(*extent), extent.bytes)));
            state.snapshots.insert(position, held.collect());
        }
        let there: Vec<Segment> = disk.list()?.iter().filter_map(|name| Segment::of_name(name)).collect();
        let held = snapshot.iter().flat_map(|(_, references)| references.segments.iter().map(|extent| extent.segment));
        let last = there.iter().copied().chain(held).map(|segment| segment.number).max().unwrap_or(0);
        state.left = there.into_iter().filter(|segment| !state.is_referred_to(*segment)).collect();
        state.kept_bytes = state.sum_kept_bytes();
        let (next_block, next_segment) = (AtomicU64::new(next_block), AtomicU64::new(last + 1));
        let replay_reads = AtomicU64::new(0);
        Ok(Arc::new(Self { disk, next_block, next_segment, replay_reads, is_copied, state: Mutex::new(state) }))
    }

    /// Removes files that earlier processes have left, and that no snapshot needs. A file that cannot be removed does
    /// no harm.
    pub fn remove_left(&self) {
        let left = std::mem::take(&mut self.state.lock().left);
        for segment in left {
            // The next start tries again.
            let _stays = self.remove(segment);
        }
    }

    fn remove(&self, segment: Segment) -> Result<()> {
        if self.is_copied { Ok(()) } else { self.disk.remove(&segment.file_name()) }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// A number for a block: greater than all so far.
    pub(super) fn take_block_number(&self) -> Result<BlockNumber> {
        let number = BlockNumber(self.next_block.fetch_add(1, Ordering::Relaxed));
        if number > BlockNumber::MAX {
            return Err(Class::LimitExceeded.error("the database has no block number left"));
        }
        Ok(number)
    }

    /// A number greater than those of all blocks so far.
    pub(super) fn next_block(&self) -> BlockNumber {
        BlockNumber(self.next_block.load(Ordering::Relaxed))
    }

    pub(super) fn take_segment_number(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    /// The part of an earlier process's file that the snapshot refers to.
    pub(super) fn extent(&self, segment: Segment) -> Option<SegmentExtent> {
        self.state.lock().extent(segment)
    }

    /// Bytes of the files without rows that stay because a snapshot refers to them.
    pub fn kept_bytes(&self) -> u64 {
        let state = self.state.lock();
        debug_assert_eq!(state.kept_bytes, state.sum_kept_bytes(), "each change of a file is counted");
        state.kept_bytes
    }

    /// Rows that logged transactions of this process, and those of its replay, have changed or waited for after they
    /// were in blocks at the snapshot before: a replay would read each of them. Only grows.
    pub fn replay_reads(&self) -> u64 {
        self.replay_reads.load(Ordering::Relaxed)
    }

    pub(super) fn add_replay_reads(&self, rows: u64) {
        self.replay_reads.fetch_add(rows, Ordering::Relaxed);
    }

    /// Notes that a snapshot refers to a file's first bytes, as many as this at least.
    pub(super) fn refer(&self, snapshot: Sequence, segment: Segment, (source, bytes): (&Source, u64)) {
        self.state.lock().change(segment, |state| {
            let held = state.snapshots.entry(snapshot).or_default();
            let (_, most) = held.entry(segment).or_insert_with(|| (source.clone(), 0));
            *most = bytes.max(*most);
        });
    }

    /// Notes that a file has rows.
    pub(super) fn use_segment(&self, segment: Segment) {
        self.state.lock().change(segment, |state| {
            state.used.insert(segment);
        });
    }

    /// Removes a file that has no rows any more, once no snapshot refers to it.
    ///
    /// # Errors
    /// If it cannot be removed; it is forgotten all the same.
    pub(super) fn let_go(&self, segment: Segment) -> Result<()> {
        let mut state = self.state.lock();
        state.change(segment, |state| {
            state.used.remove(&segment);
        });
        if state.is_referred_to(segment) {
            return Ok(());
        }
        drop(state);
        self.remove(segment)
    }

    /// What a snapshot refers to, which outlasts a crash from now on.
    ///
    /// # Errors
    /// If a block to which it refers could not be written.
    pub(crate) fn sync(&self, snapshot: Sequence) -> Result<References> {
        let held = self.state.lock().snapshots.get(&snapshot).cloned().unwrap_or_default();
        let extents = held.into_iter().map(|(segment, (source, least))| {
            let extent = match source {
                Source::Earlier(extent) => extent,
                Source::Written(writes) => {
                    let (bytes, checksum) = writes.sync()?;
                    SegmentExtent { segment, bytes, checksum }
                }
            };
            if extent.bytes < least {
                return Err(Error::Io(format!("a block of {} could not be written", segment.file_name()).into()));
            }
            Ok(extent)
        });
        let segments = extents.collect::<Result<_>>()?;
        Ok(References { next_block: self.next_block(), segments })
    }

    /// Removes files to which only earlier snapshots refer: this one has replaced them.
    ///
    /// # Errors
    /// If one cannot be removed; it is forgotten all the same.
    pub(crate) fn completed(&self, snapshot: Sequence) -> Result<()> {
        self.forget(|state| {
            let kept = state.snapshots.split_off(&snapshot);
            std::mem::replace(&mut state.snapshots, kept).into_values().collect()
        })
    }

    /// Forgets what a snapshot refers to that was given up.
    ///
    /// # Errors
    /// As of [`BlockFiles::completed`].
    pub(crate) fn abandoned(&self, snapshot: Sequence) -> Result<()> {
        self.forget(|state| state.snapshots.remove(&snapshot).into_iter().collect())
    }

    /// Removes the files of forgotten snapshots that nothing needs.
    fn forget(&self, take: impl FnOnce(&mut State) -> Vec<BTreeMap<Segment, (Source, u64)>>) -> Result<()> {
        let mut state = self.state.lock();
        let forgotten: BTreeSet<Segment> = take(&mut state).into_iter().flat_map(BTreeMap::into_keys).collect();
        state.kept_bytes = state.sum_kept_bytes();
        let is_needed = |segment: &Segment| state.used.contains(segment) || state.is_referred_to(*segment);
        let not_needed: Vec<Segment> = forgotten.into_iter().filter(|segment| !is_needed(segment)).collect();
        drop(state);
        let mut removed = Ok(());
        for segment in not_needed {
            removed = self.remove(segment).and(removed);
        }
        removed
    }
}
