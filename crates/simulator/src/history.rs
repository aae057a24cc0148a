//! History: what clients did and saw.

use std::fmt;

/// A step of a transaction. Values are never written twice to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Puts a value behind a list.
    Append {
        /// Which list.
        key: i64,
        /// The value, its new end.
        value: i64,
    },
    /// A list as it was read.
    ReadList {
        /// Which list.
        key: i64,
        /// Its elements.
        list: Vec<i64>,
    },
    /// What a register was, 0 before its first write, and what it is made. So each version says which one
    /// was before it.
    Replace {
        /// Which register.
        key: i64,
        /// Value before.
        before: i64,
        /// Value after.
        value: i64,
    },
    /// A register as it was read.
    ReadRegister {
        /// Which register.
        key: i64,
        /// Value before.
        value: i64,
    },
}

/// Outcome as its client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// That it is kept.
    Committed,
    /// That it left nothing.
    Aborted,
    /// Nothing, or that nobody knows.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Client that asked for it.
    pub client: usize,
    /// When it was asked for: nanoseconds, or steps of a simulation.
    pub begin: u64,
    /// When its client was told.
    pub end: u64,
    /// Outcome that it was told.
    pub outcome: Outcome,
    /// What it did and saw. Of one that is not committed what it would have written; what was before a register's
    /// new value is then not known.
    pub steps: Vec<Step>,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}, {}..{}, {:?}:", self.client, self.begin, self.end, self.outcome)?;
        for step in &self.steps {
            match step {
                Step::Append { key, value } => write!(f, " append({key}, {value})")?,
                Step::ReadList { key, list } => write!(f, " list({key}) = {list:?}")?,
                Step::Replace { key, before, value } => write!(f, " replace({key}, {before} by {value})")?,
                Step::ReadRegister { key, value } => write!(f, " register({key}) = {value}")?,
            }
        }
        Ok(())
    }
}
