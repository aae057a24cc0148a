//! Time that loads may take, because earlier scans took less.

use super::ratio::Ratio;

/// Seconds of credit at most, so that a long time of cached queries does not pay for loads that lead nowhere.
const SECONDS_MAX: f64 = 10.0;
/// Seconds of debt at most, so that a few slow queries do not end loading for good.
const DEBT_MAX: f64 = 1.0;
/// Seconds of credit to begin with: nothing was saved yet, and nothing would be without a first load.
const SECONDS_FIRST: f64 = 0.5;
/// How many times the time that is expected a scan counts for at most: whoever reads its rows may be slow.
const TAKEN_MAX: f64 = 4.0;
/// The same of scans that are expected to take less than this: a task of a busy machine waits that long.
const TAKEN_MIN_S: f64 = 0.02;
/// Seconds of scans over which their time is compared with that of their work.
const WINDOW_S: f64 = 5.0;
/// Share of a scan's time that its loads take at least, where they tell how long loads take.
const LOADS_SHARE_MIN: f64 = 0.25;

/// What all scans so far would have taken without a cache, and [`Credit::SHARE`] more, beyond what they took. Loads spend
/// it, so that no sequence of queries takes longer than without a cache, but for that share.
#[derive(Debug)]
pub(crate) struct Credit {
    seconds: f64,
    /// Seconds that scans without a cache took, to those of their work: they wait for the operators above and for other
    /// scans of the query.
    uncached: Ratio,
    /// The same of what loads add.
    loads: Ratio,
}

impl Default for Credit {
    fn default() -> Self {
        Self { seconds: SECONDS_FIRST, uncached: Ratio::new(WINDOW_S), loads: Ratio::new(WINDOW_S) }
    }
}

/// What loads of a scan may spend, and how its time relates to that of its work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Seconds beyond [`Credit::SHARE`]; negative if earlier scans have taken longer than without a cache.
    pub(crate) credit_s: f64,
    /// Seconds that a scan takes for each of its work without loads.
    pub(crate) uncached: f64,
    /// Seconds that its loads add for each that the work adds.
    pub(crate) loads: f64,
}

/// Seconds that a scan is expected to take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanTime {
    /// Without a cache.
    pub(crate) without_cache: f64,
    /// With what is cached, without loads.
    pub(crate) before_loads: f64,
    /// What its loads add.
    pub(crate) loads: f64,
    /// The work before loads, and that which loads add, as the model has them.
    pub(crate) work: f64,
    pub(crate) work_of_loads: f64,
    /// Whether it makes no use of a cache.
    pub(crate) is_uncached: bool,
}

impl ScanTime {
    /// All in all.
    pub(crate) fn seconds(&self) -> f64 {
        self.before_loads + self.loads
    }
}

impl Credit {
    /// Share of the time without a cache that loads may cost although they have saved nothing yet.
    pub(crate) const SHARE: f64 = 0.3;

    /// What loads of a scan may spend.
    pub(crate) fn terms(&self) -> Terms {
        Terms { credit_s: self.seconds, uncached: self.uncached.value(), loads: self.loads.value() }
    }

    /// The same, to be spent by nobody else; [`Credit::give_back`] returns what the scan does not spend.
    pub(crate) fn take(&mut self) -> Terms {
        let terms = self.terms();
        self.seconds = self.seconds.min(0.0);
        terms
    }

    /// Gives back what loads of a scan, which took `terms`, do not spend.
    pub(crate) fn give_back(&mut self, terms: &Terms, time: &ScanTime) {
        self.add(terms.credit_s.max(0.0) - time.loads);
    }

    /// Counts a scan that was done in `taken` seconds.
    pub(crate) fn count(&mut self, time: &ScanTime, taken: f64) {
        let taken = taken.min((time.seconds() * TAKEN_MAX).max(TAKEN_MIN_S));
        self.add(time.loads + time.without_cache * (1.0 + Self::SHARE) - taken);
        if time.is_uncached {
            self.uncached.observe(taken, time.work);
        } else if time.loads >= time.seconds() * LOADS_SHARE_MIN {
            self.loads.observe((taken - time.before_loads).max(0.0), time.work_of_loads);
        }
    }

    fn add(&mut self, seconds: f64) {
        if seconds.is_finite() {
            self.seconds = (self.seconds + seconds).clamp(-DEBT_MAX, SECONDS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(without_cache: f64, before_loads: f64, loads: f64) -> ScanTime {
        let (work, work_of_loads) = (before_loads, loads);
        ScanTime { without_cache, before_loads, loads, work, work_of_loads, is_uncached: false }
    }

    /// Routes a scan and counts it.
    fn run(credit: &mut Credit, time: &ScanTime, taken: f64) {
        let terms = credit.take();
        credit.give_back(&terms, time);
        credit.count(time, taken);
    }

    #[test]
    fn loads_spend_what_scans_have_saved() {
        let mut credit = Credit { seconds: 0.0, ..Credit::default() };
        let even = 1.0 + Credit::SHARE;
        run(&mut credit, &time(1.0, 1.0, 0.0), even);
        assert!(credit.terms().credit_s.abs() < 1e-9);
        run(&mut credit, &time(1.0, 0.4, 0.0), even - 0.6);
        assert!((credit.terms().credit_s - 0.6).abs() < 1e-9);
        // Its loads take longer than expected.
        let loading = time(1.0, 1.0, 0.5);
        let terms = credit.take();
        assert_eq!(credit.terms().credit_s, 0.0, "another scan has none meanwhile");
        credit.give_back(&terms, &loading);
        assert!((credit.terms().credit_s - 0.1).abs() < 1e-9, "what it spends is gone before it is done");
        credit.count(&loading, even + 0.5);
        assert!((credit.terms().credit_s - 0.1).abs() < 1e-9);
        assert!(credit.terms().loads > 1.0);
    }

    #[test]
    fn neither_credit_nor_debt_grow_without_bounds() {
        let mut credit = Credit::default();
        for _ in 0..3 {
            run(&mut credit, &time(1.0, 1.0, 0.0), 100.0);
        }
        assert_eq!(credit.terms().credit_s, -DEBT_MAX);
        let terms = credit.take();
        credit.give_back(&terms, &time(1.0, 1.0, 0.0));
        assert_eq!(credit.terms().credit_s, -DEBT_MAX, "taking it pays no debt");
        run(&mut credit, &time(f64::NAN, 1.0, 0.0), 1.0);
        run(&mut credit, &time(1e9, 1.0, 0.0), 0.0);
        assert_eq!(credit.terms().credit_s, SECONDS_MAX);
    }

    #[test]
    fn scans_that_use_no_cache_tell_how_long_work_takes() {
        let mut credit = Credit::default();
        let uncached = ScanTime { is_uncached: true, ..time(1.0, 1.0, 0.0) };
        (0..20).for_each(|_| run(&mut credit, &uncached, 1.5));
        assert!((1.4..=1.5).contains(&credit.terms().uncached), "{credit:?}");
        run(&mut credit, &time(1.0, 0.01, 0.0), 0.04);
        assert!((1.4..=1.5).contains(&credit.terms().uncached), "{credit:?}");
    }
}
