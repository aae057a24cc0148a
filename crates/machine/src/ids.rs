//! Numbers that cross modules.

use std::fmt;
use std::time::Duration;

/// A place in the command log: records are numbered from 1, without gaps, for the life of a
/// database. What has been executed up to a sequence is a state of the whole database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one so many after it; stays at the largest.
    #[must_use]
    pub const fn plus(self, records: u64) -> Self {
        Self(self.0.saturating_add(records))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a transaction for ever, also one that changed nothing and is in no log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransactionId(pub u64);

/// Names a bulk load, by the transaction that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LoadId(pub u64);

/// An executor partition: a share of the rows that one thread owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionId(pub u16);

/// Names a database for ever; drawn when it is created. Files of another are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub u128);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A moment: microseconds since 1970-01-01 00:00:00 UTC, as in [`Value::Timestamp`](thermocline_types::Value).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub i64);

impl Micros {
    /// The moment so long after this one; the last one there is if that is beyond it.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Identity of a database for as long as it exists, in every file of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Which one.
    pub database: DatabaseId,
    /// How many executor partitions its rows are divided into, at least 1.
    pub partitions: u16,
}
