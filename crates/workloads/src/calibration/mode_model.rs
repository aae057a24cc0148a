//! The thesis's model of one mode, and its regression.

use thermocline_pushdown::Mode;

use super::inputs::{Inputs, PARAMETERS, RESOURCES, Work, seconds_of};
use super::regression::least_squares;

/// Number of values that are tried for [`ModeModel::serial_share`].
const SHARES: usize = 21;
/// Maximum number of regressions for one share. By then, the resource that takes longest in each query has settled, or
/// alternates between two.
const ROUNDS_MAX: usize = 25;

/// Parameters of one mode: T = overhead + longest + serial share (sum - longest), over the seconds of its resources.
///
/// A serial share of 1 makes the sums of equations 4.1 and 4.2, where resources work one after the other; 0 makes the
/// maximum of all three, where they overlap. No share makes equation 4.3, the maximum of computing here and the sum of
/// storage and link: it fits a storage that sends nothing before it has finished computing. Storage nodes here send
/// while they compute, and columns are decoded while others are on their way, so the share is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModeModel {
    /// The mode.
    pub mode: Mode,
    /// T_overhead, in seconds.
    pub overhead_s: f64,
    /// Seconds per unit of work: 1 / BW_network, 1 / BW_storage, 1 / BW_compute, and seconds per row filtered here.
    pub parameters: Work,
    /// Share of the shorter resources' time that does not overlap with the longest.
    pub serial_share: f64,
}

impl ModeModel {
    /// Seconds of a query.
    pub fn seconds(&self, inputs: &Inputs) -> f64 {
        self.overhead_s + together(seconds_of(&inputs.work(self.mode), &self.parameters), self.serial_share)
    }

    /// Fits a mode to queries and their seconds: one linear regression for each serial share, of which the best is kept.
    /// Residuals are relative to the measured seconds, as the reported errors are. Which resource takes longest depends on
    /// the parameters, so a regression is repeated until the longest resources are those that it assumed.
    ///
    /// `None` with fewer queries than parameters, including the overhead.
    pub fn fit(mode: Mode, queries: &[(Inputs, f64)]) -> Option<Self> {
        let queries: Vec<(Work, f64)> =
            queries.iter().filter(|(_, seconds)| *seconds > 0.0).map(|(inputs, s)| (inputs.work(mode), *s)).collect();
        if queries.len() <= PARAMETERS {
            return None;
        }
        let shares = (0..SHARES).map(|step| step as f64 / (SHARES - 1) as f64);
        let fitted = shares.filter_map(|share| fit_share(mode, &queries, share));
        fitted.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, model)| model)
    }
}

fn together(seconds: [f64; RESOURCES.len()], serial_share: f64) -> f64 {
    let longest = seconds.into_iter().fold(0.0, f64::max);
    longest + serial_share * (seconds.iter().sum::<f64>() - longest)
}

/// The best fit for one share, with its sum of squared residuals.
fn fit_share(mode: Mode, queries: &[(Work, f64)], serial_share: f64) -> Option<(f64, ModeModel)> {
    let mut best: Option<(f64, ModeModel)> = None;
    // At first, all resources count equally.
    let mut weights = vec![[1.0; RESOURCES.len()]; queries.len()];
    for _ in 0..ROUNDS_MAX {
        let weighted = |((work, seconds), weights): (&(Work, f64), &[f64; RESOURCES.len()])| {
            let mut row = vec![1.0 / seconds; 1 + PARAMETERS];
            for (positions, weight) in RESOURCES.iter().zip(weights) {
                for at in *positions {
                    if let (Some(place), Some(amount)) = (row.get_mut(1 + at), work.get(*at)) {
                        *place = weight * amount / seconds;
                    }
                }
            }
            row
        };
        let rows: Vec<Vec<f64>> = queries.iter().zip(&weights).map(weighted).collect();
        let found = least_squares(&rows, &vec![1.0; queries.len()])?;
        let (overhead_s, parameters) = found.split_first()?;
        let model = ModeModel { mode, overhead_s: *overhead_s, parameters: parameters.try_into().ok()?, serial_share };
        let residual = |(work, seconds): &(Work, f64)| {
            let expected = model.overhead_s + together(seconds_of(work, &model.parameters), serial_share);
            (expected / seconds - 1.0).powi(2)
        };
        let error: f64 = queries.iter().map(residual).sum();
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, model));
        }
        let next: Vec<_> = queries.iter().map(|(work, _)| weights_of(work, &model.parameters, serial_share)).collect();
        if next == weights {
            break;
        }
        weights = next;
    }
    best
}

/// 1 for the longest resource, the serial share for others.
fn weights_of(work: &Work, parameters: &Work, serial_share: f64) -> [f64; RESOURCES.len()] {
    let seconds = seconds_of(work, parameters);
    let longest = seconds.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at);
    let mut weights = [serial_share; RESOURCES.len()];
    if let Some(weight) = weights.get_mut(longest) {
        *weight = 1.0;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries of all sizes, selectivities and hit ratios.
    fn inputs() -> Vec<Inputs> {
        let mut all = vec![];
        for stored_bytes in [1e6, 4e6, 16e6] {
            for selectivity in [0.05, 0.3, 1.0] {
                for columns in [0.2, 0.6, 1.0] {
                    for hit in [0.0, 0.25, 0.5, 0.75, 1.0] {
                        let stored_bytes = stored_bytes * columns;
                        let selected_bytes = 5.0 * selectivity * stored_bytes;
                        let rows = stored_bytes / columns / 50.0;
                        all.push(Inputs {
                            rows,
                            stored_bytes,
                            hit,
                            selected_bytes,
                            answer_bytes: 0.4 * selected_bytes,
                        });
                    }
                }
            }
        }
        all
    }

    fn refitted(model: ModeModel) -> ModeModel {
        let queries: Vec<(Inputs, f64)> = inputs().into_iter().map(|inputs| (inputs, model.seconds(&inputs))).collect();
        let fitted = ModeModel::fit(model.mode, &queries).unwrap();
        for (inputs, seconds) in queries {
            let error = (fitted.seconds(&inputs) - seconds).abs() / seconds;
            assert!(error < 0.02, "{error} at {inputs:?}\n{model:?}\n{fitted:?}");
        }
        fitted
    }

    #[test]
    fn a_model_is_found_again() {
        let link = 1.0 / 25e6;
        for serial_share in [0.0, 0.15, 1.0] {
            for (mode, parameters) in [
                (Mode::Caching, [link, 0.0, 1e-9, 4e-9]),
                (Mode::Pushdown, [link, 1e-8, 0.0, 0.0]),
                (Mode::Hybrid, [link, 1e-8, 5e-9, 4e-9]),
            ] {
                let fitted = refitted(ModeModel { mode, overhead_s: 0.004, parameters, serial_share });
                let [found, ..] = fitted.parameters;
                assert!((found / link - 1.0).abs() < 0.05, "{fitted:?}");
            }
        }
    }

    #[test]
    fn few_queries_fit_nothing() {
        let few: Vec<(Inputs, f64)> = inputs().into_iter().take(PARAMETERS).map(|inputs| (inputs, 1.0)).collect();
        assert_eq!(ModeModel::fit(Mode::Caching, &few), None);
        assert_eq!(ModeModel::fit(Mode::Hybrid, &[]), None);
    }
}
