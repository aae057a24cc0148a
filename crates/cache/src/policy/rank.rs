//! Positions in the eviction order.

/// Position of a segment in the eviction order; the lowest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rank(u128);

impl Rank {
    /// Rank of a moment in the past: the later, the higher.
    pub fn of_time(tick: u64) -> Self {
        Self(u128::from(tick))
    }

    /// Rank of a moment in the future: the sooner, the higher.
    pub fn of_next_use(tick: u64) -> Self {
        Self(u128::MAX - u128::from(tick))
    }

    /// `value` * 2^`doublings`, exactly and for any number of doublings: the value of a count `value` whose unit was
    /// worth 2^`doublings`. Anything but a positive number ranks lowest.
    pub fn scaled(value: f64, doublings: u64) -> Self {
        if !value.is_finite() || value <= 0.0 {
            return Self::default();
        }
        // The bits of positive numbers have the numbers' order, with the exponent above the fraction.
        Self(u128::from(value.to_bits()) + (u128::from(doublings) << (f64::MANTISSA_DIGITS - 1)))
    }
}
