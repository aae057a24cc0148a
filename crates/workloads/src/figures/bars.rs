//! Grouped bars: a group for each category, a bar in it for each series.

use std::ops::Range;

use datafusion::common::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Places, Scale, number};
use super::caption::Caption;
use super::panels::{Panel, Panels};
use super::point::Point;
use super::sheet::{Area, GRID, INK, TEXT, colour, failed, sheet};

/// Share of a group's width that its bars take.
const FILLED: f64 = 0.82;
/// Bars of this many pixels have room for their value above them.
const LABELLED: f64 = 30.0;
const HEIGHT: u32 = 300;
/// Left of the bars, for the axis.
const SIDE: u32 = 110;

/// A chart for each panel of `points`, one below the other or, if they are small, two abreast.
///
/// # Errors
/// If there is no point to draw.
pub fn bars(caption: &Caption, y_label: &str, points: &[Point<String>]) -> Result<String> {
    let Panels { series, panels } = Panels::new(points);
    // Bars and the gaps between groups, as many of the same width as the widest panel has.
    let slots = panels.iter().map(|panel| panel.xs.len() * (panel.series().len() + 1)).max().unwrap_or(0) as u32;
    let columns = if slots <= 20 && panels.len() > 1 { 2 } else { 1 };
    let width = SIDE + (slots * if slots <= 40 { 34 } else { 13 }).clamp(480, 2400);
    sheet(caption, &series, (panels.len(), columns), (width, HEIGHT), |number, area| match panels.get(number) {
        Some(panel) => chart(area, panel, y_label),
        None => Ok(()),
    })
}

fn chart(area: &Area<'_>, panel: &Panel<'_, String>, y_label: &str) -> Result<()> {
    let groups = panel.xs.len() as f64;
    let x_places = Places { range: -0.5..groups - 0.5, ticks: (0..panel.xs.len()).map(|x| x as f64).collect() };
    let y_places = Places::new(Scale::Linear, panel.medians().map(|(_, _, y)| y));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(panel.title, ("sans-serif", TEXT + 2.0).into_font().color(&INK))
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(x_places, y_places)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", TEXT).into_font().color(&INK))
        .y_desc(y_label)
        .x_label_formatter(&|x| panel.xs.get(x.round() as usize).map(|name| (*name).clone()).unwrap_or_default())
        .y_label_formatter(&|y| number(*y))
        .draw()
        .map_err(failed)?;
    let series = panel.series();
    let pixels = f64::from(area.dim_in_pixel().0.saturating_sub(SIDE)) / groups;
    let labelled = pixels * FILLED / series.len() as f64 >= LABELLED;
    for (number_of_series, x, y) in panel.medians() {
        let at = series.iter().position(|known| *known == number_of_series).unwrap_or_default();
        let bar = bar(x, at, series.len());
        let middle = f64::midpoint(bar.start, bar.end);
        let body = Rectangle::new([(bar.start, 0.0), (bar.end, y)], colour(number_of_series).filled());
        chart.draw_series([body]).map_err(failed)?;
        if labelled {
            let style = ("sans-serif", TEXT - 2.0).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Bottom));
            chart.draw_series([Text::new(number(y), (middle, y), style)]).map_err(failed)?;
        }
    }
    Ok(())
}

/// Where bar number `at` of `count` stands in group `x`.
fn bar(x: usize, at: usize, count: usize) -> Range<f64> {
    let width = FILLED / count as f64;
    let start = x as f64 - FILLED / 2.0 + at as f64 * width;
    start..start + width * 0.94
}
