//! Time that loads may take, because earlier scans took less.

use super::ratio::Ratio;

/// Seconds of credit at most, so that a long time of cached queries does not pay for loads that lead nowhere.
const SECONDS_MAX: f64 = 10.0;
/// Seconds of debt at most, so that a few slow queries do not end loading for good.
const DEBT_MAX: f64 = 1.0;
/// Seconds of credit to begin with: nothing was saved yet, and nothing would be without a first load.
const SECONDS_FIRST: f64 = 0.5;
/// A scan counts as at most this many times the time of its work: whoever reads its rows may be slow.
const TAKEN_MAX: f64 = 4.0;
/// Or as this, if that is more: on a busy machine, a task waits that long for a core.
const TAKEN_MIN_S: f64 = 0.02;
/// Expected seconds over which the ratios below look back.
const WINDOW_S: f64 = 5.0;
/// Loads tell what loads take only if they are expected to be at least this share of the scan's time.
const LOADS_SHARE_MIN: f64 = 0.25;
/// Least ratio of the time to the work of loads. It is what is left of a scan's time, so that a small error of the rest may
/// make it anything.
const LOADS_RATIO_MIN: f64 = 0.5;

/// The time that all scans so far would have taken without a cache, plus [`Credit::SHARE`], minus the time that they took.
/// Loads spend it, so that, as far as estimates are right, no sequence of queries takes longer than without a cache by more
/// than that share.
#[derive(Debug)]
pub(crate) struct Credit {
    seconds: f64,
    /// Of these, what scans that are not done were given.
    reserved: f64,
    /// Time to work of scans that did not use the cache: they wait for the operators above and for other scans of the query.
    uncached: Ratio,
    /// The same for what loads add to both.
    loads: Ratio,
}

impl Default for Credit {
    fn default() -> Self {
        Self { seconds: SECONDS_FIRST, reserved: 0.0, uncached: Ratio::new(WINDOW_S), loads: Ratio::new(WINDOW_S) }
    }
}

/// What loads of a scan may spend, and how its time relates to that of its work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Seconds of credit; 0 in debt.
    pub(crate) credit_s: f64,
    /// Whether earlier scans have taken longer than they were allowed.
    pub(crate) is_in_debt: bool,
    /// Seconds that a scan takes per second of its work, without loads.
    pub(crate) uncached: f64,
    /// Seconds that loads add per second of the work that they add.
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
    /// Seconds of its work before loads, as the model estimates them, without corrections.
    pub(crate) work: f64,
    /// The same of the work that loads add.
    pub(crate) work_of_loads: f64,
    /// Whether it makes no use of a cache.
    pub(crate) is_uncached: bool,
    /// Whether an index finds rows of it, whose time nothing is expected of.
    pub(crate) by_index: bool,
}

impl ScanTime {
    /// All in all.
    pub(crate) fn seconds(&self) -> f64 {
        self.before_loads + self.loads
    }

    /// What it is allowed by itself, without credit.
    fn allowed(&self) -> f64 {
        self.without_cache * (1.0 + Credit::SHARE)
    }

    /// What its loads take from the credit.
    fn borrowed(&self) -> f64 {
        let beyond = (self.seconds() - self.allowed()).clamp(0.0, SECONDS_MAX);
        if beyond.is_finite() { beyond.min(self.loads) } else { 0.0 }
    }
}

impl Credit {
    /// Share of the time without a cache that loads may cost although they have saved nothing yet.
    pub(crate) const SHARE: f64 = 0.3;

    /// What loads of a scan may spend.
    pub(crate) fn terms(&self) -> Terms {
        let loads = self.loads.value().max(LOADS_RATIO_MIN);
        Terms {
            credit_s: (self.seconds - self.reserved).max(0.0),
            is_in_debt: self.seconds < 0.0,
            uncached: self.uncached.value(),
            loads,
        }
    }

    /// Takes all credit for one scan; others see none until [`Credit::give_back`].
    pub(crate) fn take(&mut self) -> Terms {
        let terms = self.terms();
        self.reserved += terms.credit_s;
        terms
    }

    /// Returns what the loads of that scan do not spend.
    pub(crate) fn give_back(&mut self, terms: &Terms, time: &ScanTime) {
        self.reserved += time.borrowed() - terms.credit_s;
    }

