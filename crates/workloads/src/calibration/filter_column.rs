//! The column that synthetic queries filter by.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;

/// Values of one column in a sample of partitions.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    /// Its name.
    pub(super) name: String,
    /// Whether its values are integers.
    is_integer: bool,
    /// Digits of a decimal after the point.
    scale: usize,
    /// Sorted values of each partition, without NULL.
    partitions: Vec<Vec<f64>>,
    /// Whether no value is NaN or infinite, which SQL has no literals for.
    is_finite: bool,
}

/// Selectivities at which columns are compared.
const PROBES: [f64; 4] = [0.1, 0.3, 0.5, 0.9];

impl Sampled {
    /// An empty sample of a column; `None` for types that cannot be compared with numbers.
    pub(super) fn new(name: &str, data_type: &DataType) -> Option<Self> {
        let scale = match data_type {
            DataType::Decimal128(_, scale) => usize::try_from(*scale).ok()?,
            data_type if data_type.is_integer() => 0,
            DataType::Float32 | DataType::Float64 => 0,
            _ => return None,
        };
        let is_integer = data_type.is_integer();
        Some(Self { name: name.to_owned(), is_integer, scale, partitions: vec![], is_finite: true })
    }

    /// Adds a partition's values.
    ///
    /// # Errors
    /// If they are not numbers.
    pub(super) fn add(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let mut values: Vec<f64> = vec![];
        for array in arrays {
            let numbers = cast(array, &DataType::Float64)?;
            let numbers = numbers.as_primitive_opt::<Float64Type>();
            values.extend(numbers.into_iter().flat_map(|numbers| numbers.iter().flatten()));
        }
        self.is_finite &= values.iter().all(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        self.partitions.push(values);
        Ok(())
    }

    /// How far a filter on the column is from selecting the wanted share of every partition: 0 for a column of many values
    /// that are spread evenly over all partitions; infinite without values, and with a NaN or an infinity among them.
    pub(super) fn unevenness(&self) -> f64 {
        let all = self.sorted();
        if !self.is_finite || all.is_empty() || self.partitions.iter().any(Vec::is_empty) {
            return f64::INFINITY;
        }
        let mut worst: f64 = 0.0;
        for wanted in PROBES {
            let Some(threshold) = quantile(&all, wanted) else { return f64::INFINITY };
            for values in &self.partitions {
                let selected = values.partition_point(|value| *value <= threshold) as f64 / values.len() as f64;
                worst = worst.max((selected - wanted).abs());
            }
        }
        worst
    }

    /// A predicate that selects about this share of the rows; `None` without values, and with a NaN or an infinity
    /// among them.
    pub(super) fn predicate(&self, selectivity: f64) -> Option<String> {
        let threshold = quantile(&self.sorted(), selectivity).filter(|_| self.is_finite)?;
        let number = match self.is_integer {
            true => format!("{threshold:.0}"),
            false if self.scale > 0 => format!("{threshold:.*}", self.scale),
            // An exponent makes it a float, as the column is.
            false => format!("{threshold:e}"),
        };
        Some(format!("{} <= {number}", quoted(&self.name)))
    }

    fn sorted(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.partitions.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// The smallest value that at least this share of all values do not exceed.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied()
}

/// A name, quoted for SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Float32Array, Float64Array, Int32Array, StringArray};

    use super::*;

    fn integers(partitions: [Vec<i32>; 2]) -> Sampled {
        let mut sampled = Sampled::new("k", &DataType::Int32).unwrap();
        partitions.into_iter().for_each(|values| sampled.add(&[Arc::new(Int32Array::from(values))]).unwrap());
        sampled
    }

    #[test]
    fn a_column_that_is_spread_is_preferred() {
        let spread = integers([(0..100).collect(), (0..100).rev().collect()]);
        let sorted = integers([(0..100).collect(), (100..200).collect()]);
        let two_values = integers([[0, 1].repeat(50), [1, 0].repeat(50)]);
        assert!(spread.unevenness() < 0.02, "{}", spread.unevenness());
        assert!(sorted.unevenness() > 0.3 && two_values.unevenness() > 0.3);
        assert_eq!(integers([vec![], vec![1]]).unevenness(), f64::INFINITY);
        assert!(Sampled::new("t", &DataType::Utf8View).is_none());
    }

    #[test]
    fn predicates_select_about_as_much_as_wanted() {
        let spread = integers([(0..100).collect(), (0..100).collect()]);
        assert_eq!(spread.predicate(0.3).as_deref(), Some("\"k\" <= 29"));
        assert_eq!(spread.predicate(1.0).as_deref(), Some("\"k\" <= 99"));
        let mut decimal = Sampled::new("a\"b", &DataType::Decimal128(10, 2)).unwrap();
        let values = Decimal128Array::from(vec![Some(150), None, Some(275)]).with_precision_and_scale(10, 2).unwrap();
        decimal.add(&[Arc::new(values)]).unwrap();
        assert_eq!(decimal.predicate(0.5).as_deref(), Some("\"a\"\"b\" <= 1.50"));
        let mut float = floats(&[0.25, 4.0]);
        assert_eq!(float.predicate(0.5).as_deref(), Some("\"f\" <= 2.5e-1"));
        assert_eq!(float.predicate(2.0).as_deref(), Some("\"f\" <= 4e0"));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        assert!(float.add(&[text]).is_ok(), "text that is not a number is NULL");
    }

    fn floats(values: &[f64]) -> Sampled {
        let mut sampled = Sampled::new("f", &DataType::Float64).unwrap();
        sampled.add(&[Arc::new(Float64Array::from(values.to_vec()))]).unwrap();
        sampled
    }

    /// In SQL, `inf` would name a column.
    #[test]
    fn nan_and_infinities_make_no_filter() {
        let numbers: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(floats(&numbers).unevenness() < 0.02);
        for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
            let sampled = floats(&[&numbers[..], &[value]].concat());
            assert_eq!(sampled.unevenness(), f64::INFINITY, "{value} in one value of a hundred");
            for selectivity in [0.001, 0.1, 0.5, 1.0] {
                assert_eq!(sampled.predicate(selectivity), None, "{value} at {selectivity}");
            }
            // In whichever partition it is.
            let mut sampled = floats(&numbers);
            sampled.add(&[Arc::new(Float64Array::from(vec![Some(value), None, Some(1.0)]))]).unwrap();
            sampled.add(&[Arc::new(Float64Array::from(numbers.clone()))]).unwrap();
            assert_eq!((sampled.unevenness(), sampled.predicate(0.5)), (f64::INFINITY, None), "{value}");
        }
        let of_single = Arc::new(Float32Array::from(vec![1.0, f32::INFINITY]));
        let mut sampled = Sampled::new("f", &DataType::Float32).unwrap();
        sampled.add(&[of_single]).unwrap();
        assert_eq!(sampled.predicate(1.0), None);
        // The largest numbers are numbers.
        assert_eq!(floats(&[f64::MIN, f64::MAX]).predicate(1.0), Some(format!("\"f\" <= {:e}", f64::MAX)));
    }
}
