//! SVG of the charts.

use datafusion::common::Result;
use thermocline_pushdown::Mode;
use thermocline_workloads::figures::{Axis, Caption, Point, Quantity, bars, bit_rate, lines};

use super::axes::Axes;
use super::chart::Chart;
use super::configuration::Configuration;
use super::outcome::Outcome;
use super::runner::Outcomes;
use super::speed_ups::{Kind, kinds, query_seconds, speed_up};

/// What all figures of a run have in common, as their second line begins.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub scale: f64,
    pub batch_size: usize,
}

impl Setup {
    fn caption(self, title: &str, conditions: &str) -> Caption {
        let Self { scale, batch_size } = self;
        Caption {
            title: title.to_owned(),
            subtitle: format!("ssb, scale {scale}, {conditions}, batch of {batch_size} queries"),
        }
    }
}

/// A line chart.
///
/// # Errors
/// If none of its configurations has run.
pub fn line_chart(setup: Setup, chart: &Chart, outcomes: &Outcomes) -> Result<String> {
    let mut points = vec![];
    for cell in &chart.cells {
        for pass in outcomes.of(&cell.configuration) {
            points.push(Point::<f64>::new(&cell.panel, &cell.series, cell.x, value(chart.y, pass)));
        }
    }
    let y = Axis { label: chart.y.axis(), scale: chart.y_scale };
    lines(&setup.caption(&chart.title, &chart.conditions), chart.x, y, &points)
}

/// A batch's quantity, in the axis' unit.
fn value(quantity: Quantity, pass: &Outcome) -> f64 {
    match quantity {
        Quantity::Seconds => pass.seconds_total(),
        Quantity::Bytes => pass.bytes_moved() as f64 / (1 << 20) as f64,
        Quantity::Dollars => pass.dollars * 1000.0,
    }
}

/// Configurations of figure 9: the modes that its queries are sorted by, and all others.
pub fn speed_up_configurations(axes: &Axes) -> Vec<Configuration> {
    let needed = [Mode::Pullup, Mode::Pushdown, Mode::Caching];
    let modes = Mode::ALL.into_iter().filter(|mode| needed.contains(mode) || axes.modes.contains(mode));
    modes.map(|mode| axes.star(mode)).collect()
}

/// Figure 9: bars of the speed-up over `pullup` by kind of query.
///
/// # Errors
/// If nothing has run.
pub fn speed_up_bars(setup: Setup, axes: &Axes, outcomes: &Outcomes) -> Result<String> {
    let seconds = |mode: Mode| query_seconds(outcomes.of(&axes.star(mode)));
    let pullup = seconds(Mode::Pullup);
    let kinds = kinds(&seconds(Mode::Caching), &seconds(Mode::Pushdown));
    let panel = format!("theta {}, cache of {} of the working set", axes.theta, axes.cache_share);
    let mut points = vec![];
    for kind in Kind::ALL {
        let count = kinds.iter().filter(|of| **of == kind).count();
        for configuration in speed_up_configurations(axes) {
            let passes: &[Outcome] = outcomes.of(&configuration);
            let group = format!("{} ({count})", kind.name());
            let mean = speed_up(kind, &kinds, &pullup, &query_seconds(passes));
            points.extend(mean.map(|mean| Point::<String>::new(&panel, configuration.mode.name(), group, mean)));
        }
    }
    let conditions = format!("{}, link of {}", axes.format.extension(), bit_rate(axes.link));
    let caption = setup.caption("Speed-up over pullup, geometric mean by kind of query", &conditions);
    bars(&caption, "seconds of pullup / seconds", &points)
}
