//! The ratio of what was observed to what was expected.

/// Factor by which one observation may differ from what was expected; beyond it, it counts as that much.
const FACTOR_MAX: f64 = 16.0;
/// Weight, as a share of the window, of the ratio of 1 that is assumed at first.
const ASSUMED_SHARE: f64 = 0.05;

/// Ratio of two sums, so that what was expected to be large counts for more than what was expected to be small. Earlier
/// observations fade as later ones add up to the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    observed: f64,
    expected: f64,
    window: f64,
}

impl Ratio {
    /// A ratio of 1, remembering observations of what was expected to be `window` in all.
    pub(crate) const fn new(window: f64) -> Self {
        Self { observed: window * ASSUMED_SHARE, expected: window * ASSUMED_SHARE, window }
    }

    /// The ratio: at least 1/16, at most 16.
    pub(crate) fn value(&self) -> f64 {
        self.observed / self.expected
    }

    /// Counts an observation. What was not expected to be anything says nothing.
    pub(crate) fn observe(&mut self, observed: f64, expected: f64) {
        if !(observed.is_finite() && expected.is_finite() && expected > 0.0) {
            return;
        }
        // No single observation fills more than half of the window.
        let weight = (self.window / 2.0 / expected).min(1.0);
        let observed = observed.clamp(expected / FACTOR_MAX, expected * FACTOR_MAX);
        let kept = (1.0 - (self.expected + expected * weight - self.window).max(0.0) / self.expected).max(0.0);
        self.observed = self.observed * kept + observed * weight;
        self.expected = self.expected * kept + expected * weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_observations_count_for_more() {
        let mut ratio = Ratio::new(10.0);
        assert_eq!(ratio.value(), 1.0);
        for _ in 0..100 {
            ratio.observe(0.9, 0.1);
            ratio.observe(1.0, 2.0);
        }
        assert!((ratio.value() / (1.9 / 2.1) - 1.0).abs() < 0.2, "{ratio:?}");
    }

    #[test]
    fn later_observations_replace_earlier_ones() {
        let mut ratio = Ratio::new(10.0);
        (0..50).for_each(|_| ratio.observe(4.0, 1.0));
        assert!(ratio.value() > 3.9, "{ratio:?}");
        (0..50).for_each(|_| ratio.observe(0.5, 1.0));
        assert!((0.5..0.6).contains(&ratio.value()), "{ratio:?}");
    }

    #[test]
    fn one_observation_does_not_rule() {
        let mut ratio = Ratio::new(10.0);
        (0..50).for_each(|_| ratio.observe(1.0, 1.0));
        ratio.observe(1e9, 1e9);
        assert_eq!(ratio.value(), 1.0);
        ratio.observe(0.0, 1e9);
        assert!(ratio.value() > 0.5, "{ratio:?}");
        ratio.observe(f64::NAN, 1.0);
        ratio.observe(1.0, 0.0);
        ratio.observe(f64::INFINITY, 1.0);
        assert!(ratio.value() > 0.5, "{ratio:?}");
    }
}
