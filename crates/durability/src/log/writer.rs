//! The part of the log that writes to the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline_machine::ids::{Identity, Sequence};
use thermocline_types::{Error, Result};

use super::collector::PendingGroup;
use super::control::{Control, LogExtent};
use super::segment::{ROOM_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentNumber, end_of_segment, seal_group};
use super::segments::Segments;
use crate::Semantics;
use crate::disk::{AppendFile, Disk};

/// Writes groups into segments.
///
/// ```text
///        write             write, segment full                                  sync
/// (new) -------> segment n -------------------> seal n, sync n, create n + 1 --------> durable
/// ```
///
/// Invariants:
/// - only zeros follow the groups of a segment, fewer than the room made at once
/// - only the last segment has no seal; a segment is created after the seal of the one before it is durable, and its
///   header is durable before anything follows it
/// - a group is written after the one before it is durable
/// - after an error nothing more is written
/// - when a group is durable the directory's [`Control`] names its segment, unless writing that was the error after
///   which nothing more is written; when the log is closed it says that the segment has ended
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    identity: Identity,
    segment_bytes: u64,
    /// Zeros appended after a group that has used up the earlier ones.
    room_bytes: u64,
    current: Option<Current>,
    next_segment: SegmentNumber,
    /// The sequence of the next record.
    next: Sequence,
    segments: Segments,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Current {
    file: Box<dyn AppendFile>,
    segment: SegmentNumber,
    bytes: u64,
    /// Bytes of the file, room included.
    end: u64,
    /// Whether a group was written since the last sync.
    written: bool,
}

impl Current {
    fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.written = false;
        Ok(())
    }

    /// Makes room behind a group that has used up the earlier room, but not beyond the segment's size: a segment that
    /// ends because it is full has no room left.
    ///
    /// Errors are ignored, because the log does not need room: if the file is at fault, the next write or sync fails.
    fn make_room(&mut self, bytes: u64, segment_bytes: u64) {
        let room = bytes.min(segment_bytes.saturating_sub(self.bytes));
        if self.bytes >= self.end && room > 0 && self.file.make_room(room).is_ok() {
            self.end = self.bytes + room;
        }
    }
}

/// Where a log continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The sequence of the next record.
    pub next: Sequence,
    /// The number of the next segment.
    pub next_segment: SegmentNumber,
    /// Existing segments, all sealed and durable, each with its first sequence. If there are any, the directory's
    /// [`Control`] names the last.
    pub segments: VecDeque<(SegmentNumber, Sequence)>,
}

impl LogEnd {
    /// End of the log of a new database.
    pub const fn empty() -> Self {
        Self { next: Sequence(1), next_segment: SegmentNumber::FIRST, segments: VecDeque::new() }
    }
}

impl Writer {
    /// A writer that continues after `end` in a segment of its own, which is created with the first group.
    pub fn new(disk: Arc<dyn Disk>, identity: Identity, segment_bytes: u64, end: LogEnd) -> Self {
        let LogEnd { next, next_segment, segments } = end;
        let segments = Segments::new(segments);
        let (room_bytes, current, failed) = (0, None, None);
        Self { disk, identity, segment_bytes, room_bytes, current, next_segment, next, segments, failed }
    }

    /// Makes [room](super::LogSettings::room_bytes) in its segments.
    #[must_use]
    pub fn with_room(mut self, bytes: u64) -> Self {
        self.room_bytes = bytes.min(ROOM_BYTES_MAX);
        self
    }

    /// Writes a group; it is durable after the next [`sync`](Self::sync).
    pub fn write(&mut self, group: &mut PendingGroup) -> Result<()> {
        self.guard(|writer| writer.try_write(group))
    }

    /// Makes the written groups durable, and names their segment in the directory once, so that it is missed when it
    /// is gone. If only that fails, the groups are durable all the same, so they succeed, and the log ends after them.
    pub fn sync(&mut self) -> Result<()> {
        let segment = self.guard(|writer| {
            let Some(current) = &mut writer.current else { return Ok(None) };
            current.sync()?;
            Ok(Some(current.segment).filter(|segment| writer.segments.told() != Some(*segment)))
        })?;
        if let Some(segment) = segment {
            // The next write returns the error.
            let _ = self.guard(|writer| writer.tell(LogExtent::UpTo(segment), segment));
        }
        Ok(())
    }

    /// Seals the log, so that the next start knows that it ended and is whole.
    pub fn close(&mut self) -> Result<()> {
        self.guard(|writer| {
            let Some(segment) = writer.current.as_ref().map(|current| current.segment) else { return Ok(()) };
            writer.end_segment()?;
            writer.tell(LogExtent::Ended(segment), segment)
        })
    }

    /// Removes segments whose records are all in a snapshot of the state up to `covered`, like
    /// [`Segments::remove_covered`]; failing to remove one does not end the log.
    pub fn remove_covered(&mut self, covered: Sequence) -> Result<()> {
        self.check()?;
        let removal = self.segments.remove_covered(&*self.disk, covered)?;
        self.guard(|_| removal.unsynced.map_or(Ok(()), Err))?;
        removal.kept.map_or(Ok(()), Err)
    }

    /// The error that has ended the log.
    pub fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The existing segments, each with its first sequence.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentNumber, Sequence)> {
        self.segments.list().into_iter()
    }

    /// Its disk.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// The existing segments, shared with the thread that removes them.
    pub fn shared_segments(&self) -> Segments {
        self.segments.clone()
    }

    fn guard<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check()?;
        let result = work(self);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.current = None;
        }
        result
    }

    fn try_write(&mut self, group: &mut PendingGroup) -> Result<()> {
        if group.first != self.next {
            return Err(Error::internal(format_args!("group {} comes where {} should", group.first, self.next)));
        }
        if self.current.as_ref().is_some_and(|current| current.written) {
            return Err(Error::internal("a group is written before the one before it is durable"));
        }
        if self.current.as_ref().is_some_and(|current| current.bytes >= self.segment_bytes) {
            self.end_segment()?;
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let current = Self::begin_segment(&*self.disk, self.identity, self.next_segment, self.next)?;
                self.segments.begin(self.next_segment, self.next);
                self.next_segment = self.next_segment.next();
                self.current.insert(current)
            }
        };
        seal_group(&mut group.bytes, current.segment, group.first);
        current.file.append(&group.bytes)?;
        current.written = true;
        current.bytes += group.bytes.len() as u64;
        current.make_room(self.room_bytes, self.segment_bytes);
        self.next = group.last.next();
        Ok(())
    }

    fn begin_segment(disk: &dyn Disk, identity: Identity, segment: SegmentNumber, first: Sequence) -> Result<Current> {
        let mut file = disk.create(&segment.file_name())?;
        file.append(&SegmentHeader { identity, segment, first, semantics: Semantics::CURRENT }.to_bytes())?;
        // So that an incomplete header implies that nothing follows it.
        file.sync()?;
        disk.sync_directory()?;
        Ok(Current { file, segment, bytes: SEGMENT_HEADER_BYTES as u64, end: 0, written: false })
    }

    /// Writes to the directory how far the log goes, which is to `segment`.
    fn tell(&mut self, log: LogExtent, segment: SegmentNumber) -> Result<()> {
        Control { identity: self.identity, log }.write(&*self.disk)?;
        self.segments.tell(segment);
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some(mut current) = self.current.take() {
            current.file.append(&end_of_segment(current.segment, self.next))?;
            current.sync()?;
        }
        Ok(())
    }
}
