//! What clients did and saw.

use std::fmt;

/// A step of a transaction. Values are never written twice to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Puts a value behind a list.
    Append { key: i64, value: i64 },
    /// What a list was.
    ReadList { key: i64, list: Vec<i64> },
    /// What a register was, 0 before its first write, and what it is made. So each version says which one
    /// was before it.
    Replace { key: i64, before: i64, value: i64 },
    /// What a register was.
    ReadRegister { key: i64, value: i64 },
}

/// What its client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// It left nothing.
    Aborted,
    /// Its client was told nothing.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub client: usize,
    /// Nanoseconds.
    pub begin: u64,
    pub end: u64,
    pub outcome: Outcome,
    pub steps: Vec<Step>,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}, {}..{} ns, {:?}:", self.client, self.begin, self.end, self.outcome)?;
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
