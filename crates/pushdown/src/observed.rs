//! Selectivity of a predicate, observed while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Rows after which it is known whether the filter is worth its time.
const SAMPLE_ROWS: u64 = 16 << 10;
/// Batches that pass unseen after a sample of which too many rows passed. Data may be sorted by the
/// key, so the filter is tried again.
pub(crate) const BATCHES_UNSEEN: u64 = 16;
/// The same after many such samples in a row: each doubles it.
const BATCHES_UNSEEN_MAX: u64 = 256;
/// Share of rows that may pass, unless the owner says otherwise.
pub(crate) const PASSING_MAX: f64 = 0.9;
/// Whether a predicate that only saves work is worth its time: where too many rows pass, it lets batches
/// pass unseen for a while, and longer each time.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Share of a sample's rows above which the filter rests.
    passing_max: f64,
    /// Batches of the next rest.
    rest: AtomicU64,
    batches: AtomicU64,
    /// The first batch to look at.
    resume_at: AtomicU64,
    rows: AtomicU64,
    passed: AtomicU64,
}

impl Observed {
    /// To rest where more than `passing_max` of the rows pass.
    pub(crate) fn new(passing_max: f64) -> Self {
        Self {
            passing_max,
            rest: AtomicU64::new(BATCHES_UNSEEN),
            batches: AtomicU64::new(0),
            resume_at: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// Whether the next batch passes unseen.
    pub(crate) fn skips(&self) -> bool {
        self.batches.fetch_add(1, Ordering::Relaxed) < self.resume_at.load(Ordering::Relaxed)
    }

    /// Counts a batch of which `passed` rows passed.
    pub(crate) fn add(&self, rows: u64, passed: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let passed = self.passed.fetch_add(passed, Ordering::Relaxed) + passed;
        if rows >= SAMPLE_ROWS {
            if passed as f64 > rows as f64 * self.passing_max {
                let rest = self.rest.load(Ordering::Relaxed);
                self.resume_at.store(self.batches.load(Ordering::Relaxed) + rest, Ordering::Relaxed);
                self.rest.store(BATCHES_UNSEEN_MAX.min(rest * 2), Ordering::Relaxed);
            } else {
                self.rest.store(BATCHES_UNSEEN, Ordering::Relaxed);
            }
            self.rows.store(0, Ordering::Relaxed);
            self.passed.store(0, Ordering::Relaxed);
        }
    }
}
