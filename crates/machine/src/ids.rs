//! Newtypes for numbers that cross modules.

use std::fmt;
use std::time::Duration;

/// Position in the command log: records are numbered from 1, without gaps, for the life of a database. Executing all
/// records up to a sequence gives a state of the whole database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The position before the first record.
    pub const ZERO: Self = Self(0);

    /// The next sequence.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The sequence this many records later; saturates at the largest.
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

/// Number of a transaction, unique for ever, even if it changed nothing and is in no log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransactionId(pub u64);

/// Number of a bulk load: that of the transaction that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LoadId(pub u64);

/// An executor partition: a share of the rows that one thread owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionId(pub u16);

/// Identity of a database, drawn when it is created. Files of another database are refused.
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
    /// The moment this much later; saturates at the last one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Identity of a database, stored in each of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its id.
    pub database: DatabaseId,
    /// Number of executor partitions among which its rows are divided, at least 1.
    pub partitions: u16,
}
