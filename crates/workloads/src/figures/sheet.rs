//! Page of a chart: caption, legend, and a place for each panel.

use std::fmt::Display;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::caption::Caption;

/// Where panels are drawn.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The colours of Okabe and Ito, which colour-blind people can distinguish too; without yellow, which is too light for
/// lines, and black, which is used for text; then three of Tol's, for benches that compare other systems.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0x88, 0x22, 0x55),
];

/// Text, axes.
pub(super) const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE4);

const MARGIN: i32 = 16;
/// Height of caption and legend.
const HEAD: u32 = 92;
/// Plotters takes sizes of 1.24 pixels.
const TITLE: f64 = 22.0;
pub(super) const TEXT: f64 = 15.0;

/// Colour of a series; starts again after the last colour.
pub(super) fn colour(series: usize) -> RGBColor {
    COLOURS.iter().cycle().nth(series % COLOURS.len()).copied().unwrap_or(INK)
}

/// An error of the drawing library.
pub(super) fn failed(error: impl Display) -> DataFusionError {
    exec_datafusion_err!("a figure cannot be drawn: {error}")
}

/// Draws a page of `count` panels of this size in pixels, `columns` side by side.
pub(super) fn sheet(
    caption: &Caption,
    series: &[&str],
    (count, columns): (usize, usize),
    (width, height): (u32, u32),
    mut panel: impl FnMut(usize, &Area<'_>) -> Result<()>,
) -> Result<String> {
    if count == 0 {
        return exec_err!("the figure '{}' has nothing to show", caption.title);
    }
    let columns = columns.clamp(1, count);
    let rows = count.div_ceil(columns);
    let size = (width * columns as u32, height * rows as u32 + HEAD);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (head, body) = root.split_vertically(HEAD);
        text(&head, &caption.title, (MARGIN, 12), TITLE)?;
        text(&head, &caption.subtitle, (MARGIN, 38), TEXT)?;
        legend(&head, series)?;
        for (number, area) in body.split_evenly((rows, columns)).iter().take(count).enumerate() {
            panel(number, area)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// A square in each series' colour, and its name.
fn legend(area: &Area<'_>, series: &[&str]) -> Result<()> {
    const SIDE: i32 = 12;
    const TOP: i32 = 66;
    let mut left = MARGIN;
    for (number, name) in series.iter().enumerate() {
        let square = [(left, TOP), (left + SIDE, TOP + SIDE)];
        area.draw(&Rectangle::new(square, colour(number).filled())).map_err(failed)?;
        text(area, name, (left + SIDE + 6, TOP), TEXT)?;
        // Estimated, because there is no font to measure with.
        left += SIDE + 28 + (name.chars().count() as f64 * TEXT * 0.46) as i32;
    }
    Ok(())
}

/// Text to the right of and below `at`.
fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: f64) -> Result<()> {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Top));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(failed)
}
