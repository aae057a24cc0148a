//! Scales, their ticks, and numbers on them.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Distribution of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero on.
    Linear,
    /// Equal ratios over equal distances. Values that are not positive are left out.
    Log,
}

/// An axis.
#[derive(Debug, Clone, Copy)]
pub struct Axis<'a> {
    /// Title, with the unit.
    pub label: &'a str,
    /// How values are laid out.
    pub scale: Scale,
}

/// Ticks that an axis has room for.
const TICKS: f64 = 5.0;

impl Scale {
    /// Place of a value; `None` if it has none.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        let place = match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        };
        place.is_finite().then_some(place)
    }

    /// The value at a place.
    pub(super) fn value(self, place: f64) -> f64 {
        match self {
            Scale::Linear => place,
            Scale::Log => 10_f64.powf(place),
        }
    }

    /// The range of places that contains `values`; never empty.
    fn range(self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let places = values.filter_map(|value| self.place(value));
        let (min, max) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), place| (min.min(place), max.max(place)));
        match self {
            _ if min > max => 0.0..1.0,
            Scale::Linear if min.min(0.0) == max.max(0.0) => 0.0..1.0,
            Scale::Linear => min.min(0.0) * 1.1..max.max(0.0) * 1.1,
            Scale::Log => {
                let margin = ((max - min) * 0.06).max(0.05);
                min - margin..max + margin
            }
        }
    }

    /// Places of round values within `range`.
    pub(super) fn ticks(self, range: &Range<f64>) -> Vec<f64> {
        if self == Scale::Log {
            let decades = range.start.floor() as i32..=range.end.ceil() as i32;
            let within = |steps: &[f64]| -> Vec<f64> {
                let decade = |decade| steps.iter().map(move |step| f64::from(decade) + step.log10());
                let all = decades.clone().flat_map(decade);
                all.filter(|place| range.contains(place)).collect()
            };
            let known: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]];
            let enough = known.into_iter().map(within).find(|ticks| ticks.len() >= 3);
            return enough.unwrap_or_else(|| vec![range.start, range.end]);
        }
        let rough = (range.end - range.start) / TICKS;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].into_iter().map(|step| step * decade).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let first = (range.start / step).ceil() as i64;
        let last = (range.end / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Places along an axis, and those of its ticks.
pub(super) struct Places {
    pub range: Range<f64>,
    pub ticks: Vec<f64>,
}

impl Places {
    /// Places for these values.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let range = scale.range(values);
        Self { ticks: scale.ticks(&range), range }
    }
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (place - self.range.start) / (self.range.end - self.range.start);
        first + (f64::from(last - first) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { vec![] } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A number with three significant digits.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return format!("{value:.1e}");
    }
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.05, 0.000_123_4, 1.0, 1.005, 12.34, 123.4, 12_345.0, 2.5e-7, 3e9];
        let texts = ["0", "0.05", "0.000123", "1", "1", "12.3", "123", "12345", "2.5e-7", "3.0e9"];
        assert_eq!(numbers.map(number), texts);
    }

    #[test]
    fn ticks_are_round_and_within() {
        let values = |scale: Scale, range: Range<f64>| -> Vec<String> {
            scale.ticks(&range).into_iter().map(|place| number(scale.value(place))).collect()
        };
        assert_eq!(values(Scale::Linear, 0.0..0.99), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(values(Scale::Linear, 0.0..11.0), ["0", "5", "10"]);
        assert_eq!(values(Scale::Log, 0.045_f64.log10()..1.1_f64.log10()), ["0.05", "0.1", "0.2", "0.5", "1"]);
        assert_eq!(values(Scale::Log, 0.9_f64.log10()..2000_f64.log10()), ["1", "10", "100", "1000"]);
    }

    #[test]
    fn every_range_has_a_length() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![0.0], vec![1.0], vec![-1.0], vec![f64::NAN], vec![3.0, 3.0], vec![1e-9, 1e12]] {
                let range = scale.range(values.iter().copied());
                assert!(range.start < range.end, "{scale:?} of {values:?}");
                assert!(scale.ticks(&range).len() >= 2, "{scale:?} of {values:?}");
            }
        }
    }
}
