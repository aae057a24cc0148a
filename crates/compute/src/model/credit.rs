//! Time that loads may take, because earlier queries took less.

/// Seconds of credit at most, so that a long time of cached queries does not pay for loads that lead nowhere.
const SECONDS_MAX: f64 = 10.0;

/// Seconds of credit to begin with: nothing was saved yet, and nothing would be without a first load.
const SECONDS_FIRST: f64 = 0.5;

/// What all queries so far may have taken without a cache, and [`Credit::SHARE`] more, beyond what they were expected to
/// take. Loads spend it, so that no sequence of queries is expected to take longer than without a cache, but for that
/// share.
#[derive(Debug)]
pub(crate) struct Credit {
    seconds: f64,
}

impl Default for Credit {
    fn default() -> Self {
        Self { seconds: SECONDS_FIRST }
    }
}

impl Credit {
    /// Share of the time without a cache that loads may cost although they save nothing.
    pub(crate) const SHARE: f64 = 0.03;

    /// Seconds that loads of a query may take beyond [`Credit::SHARE`].
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Takes all of it; [`Credit::count`] gives back what is left.
    pub(crate) fn take(&mut self) -> f64 {
        std::mem::take(&mut self.seconds)
    }

    /// Counts a query of `taken` seconds that took `had` seconds of credit before, and would have been one of `without`
    /// seconds without a cache.
    pub(crate) fn count(&mut self, had: f64, without: f64, taken: f64) {
        let seconds = self.seconds + had + without * (1.0 + Self::SHARE) - taken;
        if seconds.is_finite() {
            self.seconds = seconds.clamp(0.0, SECONDS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_spend_what_queries_have_saved() {
        let mut credit = Credit { seconds: 0.0 };
        credit.count(0.0, 1.0, 1.03);
        assert!(credit.seconds() < 1e-9);
        credit.count(0.0, 1.0, 0.43);
        assert!((credit.seconds() - 0.6).abs() < 1e-9);
        let had = credit.take();
        assert_eq!(credit.seconds(), 0.0, "another query has none meanwhile");
        credit.count(had, 1.0, 1.33);
        assert!((credit.seconds() - 0.3).abs() < 1e-9);
        credit.count(0.0, 1.0, 5.0);
        assert_eq!(credit.seconds(), 0.0, "estimates that change leave no debt");
        credit.count(0.0, f64::NAN, 1.0);
        credit.count(0.0, 1e9, 0.0);
        assert_eq!(credit.seconds(), SECONDS_MAX);
    }
}
