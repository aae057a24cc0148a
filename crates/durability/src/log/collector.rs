//! Group commit: which records wait, when to write them, and which results clients may be told.

use thermocline_machine::ids::{Micros, Sequence};
use thermocline_types::{Error, Result};

use super::record::Batch;
use super::segment::{GROUP_BYTES_MAX, GROUP_HEADER_BYTES};

/// How records are put into groups and segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Longest time, in microseconds, that a record waits for others to share its sync. While a group is being written,
    /// the next one gathers in any case.
    pub commit_interval_us: u32,
    /// Bytes that are written without waiting for more.
    pub commit_bytes: usize,
    /// Bytes that may wait; beyond that, partitions wait for the disk.
    pub buffer_bytes_max: usize,
    /// Bytes after which the next group begins another file.
    pub segment_bytes: u64,
    /// Zeros appended behind the records of a segment at once, for the next groups to overwrite; 0 for none, 256 MiB at
    /// most. Syncing a file that has not grown takes half the time or less.
    pub room_bytes: u64,
    /// Whether results wait until they are durable. If not, a crash may lose results that clients were told during
    /// about the last interval; what remains is still a consistent earlier state.
    pub synchronous_commit: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            commit_interval_us: 200,
            commit_bytes: 1 << 20,
            buffer_bytes_max: 64 << 20,
            segment_bytes: 64 << 20,
            room_bytes: 1 << 20,
            synchronous_commit: true,
        }
    }
}

/// Size of a batch from which the buffer grows by no more than the batch needs.
const LARGE_BYTES: usize = 1 << 20;

/// When to write the next group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// At this moment, or earlier if more comes.
    At(Micros),
    /// Nothing waits, or a group is being written.
    Later,
}

/// The side of the log that partitions see.
///
/// ```text
///  append        take               done(Ok)
/// --------> open -----> in flight ----------> durable
///                           |
///                           | done(Err)
///                           +---------------> failed: no append and no take ever after
/// ```
///
/// Invariants:
/// - `durable <= in flight <= next - 1`; each of them only grows
/// - at most one group is in flight, so a group is written after all before it are durable
/// - `released() == durable`, or `next - 1` without synchronous commit, and stands still once failed
#[derive(Debug)]
pub struct Collector {
    settings: LogSettings,
    /// Room for a group's header, followed by the waiting records.
    open: Vec<u8>,
    /// Buffer of the last group, for the next but one.
    spare: Vec<u8>,
    open_records: u64,
    /// Arrival of the first of them; `None` if there are none.
    open_since: Option<Micros>,
    /// Whether a caller does not want to wait for the interval.
    hurry: bool,
    /// Last sequence of the group in flight; `None` if there is none.
    in_flight: Option<Sequence>,
    next: Sequence,
    /// Bytes of records since the start.
    appended_bytes: u64,
    durable: Sequence,
    released_on_failure: Option<(Sequence, Error)>,
}

/// Records on their way to the disk.
#[derive(Debug)]
pub struct PendingGroup {
    /// Room for a header, and the records.
    pub(super) bytes: Vec<u8>,
    /// The sequence of the first.
    pub(super) first: Sequence,
    /// The sequence of the last.
    pub(super) last: Sequence,
}

