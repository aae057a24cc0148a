//! The memory budget of row tables and of the work on them, with a reserve and shares.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_machine::EventCount;
use thermocline_types::Error;

/// Memory budget of a node: rows, indexes and locators, and working memory.
///
/// Every structure of a table asks before it grows ([`Budget::check`]) and reports its size afterwards
/// ([`Budget::resize`]). It asks only when it needs another arena or a larger table, never per row, so one counter for
/// all partitions costs nothing. Working memory ([`Working`]) is reported when a buffer changes its capacity, not for
/// each use.
///
/// Invariants: `used` is the sum of `bytes()` of all table structures that share the budget, and `rows` of those that
/// hold rows; the counter of each kind of working memory is the sum of the capacities of its buffers.
///
/// Tables leave a reserve free, so that full tables still leave room for the undo of a DELETE, for requests of readers
/// and for the log. Discretionary memory of statements ([`Reach::Share`]) leaves a quarter of the reserve, so that this
/// holds beside any query; and tables that are larger than the limit take nothing of the reserve: what frees their
/// memory needs some. Each kind of working memory that a DELETE needs has a [floor](Budget::floor) as well, up to which
/// it is granted whatever the others take. Undoing a transaction may grow an index back to its earlier size; it reports
/// its size but does not ask, because an abort cannot fail.
///
/// Where rows can be evicted, a refused request leaves a note of its bytes ([`Budget::pressure`]), so that eviction
/// makes room for it; who was refused has rows evicted and asks again.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    /// Bytes that tables leave to working memory.
    reserve: AtomicU64,
    used: AtomicU64,
    /// Bytes of rows, which are part of `used`.
    rows: AtomicU64,
    /// Bytes of working memory with the largest refused request for which eviction can make room, and has not yet; 0
    /// for none.
    wanted: AtomicU64,
    /// Number of blocks that were evicted.
    evictions: AtomicU64,
    working: [AtomicU64; Working::ALL.len()],
    /// Bytes of working memory freed since [`Budget::take_trim`] last returned true.
    given_back: AtomicU64,
    /// Whether it refuses what exceeds the limit.
    is_strict: AtomicBool,
    is_evicting: AtomicBool,
    /// Why the last rows that should have been evicted could not; `None` if they were.
    stuck: Mutex<Option<Error>>,
    /// Advances when these reach [`Budget::trim_bytes`].
    trim_due: Arc<EventCount>,
}

/// Uses of memory other than tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Working {
    /// Undo images of running transactions.
    Undo,
    /// Requests that wait for a partition.
    Queues,
    /// Records that wait for the disk.
    Log,
    /// Rows that wait for the disk: copies, and earlier images of changed rows.
    Snapshots,
    /// Results: while they are built, while they wait for the log or for their receiver, and large ones until the
    /// receiver drops them.
    Results,
    /// Working memory of running statements: texts, groups, sorts, parsing.
    Queries,
    /// Prepared statements and procedures.
    Statements,
    /// Memory of scripts.
    Lua,
    /// Keys of indexes that recovery fills.
    Indexes,
    /// Blocks of evicted rows that wait for the disk.
    Blocks,
}

/// How much of the budget a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of it: for DELETE, answers and the log, which cannot do without.
    Whole,
    /// A [share](Budget::share) for one holder and, unless it is small, not the quarter of the reserve that is left to
    /// others.
    Share,
}

/// Bytes up to which a holder may use the whole budget.
const SMALL_BYTES: usize = 128 << 10;

/// Minimum bytes worth returning to the system, whatever the limit.
const TRIM_BYTES_MIN: u64 = 1 << 20;
/// Divisor of the limit for the freed bytes that the allocator may keep, and bytes that it may keep in any case, unless
/// that is a quarter of the limit.
const TRIM_SHARE: u64 = 20;
const TRIM_BYTES: u64 = 16 << 20;
/// Divisor of the reserve for the floor of a kind of working memory.
const FLOOR_SHARE: u64 = 8;

/// Bytes that eviction keeps free of a limit: two arenas or more, or a quarter where these are more than that.
fn free_of(limit: u64) -> u64 {
    const FREE_MIN: u64 = 4 << 20;
    (limit / 32).max(FREE_MIN.min(limit / 4))
}

