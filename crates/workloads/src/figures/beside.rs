//! Measured values as solid lines with marks, and modelled ones beside them as dashed lines.

use datafusion::common::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::axis::{Axis, Places, number};
use super::caption::Caption;
use super::lines::mark;
use super::panels::{Panel, Panels};
use super::point::Point;
use super::sheet::{Area, GRID, INK, TEXT, colour, failed, sheet};

const WIDTH: u32 = 400;
const HEIGHT: u32 = 300;
/// Pixels of a dash, and of the gap after it.
const DASH: (u32, u32) = (6, 4);

/// A chart for each panel of the points, in a grid: `measured` and `modelled` points of one series have one colour.
///
/// # Errors
/// If there is no point to draw.
pub fn beside(
    caption: &Caption,
    x: Axis<'_>,
    y: Axis<'_>,
    measured: &[Point<f64>],
    modelled: &[Point<f64>],
) -> Result<String> {
    let placed = |point: &&Point<f64>| x.scale.place(point.x).is_some() && y.scale.place(point.y).is_some();
    let only = |points: &[Point<f64>]| -> Vec<Point<f64>> { points.iter().filter(placed).cloned().collect() };
    let (measured, modelled) = (only(measured), only(modelled));
    let all = [measured.clone(), modelled.clone()].concat();
    let (whole, measured, modelled) = (Panels::new(&all), Panels::new(&measured), Panels::new(&modelled));
    let columns = (whole.panels.len() as f64).sqrt().ceil() as usize;
    let (width, height) = if columns < 2 { (2 * WIDTH, 3 * HEIGHT / 2) } else { (WIDTH, HEIGHT) };
    sheet(caption, &whole.series, (whole.panels.len(), columns), (width, height), |number, area| {
        let Some(panel) = whole.panels.get(number) else { return Ok(()) };
        let of = |panels: &Panels<'_, f64>| -> Vec<Line> {
            let known = panels.panels.iter().find(|known| known.title == panel.title);
            known.map(|known| lines_of(known, &panels.series, &whole.series)).unwrap_or_default()
        };
        chart(area, panel, (x, y), &of(&measured), &of(&modelled))
    })
}

/// A series' number in the whole figure, and its points by x.
struct Line {
    series: usize,
    points: Vec<(f64, f64)>,
}

fn lines_of(panel: &Panel<'_, f64>, names: &[&str], all_names: &[&str]) -> Vec<Line> {
    let line = |series: usize| {
        let name = names.get(series)?;
        let of_series = panel.medians().filter(|(of, _, _)| *of == series);
        let mut points: Vec<(f64, f64)> =
            of_series.filter_map(|(_, at, value)| Some((**panel.xs.get(at)?, value))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Some(Line { series: all_names.iter().position(|known| known == name)?, points })
    };
    panel.series().into_iter().filter_map(line).collect()
}

fn chart(
    area: &Area<'_>,
    panel: &Panel<'_, f64>,
    (x, y): (Axis<'_>, Axis<'_>),
    measured: &[Line],
    modelled: &[Line],
) -> Result<()> {
    let x_places = Places::new(x.scale, panel.xs.iter().map(|x| **x));
    // Both are to be seen whole, not the medians of both together.
    let ys = measured.iter().chain(modelled).flat_map(|line| line.points.iter().map(|(_, y)| *y));
    let y_places = Places::new(y.scale, ys);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(panel.title, ("sans-serif", TEXT + 2.0).into_font().color(&INK))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x_places, y_places)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", TEXT).into_font().color(&INK))
        .x_desc(x.label)
        .y_desc(y.label)
        .x_label_formatter(&|place| number(x.scale.value(*place)))
        .y_label_formatter(&|place| number(y.scale.value(*place)))
        .draw()
        .map_err(failed)?;
    let placed = |line: &Line| -> Vec<(f64, f64)> {
        line.points.iter().filter_map(|(at, value)| Some((x.scale.place(*at)?, y.scale.place(*value)?))).collect()
    };
    for line in modelled {
        let style = colour(line.series).stroke_width(2);
        let (dash, gap) = DASH;
        chart.draw_series([DashedPathElement::new(placed(line), dash, gap, style)]).map_err(failed)?;
    }
    for line in measured {
        let points = placed(line);
        chart.draw_series([PathElement::new(points.clone(), colour(line.series).stroke_width(2))]).map_err(failed)?;
        chart.draw_series(points.into_iter().map(|at| mark(line.series, at))).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::*;

    #[test]
    fn both_are_drawn_in_one_colour() {
        let caption = Caption { title: "Seconds".into(), subtitle: "a < b".into() };
        let (x, y) = (Axis { label: "x", scale: Scale::Linear }, Axis { label: "y", scale: Scale::Linear });
        let points = |offset: f64| [0.0, 1.0].map(|at| Point::<f64>::new("p", "caching", at, at + offset));
        let svg = beside(&caption, x, y, &points(1.0), &points(3.0)).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2, "marks of what was measured");
        assert!(svg.matches("#0072B2").count() > 4, "a line, dashes, marks and the legend");
        assert!(beside(&caption, x, y, &[], &[]).is_err());
        assert!(beside(&caption, x, y, &points(1.0), &[]).is_ok());
    }
}
