//! Figures 4-1 to 4-3 of the thesis: measured seconds next to predicted ones.

use datafusion::common::Result;
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::format_size;

use super::calibrate::{Calibrated, Observation};
use super::design::Setting;
use super::inputs::Inputs;
use crate::figures::{Axis, Caption, Point, Scale, beside};

const SECONDS: Axis<'static> = Axis { label: "seconds", scale: Scale::Linear };
/// Settings of figure 4-3.
const SETTINGS: usize = 4;
const MB: f64 = 1e6;

/// Figure 4-1: queries over cached data, over the bytes that they select. A panel for each size.
///
/// # Errors
/// If no query found everything cached.
pub fn compute_figure(calibrated: &Calibrated) -> Result<String> {
    let x = Axis { label: "selected rows in memory, MB (r c S / R)", scale: Scale::Linear };
    let cached = |query: &&Observation| query.mode == Mode::Caching && query.inputs.hit >= 1.0;
    let observations: Vec<&Observation> = calibrated.observations.iter().filter(cached).collect();
    let caption = caption(calibrated, "Computing here: queries over cached columns");
    let at = |query: &Observation| query.inputs.selected_bytes / MB;
    draw(&caption, x, &observations, |query| (by_size(query), by_columns(query), at(query)))
}

/// Figure 4-2: pushed-down queries, over the bytes that come back. A panel for each size.
///
/// # Errors
/// If no query was pushed down.
pub fn pushdown_figure(calibrated: &Calibrated) -> Result<String> {
    let x = Axis { label: "answers over the link, MB (r c S)", scale: Scale::Linear };
    let pushed = |query: &&Observation| query.mode == Mode::Pushdown;
    let observations: Vec<&Observation> = calibrated.observations.iter().filter(pushed).collect();
    let caption = caption(calibrated, "Pushdown: queries that storage filters");
    let at = |query: &Observation| query.inputs.answer_bytes / MB;
    draw(&caption, x, &observations, |query| (by_size(query), by_columns(query), at(query)))
}

/// Figure 4-3: queries for validation, none of which was fitted, over the hit ratio. A panel for each of some settings.
///
/// # Errors
/// If no query was for validation.
pub fn hit_ratio_figure(calibrated: &Calibrated) -> Result<String> {
    let x = Axis { label: "hit ratio h", scale: Scale::Linear };
    let validated: Vec<&Observation> =
        calibrated.observations.iter().filter(|query| query.setting.is_validation).collect();
    // Settings with the most measurements, from the smallest to the largest.
    let mut settings: Vec<(usize, Setting)> = vec![];
    for query in &validated {
        match settings.iter_mut().find(|(_, setting)| *setting == query.setting) {
            Some((count, _)) => *count += 1,
            None => settings.push((1, query.setting)),
        }
    }
    let most = settings.iter().map(|(count, _)| *count).max().unwrap_or(0);
    settings.retain(|(count, _)| *count == most);
    settings.sort_by_key(|(_, setting)| (setting.partitions, setting.columns));
    let step = settings.len().div_ceil(SETTINGS).max(1);
    let shown: Vec<Setting> = settings.into_iter().map(|(_, setting)| setting).step_by(step).collect();
    let of_shown: Vec<Observation> = shown
        .iter()
        .flat_map(|setting| validated.iter().copied().filter(move |query| query.setting == *setting))
        .flat_map(at_all_hits)
        .filter(|query| calibrated.observations.iter().any(|known| known.mode == query.mode))
        .collect();
    let of_shown: Vec<&Observation> = of_shown.iter().collect();
    let caption = caption(calibrated, "Queries that were not fitted, over the hit ratio");
    draw(&caption, x, &of_shown, |query| {
        let Observation { row_selectivity, column_selectivity, inputs, .. } = query;
        let size = format_size(inputs.stored_bytes as u64);
        let panel = format!("S = {size}, r = {row_selectivity:.2}, c = {column_selectivity:.2}");
        (panel, query.mode.name().to_owned(), inputs.hit)
    })
}

/// The query, and the points of other lines that it also stands for: `pushdown` is the same at every hit ratio, and the
/// same as `hybrid` with nothing cached; with everything cached, `caching` is the same as `hybrid`.
fn at_all_hits(query: &Observation) -> Vec<Observation> {
    let at = |mode: Mode, hit: f64| Observation { mode, inputs: Inputs { hit, ..query.inputs }, ..query.clone() };
    match query.mode {
        Mode::Pushdown => vec![query.clone(), at(Mode::Pushdown, 1.0), at(Mode::Hybrid, 0.0)],
        Mode::Caching if query.inputs.hit >= 1.0 => vec![query.clone(), at(Mode::Hybrid, 1.0)],
        _ => vec![query.clone()],
    }
}

fn caption(calibrated: &Calibrated, title: &str) -> Caption {
    let calibration = &calibrated.calibration;
    Caption {
        title: title.to_owned(),
        subtitle: format!(
            "table {}, {}, at {}; solid: measured, dashed: modelled",
            calibration.table, calibration.format, calibration.node
        ),
    }
}

fn by_size(query: &Observation) -> String {
    let partitions = query.setting.partitions;
    format!("{partitions} partitions, {:.2} million rows", query.inputs.rows / 1e6)
}

fn by_columns(query: &Observation) -> String {
    format!("c = {:.2}", query.column_selectivity)
}

fn draw(
    caption: &Caption,
    x: Axis<'_>,
    observations: &[&Observation],
    place: impl Fn(&Observation) -> (String, String, f64),
) -> Result<String> {
    let mut observations = observations.to_vec();
    observations.sort_by_key(|query| (query.setting.partitions, query.setting.columns));
    let points = |seconds: fn(&Observation) -> f64| -> Vec<Point<f64>> {
        let point = |query: &&Observation| {
            let (panel, series, x) = place(query);
            Point::new(panel, series, x, seconds(query))
        };
        observations.iter().map(point).collect()
    };
    beside(caption, x, SECONDS, &points(|query| query.seconds), &points(|query| query.modelled))
}
