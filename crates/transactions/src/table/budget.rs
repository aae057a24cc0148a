use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory that all rows, indexes and locators of a node may take together.
///
/// Every structure asks before it grows ([`Budget::check`]) and tells its size afterwards
/// ([`Budget::resize`]). It asks only when it needs another arena or a larger table, never per row,
/// so one counter for all partitions costs nothing. Invariant: `used` is the sum of `bytes()` of all
/// structures that share the budget.
///
/// Undoing a transaction may grow an index back to where it was; it tells its size but does not ask,
/// because an abort cannot fail.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0) }
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

    /// Allows more or less from now on; what is used already stays.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Is there room for `bytes` more?
    pub fn check(&self, bytes: usize) -> Result<(), Full> {
        let used = self.used();
        if used.saturating_add(bytes as u64) > self.limit() {
            return Err(Full { bytes: bytes as u64, used, limit: self.limit() });
        }
        Ok(())
    }

    /// A structure went from `before` to `after` bytes.
    pub fn resize(&self, before: usize, after: usize) {
        if after >= before {
            self.used.fetch_add((after - before) as u64, Ordering::Relaxed);
        } else {
            self.used.fetch_sub((before - after) as u64, Ordering::Relaxed);
        }
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
