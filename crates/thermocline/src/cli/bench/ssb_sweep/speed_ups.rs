//! Figure 9: speed-up over `pullup` by kind of query.

use thermocline_workloads::bench::{geometric_mean, median};

use super::outcome::Outcome;

/// Ratio of seconds up to which two modes are alike.
const ALIKE: f64 = 1.2;

/// Kind of a query, by the two modes that each use one means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    CachingBetter,
    PushdownBetter,
    Alike,
}

impl Kind {
    /// All kinds, in the paper's order.
    pub const ALL: [Self; 3] = [Self::CachingBetter, Self::PushdownBetter, Self::Alike];

    /// Its name in the figure.
    pub fn name(self) -> &'static str {
        match self {
            Self::CachingBetter => "caching better",
            Self::PushdownBetter => "pushdown better",
            Self::Alike => "alike",
        }
    }

    fn of(caching: f64, pushdown: f64) -> Self {
        match pushdown / caching {
            ratio if ratio > ALIKE => Self::CachingBetter,
            ratio if ratio < 1.0 / ALIKE => Self::PushdownBetter,
            _ => Self::Alike,
        }
    }
}

/// Median seconds of each query over the passes.
pub fn query_seconds(passes: &[Outcome]) -> Vec<f64> {
    let queries = passes.first().map_or(0, |pass| pass.seconds.len());
    let of = |query: usize| passes.iter().filter_map(|pass| pass.seconds.get(query).copied()).collect::<Vec<_>>();
    (0..queries).filter_map(|query| median(&of(query))).collect()
}

/// The kind of each query.
pub fn kinds(caching: &[f64], pushdown: &[f64]) -> Vec<Kind> {
    caching.iter().zip(pushdown).map(|(caching, pushdown)| Kind::of(*caching, *pushdown)).collect()
}

/// Geometric mean of a mode's speed-up over `pullup` for the queries of a kind; `None` if there are none.
pub fn speed_up(kind: Kind, kinds: &[Kind], pullup: &[f64], seconds: &[f64]) -> Option<f64> {
    let ratios = pullup.iter().zip(seconds).map(|(pullup, seconds)| pullup / seconds);
    geometric_mean(ratios.zip(kinds).filter(|(_, of)| **of == kind).map(|(ratio, _)| ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_of_the_kind_that_saves_more() {
        let (caching, pushdown) = ([1.0, 2.0, 1.0, 1.1], [2.0, 1.0, 1.1, 1.0]);
        let kinds = kinds(&caching, &pushdown);
        assert_eq!(kinds, [Kind::CachingBetter, Kind::PushdownBetter, Kind::Alike, Kind::Alike]);
        let pullup = [4.0, 8.0, 2.0, 8.0];
        let mean = |kind, seconds| speed_up(kind, &kinds, &pullup, seconds).map(|mean| (mean * 100.0).round() / 100.0);
        assert_eq!(mean(Kind::CachingBetter, &caching), Some(4.0));
        assert_eq!(mean(Kind::PushdownBetter, &caching), Some(4.0));
        assert_eq!(mean(Kind::Alike, &[1.0, 1.0, 1.0, 1.0]), Some(4.0));
        assert_eq!(speed_up(Kind::Alike, &kinds[..2], &pullup, &caching), None);
    }

    #[test]
    fn a_query_counts_with_its_median() {
        let pass = |seconds: [f64; 2]| Outcome { seconds: seconds.to_vec(), ..Outcome::default() };
        assert_eq!(query_seconds(&[pass([1.0, 9.0]), pass([3.0, 7.0]), pass([2.0, 8.0])]), [2.0, 8.0]);
        assert!(query_seconds(&[]).is_empty());
    }
}