impl Working {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Undo, "undo"),
        (Self::Queues, "queues"),
        (Self::Log, "log"),
        (Self::Snapshots, "snapshots"),
        (Self::Results, "results"),
        (Self::Queries, "queries"),
        (Self::Statements, "statements"),
        (Self::Lua, "lua"),
        (Self::Indexes, "indexes"),
        (Self::Blocks, "blocks"),
    ];
}

impl Budget {
    /// A budget of `limit` bytes without a reserve.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            reserve: AtomicU64::new(0),
            used: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            working: Default::default(),
            given_back: AtomicU64::new(0),
            is_strict: AtomicBool::new(true),
            is_evicting: AtomicBool::new(false),
            stuck: Mutex::new(None),
            trim_due: EventCount::new(),
        }
    }

    /// A budget without a limit.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Refuses nothing until the limit is set, for recovery: what was committed has to be somewhere. Rows that can be
    /// evicted nevertheless leave memory for a limit of `limit` bytes and that reserve.
    #[must_use]
    pub fn lenient(limit: u64, reserve: u64) -> Self {
        Self { reserve: AtomicU64::new(reserve), is_strict: AtomicBool::new(false), ..Self::new(limit) }
    }

    /// Whether it refuses memory beyond its limit.
    pub fn is_strict(&self) -> bool {
        self.is_strict.load(Ordering::Relaxed)
    }

    /// Limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit, and the bytes of it that tables leave free; memory in use stays.
    pub fn set_limit(&self, limit: u64, reserve: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
        self.is_strict.store(true, Ordering::Relaxed);
        self.trim_due.advance();
    }

    /// Bytes in use by tables.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes in use by rows in memory.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
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

    /// Checks for room for `bytes` more of a table.
    pub fn check(&self, bytes: usize) -> Result<(), Full> {
        self.check_within(self.limit(), bytes, self.besides_tables(), 0)
    }

    /// Bytes of the limit that are not for tables.
    fn besides_tables(&self) -> u64 {
        // Running work may use more, so half of the reserve is kept for later needs; all of it where a table that finds
        // no room has others evicted.
        let (working, reserve) = (self.working_total(), self.reserve());
        let kept = if self.is_evicting() { reserve } else { reserve / 2 };
        working.saturating_add(kept).max(reserve)
    }

    /// Notes that rows are evicted where it is short, so that waiting may help.
    pub fn set_evicting(&self) {
        self.is_evicting.store(true, Ordering::Relaxed);
    }

    /// Whether rows are evicted where it is short.
    pub fn is_evicting(&self) -> bool {
        self.is_evicting.load(Ordering::Relaxed)
    }

    /// Notes whether rows could be evicted.
    pub fn note_eviction<T>(&self, evicted: &Result<T, Error>) {
        *self.stuck.lock() = evicted.as_ref().err().cloned();
        self.evictions.fetch_add(u64::from(evicted.is_ok()), Ordering::Relaxed);
    }

    /// Number of blocks that were evicted: if it has grown since a request was refused, asking again may help.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Notes a refused request, unless there would be no room for it even if all rows were evicted. The transaction
    /// gives back what it has when it is undone, and needs all of it again: so the note is of the working memory at this
    /// moment, and of the request, or of `as_much` again if there may be room for that. A transaction runs few times then
    /// until it has what it needs.
    fn want(&self, bytes: u64, as_much: u64) {
        let working = self.working_total();
        let stays = self.used().saturating_sub(self.rows()).saturating_add(working + self.reserve() / 4);
        let fits = |bytes: &u64| stays.saturating_add(*bytes) <= self.limit();
        let wanted = [bytes.max(as_much), bytes].into_iter().find(fits).filter(|_| self.is_evicting());
        if let Some(bytes) = wanted {
            self.wanted.fetch_max(working + bytes, Ordering::Relaxed);
        }
    }

    /// Bytes that eviction has not made room for yet, besides the working memory there is; 0 if it has for all requests
    /// that were refused.
    fn wanted_more(&self) -> u64 {
        let (wanted, working) = (self.wanted.load(Ordering::Relaxed), self.working_total());
        let total = self.used().saturating_add(wanted.max(working)).saturating_add(self.reserve() / 4);
        if wanted > 0 && total > self.limit() { wanted.saturating_sub(working) } else { 0 }
    }

    /// Whether eviction has not made room yet for a request that was refused.
    pub fn lacks_wanted(&self) -> bool {
        self.wanted_more() > 0
    }

    /// Forgets refused requests: there is room for them, or no row can go.
    pub fn forget_wanted(&self) {
        if self.wanted.load(Ordering::Relaxed) > 0 {
            self.wanted.store(0, Ordering::Relaxed);
        }
    }

    /// Why rows that should go cannot be evicted, as of the last attempt: waiting does not help then. `None` if they
    /// can, or need not.
    pub fn stuck(&self) -> Option<Error> {
        self.stuck.lock().clone().filter(|_| self.pressure() > 0)
    }

    /// Whether half of what [should be free](Budget::pressure) is taken.
    pub fn is_short(&self) -> bool {
        self.pressure() > free_of(self.limit()) / 2
    }

    /// Bytes of tables that should go, so that a thirty-second of the limit stays free beyond the reserve, or what
    /// tables grow by, a quarter at most, or what a refused request wants; 0 if it is free.
    pub fn pressure(&self) -> u64 {
        let limit = self.limit();
        let free = free_of(limit).max(self.wanted_more());
        let besides = self.besides_tables().saturating_add(free);
        self.used().saturating_add(besides).saturating_sub(limit)
    }

    /// Checks for room for `bytes` more of a kind of working memory.
    pub fn check_working(&self, kind: Working, bytes: usize) -> Result<(), Full> {
        if bytes == 0 || self.working(kind).saturating_add(bytes as u64) <= self.floor(kind) {
            return Ok(());
        }
        let as_much = if kind == Working::Undo { self.working(kind) } else { 0 };
        self.check_within(self.working_limit(), bytes, self.working_total(), as_much)
    }

    /// Checks for room for `bytes` more of requests that wait: besides that of [`Budget::check_working`], half of the
    /// limit for all of them, so that those that run find room for their rows.
    pub fn check_queued(&self, bytes: usize) -> Result<(), Full> {
        let (queued, limit) = (self.working(Working::Queues), self.limit() / 2);
        if queued.saturating_add(bytes as u64) > limit && self.is_strict.load(Ordering::Relaxed) {
            return Err(Full { bytes: bytes as u64, limit, taken: Taken::Share(queued) });
        }
        self.check_working(Working::Queues, bytes)
    }

    /// Whether there is room for `bytes` more of working memory, for those that do without if there is not.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let used = self.used().saturating_add(self.working_total());
        used.saturating_add(bytes as u64) <= self.working_limit() || !self.is_strict.load(Ordering::Relaxed)
    }

    /// Bytes of a kind of working memory that are granted whatever others take: an eighth of the reserve for each kind
    /// without which a DELETE cannot run, and half of it for the log, whose buffers take as much when they are idle. So
    /// the kinds together may exceed the limit by the reserve.
    pub fn floor(&self, kind: Working) -> u64 {
        match kind {
            Working::Log => self.reserve() / 2,
            Working::Undo | Working::Queues | Working::Results | Working::Queries => self.reserve() / FLOOR_SHARE,
            Working::Snapshots | Working::Statements | Working::Lua | Working::Indexes | Working::Blocks => 0,
        }
    }

    /// Limit of tables and working memory together, for requests of working memory: tables that have outgrown the
    /// limit, as those of a start without eviction may, take nothing of the reserve.
    fn working_limit(&self) -> u64 {
        self.limit().max(self.used().saturating_add(self.reserve()))
    }

    /// Checks for room for `bytes` more below a limit `besides` other memory. A refused request is likely to want
    /// `as_much` [again](Self::want).
    fn check_within(&self, limit: u64, bytes: usize, besides: u64, as_much: u64) -> Result<(), Full> {
        let used = self.used().saturating_add(besides);
        if used.saturating_add(bytes as u64) > limit && self.is_strict.load(Ordering::Relaxed) {
            self.want(bytes as u64, as_much);
            return Err(self.full(bytes));
        }
        Ok(())
    }

    /// The refusal of `bytes`.
    #[cold]
    pub fn full(&self, bytes: usize) -> Full {
        let (rows, tables, working) = (self.rows(), self.used(), self.working_total());
        let keys = tables.saturating_sub(rows);
        let largest = Working::ALL.into_iter().max_by_key(|(kind, _)| self.working(*kind)).map_or("", |(_, name)| name);
        Full { bytes: bytes as u64, limit: self.limit(), taken: Taken::All { rows, keys, working, largest } }
    }

    /// Limit of discretionary memory for one holder: a quarter of the limit.
    pub fn share(&self) -> u64 {
        self.limit() / 4
    }

    /// Takes `more` bytes of working memory for a holder that has `held`, or nothing. The bytes are counted before the
    /// comparison, so that concurrent requests cannot exceed the limit together.
    pub fn take_working(&self, kind: Working, reach: Reach, held: usize, more: usize) -> Result<(), Full> {
        let bytes = more as u64;
        if reach == Reach::Share {
            let (used, limit) = (held as u64, self.share());
            if used.saturating_add(bytes) > limit {
                return Err(Full { bytes, limit, taken: Taken::Share(used) });
            }
        }
        self.resize_working(kind, 0, more);
        let used = self.used().saturating_add(self.working_total());
        let limit = match reach {
            Reach::Whole => self.working_limit(),
            // So that a short statement can be read and run, however much others hold.
            Reach::Share if held + more <= SMALL_BYTES => self.working_limit(),
            Reach::Share => self.working_limit() - self.reserve() / 4,
        };
        if used <= limit || self.working(kind) <= self.floor(kind) {
            return Ok(());
        }
        // Not counted as freed: nothing had been allocated yet.
        if let Some(counter) = self.working.get(kind as usize) {
            resize(counter, more, 0);
        }
        self.want(bytes, held as u64);
        Err(self.full(more))
    }

    /// Reports that a structure of a table grew or shrank from `before` to `after` bytes.
    pub fn resize(&self, before: usize, after: usize) {
        resize(&self.used, before, after);
    }

    /// [`Budget::resize`] for rows.
    pub fn resize_rows(&self, before: usize, after: usize) {
        self.resize(before, after);
        resize(&self.rows, before, after);
    }

    /// Reports that a buffer of working memory grew or shrank from `before` to `after` bytes.
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

    /// Freed bytes of working memory after which the allocator's free memory is returned to the system: a
    /// twentieth of the limit, but no less than 16 MiB, or than a quarter of a limit below 64 MiB.
    pub fn trim_bytes(&self) -> u64 {
        let limit = self.limit();
        (limit / TRIM_SHARE).max(TRIM_BYTES.min(limit / 4)).max(TRIM_BYTES_MIN)
    }

    /// Advances when this many bytes were freed, and when the limit changes.
    pub const fn trim_due(&self) -> &Arc<EventCount> {
        &self.trim_due
    }

    /// Whether this many bytes were freed; resets the count.
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