    /// Forgets a scan that ended early: how much of it was done, nobody knows.
    pub(crate) fn forget(&mut self, time: &ScanTime) {
        self.reserved -= time.borrowed();
    }

    /// Counts a scan that was done in `taken` seconds; returns the seconds counted, which are bounded.
    pub(crate) fn count(&mut self, time: &ScanTime, taken: f64) -> f64 {
        self.reserved -= time.borrowed();
        let taken = taken.min(((time.work + time.work_of_loads) * TAKEN_MAX).max(TAKEN_MIN_S));
        let seconds = self.seconds + time.allowed() - taken;
        if time.by_index || !seconds.is_finite() {
            return taken;
        }
        self.seconds = seconds.clamp(-DEBT_MAX, SECONDS_MAX);
        if time.is_uncached {
            self.uncached.observe(taken, time.work);
        } else if time.loads >= time.seconds() * LOADS_SHARE_MIN {
            self.loads.observe((taken - time.before_loads).max(0.0), time.work_of_loads);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: f64 = 1.0 + Credit::SHARE;

    fn time(without_cache: f64, before_loads: f64, loads: f64) -> ScanTime {
        let (work, work_of_loads) = (before_loads, loads);
        ScanTime { without_cache, before_loads, loads, work, work_of_loads, ..ScanTime::default() }
    }

    fn route(credit: &mut Credit, time: &ScanTime) {
        let terms = credit.take();
        credit.give_back(&terms, time);
    }

    /// Routes a scan and counts it.
    fn run(credit: &mut Credit, time: &ScanTime, taken: f64) {
        route(credit, time);
        credit.count(time, taken);
    }

    fn owns(credit: &Credit, seconds: f64) {
        assert!((credit.terms().credit_s - seconds).abs() < 1e-9, "{seconds}: {credit:?}");
    }

    #[test]
    fn loads_spend_what_scans_have_saved() {
        let mut credit = Credit { seconds: 0.0, ..Credit::default() };
        run(&mut credit, &time(1.0, 1.0, 0.0), EVEN);
        owns(&credit, 0.0);
        run(&mut credit, &time(1.0, 0.4, 0.0), EVEN - 0.6);
        owns(&credit, 0.6);
        // Its loads take longer than expected: they were to take half a second beyond what it is allowed.
        let loading = time(1.0, 1.0, 0.5 + Credit::SHARE);
        let terms = credit.take();
        owns(&credit, 0.0);
        credit.give_back(&terms, &loading);
        owns(&credit, 0.1);
        credit.count(&loading, EVEN + 0.55);
        owns(&credit, 0.05);
        assert!(credit.terms().loads > 1.0);
    }

    #[test]
    fn what_a_scan_is_allowed_by_itself_is_nobodys_credit() {
        let mut credit = Credit { seconds: 0.0, ..Credit::default() };
        let loading = time(50.0, 50.0, 15.0);
        route(&mut credit, &loading);
        owns(&credit, 0.0);
        credit.count(&loading, 65.0);
        owns(&credit, 0.0);
    }

    #[test]
    fn scans_that_end_early_do_not_count() {
        let mut credit = Credit { seconds: 1.0, ..Credit::default() };
        let loading = time(1.0, 1.0, 1.0);
        route(&mut credit, &loading);
        credit.forget(&loading);
        owns(&credit, 1.0);
        // What an index finds has cost nothing by expectation.
        let found = ScanTime { by_index: true, ..time(5.0, 0.0, 0.0) };
        run(&mut credit, &found, 1.0);
        owns(&credit, 1.0);
    }

    #[test]
    fn neither_credit_nor_debt_grow_without_bounds() {
        let mut credit = Credit::default();
        for _ in 0..3 {
            run(&mut credit, &time(1.0, 1.0, 0.0), 100.0);
        }
        assert!(credit.terms().is_in_debt && credit.seconds == -DEBT_MAX, "{credit:?}");
        route(&mut credit, &time(1.0, 1.0, 0.0));
        assert!(credit.terms().is_in_debt && credit.reserved == 0.0, "{credit:?}");
        for odd in [f64::NAN, f64::INFINITY] {
            run(&mut credit, &time(odd, 1.0, 0.0), 1.0);
            run(&mut credit, &time(1.0, 1.0, odd), EVEN);
        }
        run(&mut credit, &time(1e9, 1.0, 0.0), 0.0);
        owns(&credit, SECONDS_MAX);
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
