use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_machine::EventCount;

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
/// for reads' requests and for the log. What statements take as they like ([`Reach::Share`]) leaves a quarter of it, so
/// that this holds beside any query. Undoing a transaction may grow an index back to where it was; it tells its size
/// but does not ask, because an abort cannot fail.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    /// Bytes that tables leave to working memory.
    reserve: AtomicU64,
    used: AtomicU64,
    working: [AtomicU64; Working::ALL.len()],
    /// Bytes of working memory given back since [`Budget::take_trim`] was last true.
    given_back: AtomicU64,
    /// Advances when these are as many as [`Budget::trim_bytes`].
    trim_due: Arc<EventCount>,
}

/// Uses of memory besides tables.
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
    /// Results: while they are made, while they wait for the log or for who asked to receive them, and large ones
    /// until their receiver drops them.
    Results,
    /// Working memory of running statements: texts, groups, sorts, parsing.
    Queries,
    /// Prepared statements and procedures.
    Statements,
    /// Memory of scripts.
    Lua,
}

/// How far into the budget a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To the limit: what a DELETE, an answer or the log cannot do without.
    Whole,
    /// To a [share](Budget::share) for one holder, and, if it is not small, not into the quarter of the reserve that
    /// is left to the others.
    Share,
}

/// Bytes of a holder that may take them wherever there are any.
const SMALL_BYTES: usize = 128 << 10;

/// Bytes that are worth returning to the system, whatever the limit.
const TRIM_BYTES_MIN: u64 = 1 << 20;

impl Working {
    /// All kinds and how they are called.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Undo, "undo"),
        (Self::Queues, "queues"),
        (Self::Log, "log"),
        (Self::Snapshots, "snapshots"),
        (Self::Results, "results"),
        (Self::Queries, "queries"),
        (Self::Statements, "statements"),
        (Self::Lua, "lua"),
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
            given_back: AtomicU64::new(0),
            trim_due: EventCount::new(),
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
        self.trim_due.advance();
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
        // What works now may go on to, so half of the reserve is for what will be needed besides.
        let (working, reserve) = (self.working_total(), self.reserve());
        self.check_with(bytes, working.saturating_add(reserve / 2).max(reserve))
    }

    /// Is there room for `bytes` more of working memory?
    pub fn check_working(&self, bytes: usize) -> Result<(), Full> {
        self.check_with(bytes, self.working_total())
    }

    fn check_with(&self, bytes: usize, besides: u64) -> Result<(), Full> {
        let (used, limit) = (self.used().saturating_add(besides), self.limit());
        if used.saturating_add(bytes as u64) > limit {
            return Err(Full { bytes: bytes as u64, used, limit, of_share: false });
        }
        Ok(())
    }

    /// Bytes that one holder of what statements take as they like may have: a quarter of the limit.
    pub fn share(&self) -> u64 {
        self.limit() / 4
    }

    /// Takes `more` bytes of working memory for a holder that has `held`, or nothing. What was taken is counted
    /// before it is compared, so that several who ask at once do not pass the limit together.
    pub fn take_working(&self, kind: Working, reach: Reach, held: usize, more: usize) -> Result<(), Full> {
        let bytes = more as u64;
        if reach == Reach::Share {
            let (used, limit) = (held as u64, self.share());
            if used.saturating_add(bytes) > limit {
                return Err(Full { bytes, used, limit, of_share: true });
            }
        }
        self.resize_working(kind, 0, more);
        let used = self.used().saturating_add(self.working_total());
        let limit = match reach {
            Reach::Whole => self.limit(),
            // So that a short statement can be read and run, whatever the others have.
            Reach::Share if held + more <= SMALL_BYTES => self.limit(),
            Reach::Share => self.limit() - self.reserve() / 4,
        };
        if used <= limit {
            return Ok(());
        }
        // Nothing was given back: there was no memory behind it yet.
        if let Some(counter) = self.working.get(kind as usize) {
            resize(counter, more, 0);
        }
        Err(Full { bytes, used: used.saturating_sub(bytes), limit: self.limit(), of_share: false })
    }

    /// A structure of a table went from `before` to `after` bytes.
    pub fn resize(&self, before: usize, after: usize) {
        resize(&self.used, before, after);
    }

    /// A buffer of working memory went from `before` to `after` bytes.
    pub fn resize_working(&self, kind: Working, before: usize, after: usize) {
        if let Some(bytes) = self.working.get(kind as usize).filter(|_| before != after) {
            resize(bytes, before, after);
            if after < before {
                self.give_back((before - after) as u64);
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        let (before, due) = (self.given_back.fetch_add(bytes, Ordering::Relaxed), self.trim_bytes());
        if before < due && before + bytes >= due {
            self.trim_due.advance();
        }
    }

    /// Bytes of working memory given back after which the allocator's free memory is returned to the system: a quarter
    /// of the limit.
    pub fn trim_bytes(&self) -> u64 {
        (self.limit() / 4).max(TRIM_BYTES_MIN)
    }

    /// Advances when so many were given back, and with the limit.
    pub const fn trim_due(&self) -> &Arc<EventCount> {
        &self.trim_due
    }

    /// Whether so many were given back, which then count no more.
    pub fn take_trim(&self) -> bool {
        let bytes = self.given_back.load(Ordering::Relaxed);
        let is_due = bytes >= self.trim_bytes();
        if is_due {
            self.given_back.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_due
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
    /// Whether that is what one holder may use, and not all of them together.
    pub of_share: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, used, limit, of_share } = self;
        if *of_share {
            let what = "what one statement may have, a quarter of thermocline.row_memory_limit";
            return write!(f, "{bytes} bytes more than its {used} would pass {limit}, {what}");
        }
        let what = "(thermocline.row_memory_limit)";
        write!(f, "{bytes} bytes more would pass the limit of {limit} bytes {what}, of which {used} are used")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_limit_that_was_given_back_is_to_be_trimmed() {
        let budget = Budget::new(64 << 20);
        let take_and_give_back = |bytes: usize| {
            budget.take_working(Working::Queries, Reach::Whole, 0, bytes).unwrap();
            budget.resize_working(Working::Queries, bytes, 0);
        };
        let seen = budget.trim_due().seen();
        take_and_give_back(15 << 20);
        assert_eq!((budget.trim_due().seen() - seen, budget.take_trim()), (0, false));
        take_and_give_back(1 << 20);
        assert_eq!((budget.trim_due().seen() - seen, budget.take_trim(), budget.take_trim()), (1, true, false));
        // What was refused was never there.
        budget.take_working(Working::Queries, Reach::Whole, 0, 65 << 20).unwrap_err();
        assert_eq!((budget.working_total(), budget.take_trim()), (0, false));
        // With a lower limit, what was given back before is enough.
        take_and_give_back(8 << 20);
        budget.set_limit(32 << 20, 0);
        assert_eq!((budget.trim_due().seen() - seen, budget.take_trim()), (2, true));
        assert!(!Budget::unlimited().take_trim());
    }
}
