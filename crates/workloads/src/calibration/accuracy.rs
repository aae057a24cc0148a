//! How well a model fits (thesis equations 4.11 and 4.13).

/// Absolute percentage errors, in per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Mean (MAPE).
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 80th percentile.
    pub p80: f64,
    /// 90th percentile.
    pub p90: f64,
}

impl Errors {
    /// Those of pairs of actual and predicted seconds; `None` without any.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut errors: Vec<f64> =
            pairs.iter().map(|(actual, predicted)| 100.0 * (actual - predicted).abs() / actual).collect();
        errors.sort_by(f64::total_cmp);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        Some(Self {
            mean,
            median: percentile(&errors, 50.0)?,
            p80: percentile(&errors, 80.0)?,
            p90: percentile(&errors, 90.0)?,
        })
    }
}

/// The percentile `share` of `sorted` numbers, by the nearest rank.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// r2 of pairs of actual and predicted seconds: 1 minus the sum of squared errors over that of the mean. (Equation
/// 4.11 prints the inverse fraction; the thesis's text describes this one.) `None` if all actual seconds are the same.
pub fn r_squared(pairs: &[(f64, f64)]) -> Option<f64> {
    let mean = pairs.iter().map(|(actual, _)| actual).sum::<f64>() / pairs.len() as f64;
    let total: f64 = pairs.iter().map(|(actual, _)| (actual - mean).powi(2)).sum();
    let errors: f64 = pairs.iter().map(|(actual, predicted)| (actual - predicted).powi(2)).sum();
    (total > 0.0).then(|| 1.0 - errors / total)
}

/// Quality of the choices of a mode by predicted seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Choices {
    /// Queries that were measured in more than one mode.
    pub total: usize,
    /// Queries whose mode with the fewest predicted seconds was also the fastest.
    pub right: usize,
    /// Sum of the regrets of the others: actual seconds of the choice over those of the fastest mode, minus 1.
    regret: f64,
    /// The largest regret.
    pub regret_max: f64,
}

impl Choices {
    /// Adds a query, with the actual and the predicted seconds of each mode.
    pub fn add(&mut self, modes: &[(f64, f64)]) {
        let choice = modes.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let best = modes.iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (Some((chosen, _)), Some((best, _)), true) = (choice, best, modes.len() > 1) else { return };
        self.count(chosen / best - 1.0, 0.0);
    }

    /// Counts a choice with this regret, which is right up to `tolerance`.
    fn count(&mut self, regret: f64, tolerance: f64) {
        self.total += 1;
        if regret <= tolerance {
            self.right += 1;
            return;
        }
        self.regret += regret;
        self.regret_max = self.regret_max.max(regret);
    }

    /// Mean regret of the wrong choices; 0 if there are none.
    pub fn regret_mean(&self) -> f64 {
        self.regret / (self.total - self.right).max(1) as f64
    }
}

/// Share by which times of the same route differ.
const SAME: f64 = 0.05;

/// Mode `auto` beside the modes that have one route for what is not cached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AutoOutcomes {
    /// Its choices: right is what took at most 5 % longer than the fastest of the others.
    pub choices: Choices,
    /// Queries that took at least 5 % less.
    pub faster: usize,
    /// Of each query, the seconds that its scan took and the seconds that the model expected.
    scans: Vec<(f64, f64)>,
}

impl AutoOutcomes {
    /// Adds a query: seconds of `auto`, those of each other mode, and those that its scan took and was expected to take.
    pub fn add(&mut self, seconds: f64, others: impl IntoIterator<Item = f64>, scan: (f64, f64)) {
        self.scans.push(scan);
        let Some(best) = others.into_iter().min_by(f64::total_cmp) else { return };
        let regret = seconds / best - 1.0;
        self.faster += usize::from(regret <= -SAME);
        self.choices.count(regret, SAME);
    }

    /// Errors of the model that chose the routes; `None` without queries.
    pub fn errors(&self) -> Option<Errors> {
        Errors::of(&self.scans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_what_was_measured() {
        let pairs: Vec<(f64, f64)> = (1..=10).map(|percent| (2.0, 2.0 * (1.0 + f64::from(percent) / 100.0))).collect();
        let Errors { mean, median, p80, p90 } = Errors::of(&pairs).unwrap();
        for (found, expected) in [(mean, 5.5), (median, 5.0), (p80, 8.0), (p90, 9.0)] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(Errors::of(&[]), None);
    }

    #[test]
    fn r_squared_is_one_for_what_is_exact_and_zero_for_the_mean() {
        assert_eq!(r_squared(&[(1.0, 1.0), (3.0, 3.0)]), Some(1.0));
        assert_eq!(r_squared(&[(1.0, 2.0), (3.0, 2.0)]), Some(0.0));
        assert!(r_squared(&[(1.0, 9.0), (3.0, 9.0)]).unwrap() < 0.0);
        assert_eq!(r_squared(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn a_wrong_choice_costs_its_regret() {
        let mut choices = Choices::default();
        choices.add(&[(1.0, 1.1), (2.0, 1.9), (3.0, 5.0)]);
        choices.add(&[(1.0, 2.0), (1.1, 1.5)]);
        choices.add(&[(1.0, 2.0), (1.3, 1.5)]);
        choices.add(&[(1.0, 2.0)]);
        assert_eq!((choices.total, choices.right), (3, 1));
        assert!((choices.regret_mean() - 0.2).abs() < 1e-9 && (choices.regret_max - 0.3).abs() < 1e-9);
    }

    #[test]
    fn auto_is_as_fast_as_the_fastest_mode_or_has_a_regret() {
        let mut outcomes = AutoOutcomes::default();
        outcomes.add(1.04, [1.0, 2.0], (1.0, 1.1));
        outcomes.add(0.5, [1.0, 2.0], (0.4, 0.4));
        outcomes.add(1.2, [3.0, 1.0], (1.0, 0.7));
        outcomes.add(1.4, [1.0], (1.0, 1.0));
        outcomes.add(1.0, [], (1.0, 1.0));
        let choices = outcomes.choices;
        assert_eq!((choices.total, choices.right, outcomes.faster), (4, 2, 1));
        assert!((choices.regret_mean() - 0.3).abs() < 1e-9 && (choices.regret_max - 0.4).abs() < 1e-9);
        assert!((outcomes.errors().unwrap().mean - 8.0).abs() < 1e-9);
    }
}
