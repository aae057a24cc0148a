//! Synthetic queries of a calibration (thesis sections 4.3 and 4.4): which sizes, selectivities and hit ratios.

use crate::ssb::{Rng, Stream};

/// One filter over a table: everything that the thesis varies except the hit ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Partitions that are read: S.
    pub partitions: usize,
    /// Share of the rows that the filter should select: r. The rows that it does select are counted.
    pub row_selectivity: f64,
    /// Index of the set of columns that is selected, the smallest set first: c.
    pub columns: usize,
    /// Whether its queries are for validation only.
    pub is_validation: bool,
}

/// Values along the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// Shares of the partitions that are measured.
    pub sizes: Vec<f64>,
    /// Shares of rows.
    pub row_selectivities: Vec<f64>,
    /// Shares of the partitions read that are cached.
    pub hits: Vec<f64>,
    /// Share of the settings that are kept for validation.
    pub validation: f64,
    /// Seed of that choice and of the order.
    pub seed: u64,
}

impl Axes {
    /// The row selectivities and hit ratios of the thesis's validation (section 4.4), at three sizes.
    pub fn full(seed: u64) -> Self {
        Self {
            sizes: vec![0.25, 0.5, 1.0],
            row_selectivities: vec![0.1, 0.3, 0.6, 1.0],
            hits: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            validation: 0.3,
            seed,
        }
    }

    /// A few queries, for a run of seconds.
    pub fn quick(seed: u64) -> Self {
        Self {
            sizes: vec![0.5, 1.0],
            row_selectivities: vec![0.1, 0.5],
            hits: vec![0.0, 0.5, 1.0],
            validation: 0.25,
            seed,
        }
    }

    /// All settings for `partitions` partitions and `column_sets` sets of columns, in a random order. The seed decides the
    /// order and which settings are for validation: at least one and, if there are several, not all.
    pub fn settings(&self, partitions: usize, column_sets: usize) -> Vec<Setting> {
        let mut sizes: Vec<usize> =
            self.sizes.iter().map(|share| ((partitions as f64 * share).round() as usize).max(1)).collect();
        sizes.dedup();
        let mut settings = vec![];
        for partitions in sizes {
            for columns in 0..column_sets {
                for row_selectivity in &self.row_selectivities {
                    let row_selectivity = *row_selectivity;
                    settings.push(Setting { partitions, row_selectivity, columns, is_validation: false });
                }
            }
        }
        let mut rng = Rng::new(Stream::Calibration, self.seed);
        rng.shuffle(&mut settings);
        let validated = (settings.len() as f64 * self.validation).round() as usize;
        let validated = validated.clamp(1, (settings.len() - 1).max(1));
        settings.iter_mut().take(validated).for_each(|setting| setting.is_validation = true);
        rng.shuffle(&mut settings);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_all_there_and_a_share_is_for_validation() {
        let settings = Axes::full(1).settings(100, 3);
        assert_eq!(settings.len(), 3 * 4 * 3);
        assert_eq!(settings.iter().filter(|setting| setting.is_validation).count(), 11);
        for (number, setting) in settings.iter().enumerate() {
            assert!(!settings[..number].contains(setting), "{setting:?} comes twice");
        }
        assert_eq!(settings, Axes::full(1).settings(100, 3), "a seed decides");
        assert_ne!(settings, Axes::full(2).settings(100, 3));
        assert_eq!(Axes::full(1).settings(1, 1).iter().filter(|setting| setting.is_validation).count(), 1);
    }
}
