//! One configuration of the experiment: a batch of queries, and how it runs.

use thermocline_pushdown::Mode;
use thermocline_workloads::generate::Format;
use thermocline_workloads::ssb::{BatchQuery, batch, wlfu_batch};

/// Belady's policy, as its name stands among those of the others.
pub const BELADY: &str = "belady";

/// Kind of a random batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Star joins from the templates Q2.1 to Q4.3.
    Star,
    /// Two-table joins whose filters are alternately very selective and unselective.
    MixedSelectivity,
}

impl BatchKind {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::MixedSelectivity => "mixed-selectivity",
        }
    }

    /// `n` queries of this kind.
    pub fn queries(self, n: usize, theta: f64, seed: u64) -> Vec<BatchQuery> {
        match self {
            Self::Star => batch(n, theta, seed),
            Self::MixedSelectivity => wlfu_batch(n, theta, seed),
        }
    }
}

/// The segment cache of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheOptions {
    /// Its limit as a share of the working set.
    pub share: f64,
    /// Name of its policy.
    pub policy: String,
}

/// A configuration; equal ones are run once.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub batch: BatchKind,
    /// Skew of the batch over years.
    pub theta: f64,
    pub format: Format,
    /// Limit of the storage node's link, in bytes a second.
    pub link: u64,
    pub mode: Mode,
    /// `None` in modes that cache nothing.
    pub cache: Option<CacheOptions>,
}
