//! History of the clients' operations and the results that they saw.

use std::fmt;

/// A step of a transaction. No value is written twice to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Appends a value to a list.
    Append {
        /// The list.
        key: i64,
        /// The value, the list's new end.
        value: i64,
    },
    /// A list as it was read.
    ReadList {
        /// The list.
        key: i64,
        /// Its elements.
        list: Vec<i64>,
    },
    /// Replaces a register, which is 0 before its first write. The old value tells which version came before.
    Replace {
        /// The register.
        key: i64,
        /// Value before.
        before: i64,
        /// Value after.
        value: i64,
    },
    /// A register as it was read.
    ReadRegister {
        /// The register.
        key: i64,
        /// Its value.
        value: i64,
    },
}

/// Outcome told to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Kept.
    Committed,
    /// Rolled back.
    Aborted,
    /// None, or that the outcome is unknown.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Client that asked for it.
    pub client: usize,
    /// When it was asked for: nanoseconds, or steps of a simulation.
    pub begin: u64,
    /// When its client was told the outcome.
    pub end: u64,
    /// Outcome that it was told.
    pub outcome: Outcome,
    /// Its operations and their results. For an uncommitted transaction these are the intended writes; a register's old
    /// value is then unknown.
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
