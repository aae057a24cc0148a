//! Lines over a number, with a mark of its own shape for each series.

use datafusion::common::Result;
use plotters::element::DynElement;
use plotters::prelude::*;

use super::axis::{Axis, Places, number};
use super::caption::Caption;
use super::panels::{Panel, Panels};
use super::point::Point;
use super::sheet::{Area, GRID, INK, TEXT, colour, failed, sheet};

const WIDTH: u32 = 380;
const HEIGHT: u32 = 280;
/// Radius of a mark, in pixels.
const MARK: i32 = 4;

/// A chart for each panel of `points`, in a grid that is about as wide as high.
///
/// # Errors
/// If there is no point to draw.
pub fn lines(caption: &Caption, x: Axis<'_>, y: Axis<'_>, points: &[Point<f64>]) -> Result<String> {
    let placed = |axis: Axis<'_>, value: f64| axis.scale.place(value).is_some();
    let points: Vec<Point<f64>> =
        points.iter().filter(|point| placed(x, point.x) && placed(y, point.y)).cloned().collect();
    let Panels { series, panels } = Panels::new(&points);
    let columns = (panels.len() as f64).sqrt().ceil() as usize;
    // One chart alone is enlarged, so that caption and legend fit above it.
    let (width, height) = if columns < 2 { (2 * WIDTH, 3 * HEIGHT / 2) } else { (WIDTH, HEIGHT) };
    sheet(caption, &series, (panels.len(), columns), (width, height), |number, area| match panels.get(number) {
        Some(panel) => chart(area, panel, x, y),
        None => Ok(()),
    })
}

fn chart(area: &Area<'_>, panel: &Panel<'_, f64>, x: Axis<'_>, y: Axis<'_>) -> Result<()> {
    let x_places = Places::new(x.scale, panel.xs.iter().map(|x| **x));
    let y_places = Places::new(y.scale, panel.medians().map(|(_, _, y)| y));
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
    for series in panel.series() {
        let mut line: Vec<(f64, f64)> = panel
            .medians()
            .filter(|(of, _, _)| *of == series)
            .filter_map(|(_, at, value)| Some((x.scale.place(**panel.xs.get(at)?)?, y.scale.place(value)?)))
            .collect();
        line.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        chart.draw_series([PathElement::new(line.clone(), colour(series).stroke_width(2))]).map_err(failed)?;
        chart.draw_series(line.into_iter().map(|at| mark(series, at))).map_err(failed)?;
    }
    Ok(())
}

/// A mark at a point; neighbouring series have different shapes.
pub(super) fn mark<'a>(series: usize, at: (f64, f64)) -> DynElement<'static, SVGBackend<'a>, (f64, f64)> {
    let (filled, outlined) = (colour(series).filled(), colour(series).stroke_width(2));
    match series % 4 {
        0 => Circle::new(at, MARK, filled).into_dyn(),
        1 => TriangleMarker::new(at, MARK + 1, filled).into_dyn(),
        2 => Circle::new(at, MARK, outlined).into_dyn(),
        _ => Cross::new(at, MARK, outlined).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::*;

    #[test]
    fn what_a_scale_has_no_place_for_is_left_out() {
        let caption = Caption { title: "Seconds".into(), subtitle: "a < b".into() };
        let draw = |scale: Scale, ys: [f64; 3]| {
            let points = ys.map(|y| Point::<f64>::new("Q1", "eager", y.abs(), y));
            lines(&caption, Axis { label: "x", scale: Scale::Linear }, Axis { label: "y", scale }, &points)
        };
        let marks = |svg: String| svg.matches("<circle").count();
        assert_eq!(marks(draw(Scale::Linear, [0.0, 2.0, f64::NAN]).unwrap()), 2);
        assert_eq!(marks(draw(Scale::Log, [0.0, 2.0, 1e-300]).unwrap()), 2);
        let nothing = draw(Scale::Log, [0.0, -1.0, f64::INFINITY]).unwrap_err().to_string();
        assert!(nothing.contains("'Seconds' has nothing to show"), "{nothing}");
    }
}
