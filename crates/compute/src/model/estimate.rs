//! A quantity that observations correct in bounded steps.

/// Factor by which one observation may differ from what is known; beyond it, it counts as that much.
const FACTOR_MAX: f64 = 2.0;
/// Share of a difference, in logarithms, that one observation corrects. So an outlier changes an estimate by a factor of
/// 1.41 at most, and a rate that has dropped to a tenth is followed to within a sixth by seven observations.
const WEIGHT: f64 = 0.5;

/// A positive quantity: a rate, a time, a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    value: f64,
    /// Whether it was observed, rather than assumed.
    observed: bool,
}

impl Estimate {
    /// A value that the first observation replaces.
    pub(crate) const fn assumed(value: f64) -> Self {
        Self { value, observed: false }
    }

    /// A value that was observed before, which further observations correct.
    pub(crate) const fn known(value: f64) -> Self {
        Self { value, observed: true }
    }

    /// The current value.
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// Whether any observation was made.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed
    }

    /// Corrects it. What is not a positive number says nothing.
    pub(crate) fn observe(&mut self, value: f64) {
        if !value.is_finite() || value <= 0.0 {
            return;
        }
        if !self.observed {
            *self = Self { value, observed: true };
            return;
        }
        let factor = (value / self.value).clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
        self.value *= factor.powf(WEIGHT);
    }

    /// Corrects it if `value` is more: what is known to be a lower bound.
    pub(crate) fn observe_at_least(&mut self, value: f64) {
        if value > self.value {
            self.observe(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_moves_it_little_and_a_lasting_change_is_followed() {
        let mut rate = Estimate::assumed(1.0);
        rate.observe(100.0);
        assert_eq!((rate.value(), rate.is_observed()), (100.0, true));
        rate.observe(1e12);
        assert!(rate.value() < 142.0, "{rate:?}");
        (0..20).for_each(|_| rate.observe(100.0));
        assert!((rate.value() - 100.0).abs() < 0.1, "{rate:?}");
        (0..7).for_each(|_| rate.observe(10.0));
        assert!(rate.value() < 12.0, "{rate:?}");
    }

    #[test]
    fn what_is_no_quantity_says_nothing() {
        let mut rate = Estimate::assumed(5.0);
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            rate.observe(nothing);
        }
        assert_eq!(rate, Estimate::assumed(5.0));
        rate.observe_at_least(4.0);
        assert_eq!(rate, Estimate::assumed(5.0));
        rate.observe_at_least(6.0);
        assert_eq!((rate.value(), rate.is_observed()), (6.0, true));
    }
}
