use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory that a node may take: rows, indexes and locators, and what is needed while it runs.
///
/// Every structure of a table asks before it grows ([`Budget::check`]) and tells its size afterwards
/// ([`Budget::resize`]). It asks only when it needs another arena or a larger table, never per row,
/// so one counter for all partitions costs nothing. Working memory ([`Working`]) is told when a buffer
/// gets another capacity, not for each use of it.
///
/// Invariants: `used` is the sum of `bytes()` of all tables' structures that share the budget; the
/// counter of each kind of working memory is the sum of the capacities of its buffers.
///
/// Tables leave a reserve free, so that with full tables there is still room for the undo of a DELETE,
/// for reads' requests and for the log. Undoing a transaction may grow an index back to where it was;
/// it tells its size but does not ask, because an abort cannot fail.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    /// Bytes that tables leave to working memory.
    reserve: AtomicU64,
    used: AtomicU64,
    working: [AtomicU64; Working::ALL.len()],
}

/// What memory is needed for besides tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Working {
    /// Images of before of running transactions.
    Undo,
    /// Requests that wait for a partition.
    Queues,
    /// Records that wait for the disk.
    Log,
    /// Rows that wait for the disk: copies, and images of before of rows that changed.
    Snapshots,
    /// Results of transactions that wait for the log, or for who asked to receive them.
    Results,
}

impl Working {
    /// All kinds and how they are called.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Undo, "undo"),
        (Self::Queues, "queues"),
        (Self::Log, "log"),
        (Self::Snapshots, "snapshots"),
        (Self::Results, "results"),
    ];
}

impl Budget {
    /// A budget of `limit` bytes, all of which tables may take.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            reserve: AtomicU64::new(0),
            used: AtomicU64::new(0),
            working: Default::default(),
        }
    }

    /// A budget that never says no, for recovery: what was committed fits, whatever the order in
    /// which it comes back.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Bytes that may be used.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Allows more or less from now on, with so many bytes that tables leave free; what is used already
    /// stays.
    pub fn set_limit(&self, limit: u64, reserve: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Bytes that tables use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of one kind of working memory.
    pub fn working(&self, kind: Working) -> u64 {
        self.working.get(kind as usize).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// Bytes of all kinds of working memory.
    pub fn working_total(&self) -> u64 {
        self.working.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Bytes that tables leave to working memory.
    pub fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Is there room for `bytes` more of a table?
    pub fn check(&self, bytes: usize) -> Result<(), Full> {
        self.check_with(bytes, self.working_total().max(self.reserve()))
    }

    /// Is there room for `bytes` more of working memory?
    pub fn check_working(&self, bytes: usize) -> Result<(), Full> {
        self.check_with(bytes, self.working_total())
    }

    fn check_with(&self, bytes: usize, besides: u64) -> Result<(), Full> {
        let (used, limit) = (self.used().saturating_add(besides), self.limit());
        if used.saturating_add(bytes as u64) > limit {
            return Err(Full { bytes: bytes as u64, used, limit });
        }
        Ok(())
    }

    /// A structure of a table went from `before` to `after` bytes.
    pub fn resize(&self, before: usize, after: usize) {
        resize(&self.used, before, after);
    }

    /// A buffer of working memory went from `before` to `after` bytes.
    pub fn resize_working(&self, kind: Working, before: usize, after: usize) {
        if let Some(bytes) = self.working.get(kind as usize).filter(|_| before != after) {
            resize(bytes, before, after);
        }
    }
}

fn resize(counter: &AtomicU64, before: usize, after: usize) {
    if after >= before {
        counter.fetch_add((after - before) as u64, Ordering::Relaxed);
    } else {
        counter.fetch_sub((before - after) as u64, Ordering::Relaxed);
    }
}

/// Whether a structure has to ask before it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Ask; fail where there is no room.
    Asked,
    /// Grow in any case: an abort puts back what was there.
    Forced,
}

impl Growth {
    /// Is there room for `bytes` more, if that matters?
    pub fn check(self, budget: &Budget, bytes: usize) -> Result<(), Full> {
        match self {
            Self::Asked => budget.check(bytes),
            Self::Forced => Ok(()),
        }
    }
}

/// The budget has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that may be used.
    pub limit: u64,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes more would pass the limit of {} bytes, of which {} are used",
            self.bytes, self.limit, self.used
        )
    }
}
