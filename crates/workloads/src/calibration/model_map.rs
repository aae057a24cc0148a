//! Figures 4-4 to 4-6 of the thesis: the fastest mode over the ratios of bandwidths.

use datafusion::common::Result;
use thermocline_pushdown::Mode;

use super::thesis_model::{Selectivity, ThesisModel};
use crate::figures::{Caption, Grid, Point, regions};

/// Settings of table 4.2, by the names of their figures.
pub const SETTINGS: [(&str, &str, Selectivity); 3] = [
    ("4-4", "low selectivity", Selectivity { rows: 0.1, columns: 0.1 }),
    ("4-5", "medium selectivity", Selectivity { rows: 0.5, columns: 0.5 }),
    ("4-6", "high selectivity", Selectivity { rows: 0.8, columns: 0.8 }),
];

/// Modes in the order of the legend.
const MODES: [Mode; 3] = [Mode::Caching, Mode::Pushdown, Mode::Hybrid];

/// Values along the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct MapAxes {
    /// Smallest value of both ratios.
    pub ratio_min: f64,
    /// Largest value of both ratios.
    pub ratio_max: f64,
    /// Number of steps between them.
    pub steps: u32,
    /// Hit ratios, one panel each.
    pub hits: Vec<f64>,
}

impl MapAxes {
    fn ratios(&self) -> impl Iterator<Item = f64> {
        let step = self.step();
        (0..=self.steps).map(move |number| self.ratio_min + f64::from(number) * step)
    }

    fn step(&self) -> f64 {
        (self.ratio_max - self.ratio_min) / f64::from(self.steps.max(1))
    }

    /// The fastest mode at each place: hit ratio, BW_compute / BW_storage, BW_network / BW_storage, mode.
    pub fn fastest(&self, model: &ThesisModel, selectivity: Selectivity) -> Vec<(f64, f64, f64, Mode)> {
        let mut places = vec![];
        for hit in &self.hits {
            for compute in self.ratios() {
                for network in self.ratios() {
                    let (compute_rate, network_rate) = (compute * model.storage, network * model.storage);
                    let there = ThesisModel { compute: compute_rate, network: network_rate, ..*model };
                    places.push((*hit, compute, network, there.fastest(selectivity, *hit)));
                }
            }
        }
        places
    }
}

/// A map for each hit ratio. `name` names the selectivity, `source` the origin of the parameters.
///
/// # Errors
/// If there is no hit ratio or step.
pub fn map_figure(
    axes: &MapAxes,
    model: &ThesisModel,
    (name, selectivity): (&str, Selectivity),
    source: &str,
) -> Result<String> {
    let Selectivity { rows, columns } = selectivity;
    let ThesisModel { stored_bytes, stored_per_memory, compute_overhead_s, storage_overhead_s, storage, .. } = model;
    let caption = Caption {
        title: format!("Fastest mode by the model, {name} (r = {rows}, c = {columns})"),
        subtitle: format!(
            "S = {:.3} GB, R = {stored_per_memory:.2}, BW_storage = {:.3} GB/s, overheads {compute_overhead_s:.3} s \
             (compute), {storage_overhead_s:.3} s (storage); {source}",
            stored_bytes / 1e9,
            storage / 1e9
        ),
    };
    let grid = Grid { x_label: "BW_compute / BW_storage", y_label: "BW_network / BW_storage", step: axes.step() };
    let place = |(hit, x, y, mode): (f64, f64, f64, Mode)| Point::new(format!("h = {hit}"), mode.name(), x, y);
    let points: Vec<Point<f64>> = axes.fastest(model, selectivity).into_iter().map(place).collect();
    regions(&caption, grid, &MODES.map(Mode::name), &points)
}
