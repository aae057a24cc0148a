//! Maps: which of several is at a place.

use datafusion::common::Result;
use plotters::prelude::*;

use super::axis::{Places, Scale, number};
use super::caption::Caption;
use super::panels::{Panel, Panels};
use super::point::Point;
use super::sheet::{Area, INK, TEXT, colour, failed, sheet};

const WIDTH: u32 = 360;
const HEIGHT: u32 = 380;
/// Share of a step by which squares overlap, so that rounding to pixels leaves no gaps.
const OVERLAP: f64 = 0.02;

/// Places of a map, evenly spaced, and the labels of its axes.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    /// Label of the horizontal axis, with the unit.
    pub x_label: &'a str,
    /// Label of the vertical axis, with the unit.
    pub y_label: &'a str,
    /// Distance of neighbouring places, horizontally and vertically.
    pub step: f64,
}

/// A map for each panel of `points`, side by side: around each point, a square in the colour of its series. All series of
/// `names` are in the legend, in this order, wherever they are.
///
/// # Errors
/// If there is no point to draw.
pub fn regions(caption: &Caption, grid: Grid<'_>, names: &[&str], points: &[Point<f64>]) -> Result<String> {
    let Panels { series, panels } = Panels::new(points);
    let numbers: Vec<usize> =
        series.iter().map(|name| names.iter().position(|known| known == name).unwrap_or(names.len())).collect();
    sheet(caption, names, (panels.len(), panels.len()), (WIDTH, HEIGHT), |number, area| match panels.get(number) {
        Some(panel) => chart(area, panel, grid, &numbers),
        None => Ok(()),
    })
}

fn chart(area: &Area<'_>, panel: &Panel<'_, f64>, grid: Grid<'_>, numbers: &[usize]) -> Result<()> {
    let Grid { x_label, y_label, step } = grid;
    let places = |values: &[f64]| {
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        let range = low - step / 2.0..high + step / 2.0;
        Places { ticks: Scale::Linear.ticks(&range), range }
    };
    let xs: Vec<f64> = panel.xs.iter().map(|x| **x).collect();
    let ys: Vec<f64> = panel.all().map(|(_, _, y)| y).collect();
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(panel.title, ("sans-serif", TEXT + 2.0).into_font().color(&INK))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(places(&xs), places(&ys))
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK)
        .label_style(("sans-serif", TEXT).into_font().color(&INK))
        .x_desc(x_label)
        .y_desc(y_label)
        .x_label_formatter(&|place| number(*place))
        .y_label_formatter(&|place| number(*place))
        .draw()
        .map_err(failed)?;
    let half = step / 2.0 * (1.0 + OVERLAP);
    let square = |(series, at, y): (usize, usize, f64)| {
        let x = xs.get(at).copied()?;
        let colour = colour(numbers.get(series).copied()?);
        Some(Rectangle::new([(x - half, y - half), (x + half, y + half)], colour.filled()))
    };
    chart.draw_series(panel.all().filter_map(square)).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_square() {
        let caption = Caption { title: "Fastest".into(), subtitle: "S = 15 GB".into() };
        let grid = Grid { x_label: "x", y_label: "y", step: 1.0 };
        let points: Vec<Point<f64>> = (0..9)
            .map(|place| (f64::from(place % 3), f64::from(place / 3)))
            .map(|(x, y)| Point::new("h = 0.5", if x < y { "hybrid" } else { "caching" }, x, y))
            .collect();
        let svg = regions(&caption, grid, &["caching", "pushdown", "hybrid"], &points).unwrap();
        // Nine places, three legend entries, the page.
        assert_eq!(svg.matches("<rect").count(), 9 + 3 + 1, "{svg}");
        assert_eq!(svg.matches("#009E73").count(), 3 + 1, "hybrid is above the diagonal");
        assert!(regions(&caption, grid, &[], &[]).is_err());
    }
}