impl PendingGroup {
    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Collector {
    /// A collector whose first record gets this sequence; all records before it are durable.
    pub fn new(settings: LogSettings, next: Sequence) -> Self {
        Self {
            settings,
            open: vec![0; GROUP_HEADER_BYTES],
            spare: Vec::new(),
            open_records: 0,
            open_since: None,
            hurry: false,
            in_flight: None,
            next,
            appended_bytes: 0,
            durable: Sequence(next.0.saturating_sub(1)),
            released_on_failure: None,
        }
    }

    /// Takes a partition's records, empties the batch, and returns the sequence of the last record.
    ///
    /// The results of these transactions, and of those that only read, may be told when [`Collector::released`] has
    /// reached the returned sequence.
    ///
    /// Order: a partition appends its transactions in the order in which it ran them; a record of several partitions is
    /// appended once, after all earlier records of each of them and before any of them continues.
    pub fn append(&mut self, batch: &mut Batch, now: Micros) -> Result<Sequence> {
        self.check()?;
        if self.open.len() + batch.bytes() > GROUP_BYTES_MAX {
            return Err(Error::internal("the log's buffer is passed many times over; its limit was not asked for"));
        }
        if !batch.is_empty() {
            if batch.bytes() > LARGE_BYTES {
                // Reserves exactly what is charged; the buffer must not double.
                self.open.reserve_exact(batch.bytes());
            }
            self.open.extend_from_slice(batch.as_slice());
            self.open_records += u64::from(batch.records());
            self.appended_bytes += batch.bytes() as u64;
            self.next = self.next.plus(batch.records().into());
            self.open_since.get_or_insert(now);
            batch.clear();
        }
        Ok(self.appended())
    }

    /// When to [`take`](Self::take).
    pub fn due(&self, now: Micros) -> Due {
        let (Some(since), None, None) = (self.open_since, self.in_flight, &self.released_on_failure) else {
            return Due::Later;
        };
        let at = Micros(since.0.saturating_add(self.settings.commit_interval_us.into()));
        let full = self.open.len() >= self.settings.commit_bytes.saturating_add(GROUP_HEADER_BYTES) || self.is_full();
        if self.hurry || full || now >= at { Due::Now } else { Due::At(at) }
    }

    /// Has the waiting records written at the next opportunity.
    pub fn hurry(&mut self) {
        self.hurry = self.open_since.is_some();
    }

    /// Takes all waiting records; `None` if there are none, a group is in flight, or the log has failed.
    pub fn take(&mut self) -> Option<PendingGroup> {
        if self.open_since.is_none() || self.in_flight.is_some() || self.released_on_failure.is_some() {
            return None;
        }
        let mut open = std::mem::take(&mut self.spare);
        open.resize(GROUP_HEADER_BYTES, 0);
        let bytes = std::mem::replace(&mut self.open, open);
        let first = Sequence(self.next.0 - self.open_records);
        let last = self.appended();
        (self.open_records, self.open_since, self.hurry) = (0, None, false);
        self.in_flight = Some(last);
        Some(PendingGroup { bytes, first, last })
    }

    /// Notes that the group in flight is durable, or that its write or sync failed and it may never be.
    pub fn done(&mut self, group: PendingGroup, result: Result<()>) {
        debug_assert_eq!(self.in_flight, Some(group.last), "the group that was taken");
        self.in_flight = None;
        match result {
            Ok(()) => {
                self.durable = group.last;
                self.spare = group.bytes;
                self.spare.clear();
                // Gives back the memory of one huge transaction.
                self.spare.shrink_to(self.settings.commit_bytes.saturating_mul(2));
            }
            Err(error) => self.fail(error),
        }
    }

    /// Ends the log: it takes no more records and releases no more results.
    pub fn fail(&mut self, error: Error) {
        let released = self.released();
        self.released_on_failure.get_or_insert((released, error));
    }

    /// The error that ended the log.
    pub fn check(&self) -> Result<()> {
        self.released_on_failure.as_ref().map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// The last record that was appended.
    pub const fn appended(&self) -> Sequence {
        Sequence(self.next.0.saturating_sub(1))
    }

    /// Bytes of records since the start.
    pub const fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    /// Last sequence that is safe from a crash.
    pub const fn durable(&self) -> Sequence {
        self.durable
    }

    /// Last sequence whose results clients may be told.
    pub fn released(&self) -> Sequence {
        match &self.released_on_failure {
            Some((released, _)) => *released,
            None if self.settings.synchronous_commit => self.durable,
            None => self.appended(),
        }
    }

    /// Whether so much waits that no further transaction should run before some of it is written.
    pub fn is_full(&self) -> bool {
        // Half a group leaves room for appends of partitions that were not asked to wait.
        self.open.len() >= self.settings.buffer_bytes_max.min(GROUP_BYTES_MAX / 2)
    }

    /// Whether results wait until they are durable.
    pub const fn is_synchronous(&self) -> bool {
        self.settings.synchronous_commit
    }

    /// Whether this many bytes can be appended now: a group has a largest size, and one transaction may fill
    /// half of it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let fits = self.open_since.is_none() || self.open.len().saturating_add(bytes) <= GROUP_BYTES_MAX;
        fits && !self.is_full()
    }

    /// Bytes of memory in its buffers, without the group in flight.
    pub fn memory_bytes(&self) -> usize {
        self.open.capacity() + self.spare.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::tests::head;

    fn batch(records: usize) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..records {
            batch.definition(&head(&[]), "DROP TABLE t").unwrap();
        }
        batch
    }

    fn collector(settings: LogSettings) -> Collector {
        Collector::new(settings, Sequence(11))
    }

    #[test]
    fn a_group_waits_for_the_interval_or_the_size() {
        let record = batch(1).bytes();
        let settings = LogSettings { commit_interval_us: 100, commit_bytes: 3 * record, ..LogSettings::default() };
        let mut log = collector(settings);
        assert_eq!((log.due(Micros(0)), log.take().is_none()), (Due::Later, true));
        assert_eq!(log.append(&mut batch(1), Micros(1000)), Ok(Sequence(11)));
        assert_eq!(log.append(&mut batch(1), Micros(1050)), Ok(Sequence(12)));
        assert_eq!(log.due(Micros(1050)), Due::At(Micros(1100)));
        assert_eq!(log.due(Micros(1100)), Due::Now);
        assert_eq!(log.append(&mut batch(1), Micros(1060)), Ok(Sequence(13)));
        assert_eq!(log.due(Micros(1060)), Due::Now, "enough bytes");

        let group = log.take().unwrap();
        assert_eq!((group.first, group.last), (Sequence(11), Sequence(13)));
        assert_eq!(log.append(&mut batch(1), Micros(1070)), Ok(Sequence(14)));
        assert_eq!((log.due(Micros(9999)), log.take().is_none()), (Due::Later, true), "one group at a time");
        assert_eq!((log.durable(), log.released()), (Sequence(10), Sequence(10)));
        log.done(group, Ok(()));
        assert_eq!((log.durable(), log.released(), log.appended()), (Sequence(13), Sequence(13), Sequence(14)));
        assert_eq!(log.due(Micros(1071)), Due::At(Micros(1170)));
        log.hurry();
        assert_eq!(log.due(Micros(1071)), Due::Now);
    }

    #[test]
    fn without_synchronous_commit_results_do_not_wait() {
        let mut log = collector(LogSettings { synchronous_commit: false, ..LogSettings::default() });
        log.append(&mut batch(2), Micros(0)).unwrap();
        assert_eq!((log.released(), log.durable()), (Sequence(12), Sequence(10)));
    }

    #[test]
    fn a_failure_is_for_ever() {
        for synchronous_commit in [true, false] {
            let mut log = collector(LogSettings { synchronous_commit, ..LogSettings::default() });
            log.append(&mut batch(1), Micros(0)).unwrap();
            let group = log.take().unwrap();
            let released = log.released();
            log.done(group, Err(Error::Io("sync failed".into())));
            let error = Error::Io("sync failed".into());
            assert_eq!((log.append(&mut batch(1), Micros(0)), log.check()), (Err(error.clone()), Err(error)));
            log.fail(Error::Io("another".into()));
            assert!(log.check().unwrap_err().to_string().contains("sync failed"), "the first one");
            assert_eq!((log.durable(), log.released()), (Sequence(10), released));
            assert_eq!((log.due(Micros(i64::MAX)), log.take().is_none()), (Due::Later, true));
        }
    }

    #[test]
    fn a_full_buffer_says_so() {
        let mut log = collector(LogSettings { buffer_bytes_max: 1000, ..LogSettings::default() });
        while !log.is_full() {
            assert!(log.has_room(1) && !log.has_room(GROUP_BYTES_MAX - 10) || log.open_since.is_none());
            log.append(&mut batch(1), Micros(0)).unwrap();
        }
        assert!(!log.has_room(1));
        let group = log.take().unwrap();
        assert!(!log.is_full() && group.bytes.len() < 1200);
    }
}
