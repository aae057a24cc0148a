//! Statistics of several measured times.

/// The median, the larger of two middle values; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The geometric mean of positive values; `None` without values.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.into_iter().fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value.ln()));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// Seconds of one query at one compute power of storage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtPower {
    /// Share of the storage node's cores.
    pub power: f64,
    /// Without pushdown.
    pub no: f64,
    /// With eager pushdown.
    pub eager: f64,
    /// With adaptive pushdown.
    pub adaptive: f64,
}

impl AtPower {
    /// How many times as fast adaptive pushdown is as the better of no and eager pushdown.
    pub fn speed_up(&self) -> f64 {
        self.no.min(self.eager) / self.adaptive
    }
}

/// Where no and eager pushdown take equally long (Enhancing Computation Pushdown section 6.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BreakEven {
    /// At `power`, where adaptive pushdown is `speed_up` times as fast as either.
    At {
        /// Between two measured powers.
        power: f64,
        /// Seconds of no pushdown over those of adaptive pushdown.
        speed_up: f64,
    },
    /// Eager pushdown pays down to this power, the lowest measured.
    Below(f64),
    /// Eager pushdown does not pay even at this power, the highest measured.
    Above(f64),
}

impl BreakEven {
    /// Looks from the lowest power up for the first at which eager pushdown pays, and interpolates
    /// between it and the one before, in logarithms. `None` if nothing was measured.
    pub fn find(measured: &[AtPower]) -> Option<Self> {
        let mut measured = measured.to_vec();
        measured.sort_by(|a, b| a.power.total_cmp(&b.power));
        let lag = |at: &AtPower| (at.eager / at.no).ln();
        let pays = measured.iter().position(|at| lag(at) < 0.0);
        let Some(pays) = pays else { return measured.last().map(|highest| Self::Above(highest.power)) };
        let high = measured.get(pays)?;
        let Some(low) = pays.checked_sub(1).and_then(|before| measured.get(before)) else {
            return Some(Self::Below(high.power));
        };
        let way = lag(low) / (lag(low) - lag(high));
        let between = |low: f64, high: f64| (low.ln() + way * (high.ln() - low.ln())).exp();
        let speed_up = between(low.no, high.no) / between(low.adaptive, high.adaptive);
        Some(Self::At { power: between(low.power, high.power), speed_up })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(power: f64, no: f64, eager: f64, adaptive: f64) -> AtPower {
        AtPower { power, no, eager, adaptive }
    }

    #[test]
    fn means() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0])), (None, Some(2.0), Some(2.0)));
        assert_eq!(geometric_mean([]), None);
        assert!((geometric_mean([1.0, 4.0, 16.0]).unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn eager_pushdown_in_inverse_proportion_to_power_breaks_even_between() {
        // Eager takes 1 / power seconds, no pushdown 5: even at 0.2, whatever was measured around it.
        let measured: Vec<AtPower> =
            [1.0, 0.4, 0.1, 0.05].map(|power| at(power, 5.0, 1.0 / power, 1.0 / (power + 0.2))).to_vec();
        let Some(BreakEven::At { power, speed_up }) = BreakEven::find(&measured) else { panic!("none found") };
        assert!((power - 0.2).abs() < 1e-9, "{power}");
        // Interpolated between 1 / 0.6 and 1 / 0.3.
        assert!((speed_up - 5.0 * (0.6_f64 * 0.3).sqrt()).abs() < 1e-9, "{speed_up}");
    }

    #[test]
    fn there_may_be_no_such_power() {
        assert_eq!(BreakEven::find(&[]), None);
        assert_eq!(BreakEven::find(&[at(1.0, 1.0, 2.0, 1.0), at(0.5, 1.0, 4.0, 1.0)]), Some(BreakEven::Above(1.0)));
        assert_eq!(BreakEven::find(&[at(1.0, 2.0, 1.0, 1.0), at(0.5, 2.0, 1.5, 1.0)]), Some(BreakEven::Below(0.5)));
    }
}