/// Whether a structure must ask before it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Ask, and fail without room.
    Asked,
    /// Grow in any case: an abort restores earlier data.
    Forced,
}

impl Growth {
    /// Checks for room for `bytes` more, unless growth is forced.
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
    /// Bytes requested.
    pub bytes: u64,
    /// Limit in bytes.
    pub limit: u64,
    /// What the limit is of, and what takes it.
    pub taken: Taken,
}

/// Bytes in use when a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Those of one holder, whose share is the limit.
    Share(u64),
    /// All of the budget.
    All {
        /// Rows in memory.
        rows: u64,
        /// Indexes and locators of rows, wherever these are.
        keys: u64,
        /// Working memory.
        working: u64,
        /// The kind of working memory that takes most.
        largest: &'static str,
    },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, limit, taken } = self;
        match taken {
            Taken::Share(used) => {
                let what = "what one statement may have, a quarter of thermocline.row_memory_limit";
                write!(f, "{bytes} bytes more than its {used} would pass {limit}, {what}")
            }
            Taken::All { rows, keys, working, largest } => write!(
                f,
                "{bytes} bytes more would pass the limit of {limit} bytes (thermocline.row_memory_limit): rows in memory \
                 take {rows}, indexes and places of rows {keys}, and running work {working} (most for \
                 {largest}); raise the limit, delete rows, some at a time, or drop an index"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_limit_that_was_given_back_is_to_be_trimmed() {
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
        // A refused request was never allocated.
        budget.take_working(Working::Queries, Reach::Whole, 0, 65 << 20).unwrap_err();
        assert_eq!((budget.working_total(), budget.take_trim()), (0, false));
        // With a lower limit, the bytes freed before are enough.
        take_and_give_back(8 << 20);
        budget.set_limit(32 << 20, 0);
        assert_eq!((budget.trim_due().seen() - seen, budget.take_trim()), (2, true));
        assert!(!Budget::unlimited().take_trim());
    }

    #[test]
    fn what_frees_memory_has_a_floor_beside_any_other() {
        let budget = Budget::new(16 << 20);
        budget.set_limit(16 << 20, 1 << 20);
        // Keys beyond the limit, and statements that take all of the reserve.
        budget.resize(0, 20 << 20);
        budget.resize_working(Working::Statements, 0, 2 << 20);
        let eighth = 128 << 10;
        let eighths = [Working::Undo, Working::Queues, Working::Results, Working::Queries].map(|kind| (kind, eighth));
        for (kind, floor) in eighths.into_iter().chain([(Working::Log, 4 * eighth)]) {
            budget.check_working(kind, floor).unwrap();
            budget.take_working(kind, Reach::Share, 0, floor).unwrap();
            budget.check_working(kind, 1).unwrap_err();
            budget.take_working(kind, Reach::Whole, floor, 1).unwrap_err();
        }
        budget.check_working(Working::Statements, 1).unwrap_err();
        budget.check_working(Working::Statements, 0).unwrap();
        assert!(!budget.has_room_for(0));
    }

    #[test]
    fn requests_that_wait_leave_half_of_the_limit() {
        let budget = Budget::new(64 << 20);
        budget.set_limit(64 << 20, 4 << 20);
        budget.check_queued(32 << 20).unwrap();
        budget.resize_working(Working::Queues, 0, 31 << 20);
        budget.check_queued(1 << 20).unwrap();
        budget.check_queued((1 << 20) + 1).unwrap_err();
        // No rows need to go for that.
        budget.resize(0, 20 << 20);
        assert!(!budget.lacks_wanted());
        budget.resize(0, 12 << 20);
        budget.check_queued(1 << 20).unwrap();
        budget.resize(0, 1 << 20);
        budget.check_queued(1 << 20).unwrap_err();
    }

    #[test]
    fn a_refused_request_presses_until_it_has_room() {
        let budget = Budget::new(64 << 20);
        budget.set_limit(64 << 20, 4 << 20);
        budget.resize(0, 1 << 20);
        budget.resize_rows(0, 54 << 20);
        let take = |bytes: usize| budget.take_working(Working::Queries, Reach::Share, 0, bytes);
        take(12 << 20).unwrap_err();
        assert!(!budget.lacks_wanted(), "nothing can be evicted");
        budget.set_evicting();
        let before = budget.pressure();
        take(17 << 20).unwrap_err();
        budget.check_working(Working::Undo, 64 << 20).unwrap_err();
        assert_eq!((budget.lacks_wanted(), budget.pressure()), (false, before), "eviction would not help");
        take(12 << 20).unwrap_err();
        assert!(budget.lacks_wanted() && budget.pressure() >= 7 << 20, "{}", budget.pressure());
        budget.resize_rows(8 << 20, 0);
        assert!(!budget.lacks_wanted());
        take(12 << 20).unwrap();
        budget.forget_wanted();
        budget.resize_working(Working::Queries, 12 << 20, 0);
        assert_eq!(budget.pressure(), 0);
    }

    #[test]
    fn a_refused_transaction_has_room_for_all_that_it_had() {
        let budget = Budget::new(64 << 20);
        budget.set_limit(64 << 20, 4 << 20);
        budget.set_evicting();
        budget.resize_rows(0, 50 << 20);
        budget.resize_working(Working::Undo, 0, 12 << 20);
        budget.check_working(Working::Undo, 4 << 20).unwrap_err();
        // It is undone.
        budget.resize_working(Working::Undo, 12 << 20, 0);
        budget.resize_rows(8 << 20, 0);
        assert!(budget.lacks_wanted(), "as much again as it had");
        budget.resize_rows(4 << 20, 0);
        assert!(!budget.lacks_wanted());
        budget.check_working(Working::Undo, 24 << 20).unwrap();
    }
}
