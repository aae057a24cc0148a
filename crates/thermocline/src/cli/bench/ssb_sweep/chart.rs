//! Line charts of figures 7, 8 and 10 to 12: which configuration belongs to which point.

use thermocline_pushdown::Mode;
use thermocline_workloads::figures::{Axis, Quantity, Scale, bit_rate};
use thermocline_workloads::generate::Format;

use super::axes::Axes;
use super::configuration::{CacheOptions, Configuration};
use super::experiments::Figure;

/// Bandwidth of figure 8, and of figure 10's second half, as a multiple of the others'.
const FAST: f64 = 5.0;

/// One line chart, a file of its own.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its name in the paper, such as `7a`, and what it adds to it.
    pub name: &'static str,
    pub title: String,
    /// What all of its points have in common.
    pub conditions: String,
    pub x: Axis<'static>,
    pub y: Quantity,
    pub y_scale: Scale,
    /// Its points, in the order in which they are measured: those that are compared one after the other.
    pub cells: Vec<Cell>,
}

/// Place of a configuration in a chart.
#[derive(Debug, Clone)]
pub struct Cell {
    pub panel: String,
    pub series: String,
    pub x: f64,
    pub configuration: Configuration,
}

const CACHE_SIZE: Axis<'static> = Axis { label: "cache size / working set", scale: Scale::Linear };
const THETA: Axis<'static> = Axis { label: "theta (skew over years)", scale: Scale::Linear };
const BANDWIDTH: Axis<'static> = Axis { label: "bandwidth in Mbit/s", scale: Scale::Log };

/// The charts of a figure; none for bars.
pub fn charts(axes: &Axes, figure: Figure) -> Vec<Chart> {
    match figure {
        Figure::Modes => vec![over_cache_size(axes, "7a", 1.0), over_theta(axes, "7b", 1.0)],
        Figure::ModesOverFastLink => vec![over_cache_size(axes, "8a", FAST), over_theta(axes, "8b", FAST)],
        Figure::Formats => vec![formats(axes)],
        Figure::Policies => vec![policies(axes), bytes_of(policies(axes), "11-bytes")],
        Figure::Links => vec![modes_over_bandwidth(axes), policies_over_bandwidth(axes)],
        Figure::SpeedUps | Figure::All => vec![],
    }
}

fn over_cache_size(axes: &Axes, name: &'static str, multiple: f64) -> Chart {
    let link = axes.link_times(multiple);
    let panel = format!("theta {}", axes.theta);
    Chart {
        name,
        title: "Modes over cache size".to_owned(),
        conditions: format!("{}, link of {}", axes.format.extension(), bit_rate(link)),
        x: CACHE_SIZE,
        y: Quantity::Seconds,
        y_scale: Scale::Log,
        cells: modes_by_share(axes, &panel, axes.format, link),
    }
}

/// Every mode at every cache size, also those without a cache, as level lines.
fn modes_by_share(axes: &Axes, panel: &str, format: Format, link: u64) -> Vec<Cell> {
    let mut cells = vec![];
    for share in &axes.cache_shares {
        for mode in &axes.modes {
            let star = Configuration { format, link, ..axes.star(*mode) };
            let cache = star.cache.as_ref().map(|cache| CacheOptions { share: *share, ..cache.clone() });
            cells.push(Cell {
                panel: panel.to_owned(),
                series: mode.name().to_owned(),
                x: *share,
                configuration: Configuration { cache, ..star },
            });
        }
    }
    cells
}

fn over_theta(axes: &Axes, name: &'static str, multiple: f64) -> Chart {
    let link = axes.link_times(multiple);
    let mut cells = vec![];
    for theta in &axes.thetas {
        for mode in &axes.modes {
            cells.push(Cell {
                panel: cache_size(axes),
                series: mode.name().to_owned(),
                x: *theta,
                configuration: Configuration { theta: *theta, link, ..axes.star(*mode) },
            });
        }
    }
    Chart {
        name,
        title: "Modes over skew".to_owned(),
        conditions: format!("{}, link of {}", axes.format.extension(), bit_rate(link)),
        x: THETA,
        y: Quantity::Seconds,
        y_scale: Scale::Log,
        cells,
    }
}

fn formats(axes: &Axes) -> Chart {
    let mut cells = vec![];
    for multiple in [1.0, FAST] {
        for format in [Format::Parquet, Format::Csv] {
            let link = axes.link_times(multiple);
            let panel = format!("{}, link of {}", format.extension(), bit_rate(link));
            cells.extend(modes_by_share(axes, &panel, format, link));
        }
    }
    Chart {
        name: "10",
        title: "Modes over cache size, Parquet and CSV".to_owned(),
        conditions: format!("theta {}", axes.theta),
        x: CACHE_SIZE,
        y: Quantity::Seconds,
        y_scale: Scale::Log,
        cells,
    }
}

fn policies(axes: &Axes) -> Chart {
    let mut cells = vec![];
    for theta in &axes.thetas {
        for policy in &axes.policies {
            cells.push(Cell {
                panel: cache_size(axes),
                series: policy.clone(),
                x: *theta,
                configuration: Configuration { theta: *theta, ..axes.mixed(policy) },
            });
        }
    }
    Chart {
        name: "11",
        title: "Cache policies over skew, queries of mixed selectivity".to_owned(),
        conditions: format!("{}, link of {}, {}", axes.format.extension(), bit_rate(axes.link), Mode::Hybrid),
        x: THETA,
        y: Quantity::Seconds,
        y_scale: Scale::Linear,
        cells,
    }
}

/// The same chart with bytes in place of seconds.
fn bytes_of(chart: Chart, name: &'static str) -> Chart {
    Chart { name, title: format!("{}: bytes", chart.title), y: Quantity::Bytes, ..chart }
}

fn modes_over_bandwidth(axes: &Axes) -> Chart {
    let mut cells = vec![];
    for multiple in &axes.link_multiples {
        let link = axes.link_times(*multiple);
        for mode in &axes.modes {
            cells.push(Cell {
                panel: format!("theta {}, {}", axes.theta, cache_size(axes)),
                series: mode.name().to_owned(),
                x: megabits(link),
                configuration: Configuration { link, ..axes.star(*mode) },
            });
        }
    }
    Chart {
        name: "12a",
        title: "Modes over bandwidth".to_owned(),
        conditions: axes.format.extension().to_owned(),
        x: BANDWIDTH,
        y: Quantity::Seconds,
        y_scale: Scale::Log,
        cells,
    }
}

fn policies_over_bandwidth(axes: &Axes) -> Chart {
    let mut cells = vec![];
    for multiple in &axes.link_multiples {
        let link = axes.link_times(*multiple);
        for policy in &axes.policies {
            let configuration = Configuration { link, ..axes.mixed(policy) };
            cells.push(Cell {
                panel: format!("theta {}, {}", configuration.theta, cache_size(axes)),
                series: policy.clone(),
                x: megabits(link),
                configuration,
            });
        }
    }
    Chart {
        name: "12b",
        title: "Cache policies over bandwidth, queries of mixed selectivity".to_owned(),
        conditions: format!("{}, {}", axes.format.extension(), Mode::Hybrid),
        x: BANDWIDTH,
        y: Quantity::Seconds,
        y_scale: Scale::Log,
        cells,
    }
}

fn cache_size(axes: &Axes) -> String {
    format!("cache of {} of the working set", axes.cache_share)
}

fn megabits(link: u64) -> f64 {
    link as f64 * 8.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        let policies = ["lru", "lfu"].map(str::to_owned).to_vec();
        Axes {
            modes: Mode::ALL.to_vec(),
            policies,
            policy: "lfu".to_owned(),
            cache_shares: vec![0.0, 0.5, 1.0],
            cache_share: 0.5,
            thetas: vec![0.0, 2.0],
            theta: 2.0,
            link: 1_000_000,
            link_multiples: vec![1.0, 5.0],
            format: Format::Parquet,
        }
    }

    /// Different configurations of these figures.
    fn distinct(figures: &[Figure]) -> usize {
        let mut known: Vec<Configuration> = vec![];
        for chart in figures.iter().flat_map(|figure| charts(&axes(), *figure)) {
            for cell in chart.cells {
                if !known.contains(&cell.configuration) {
                    known.push(cell.configuration);
                }
            }
        }
        known.len()
    }

    #[test]
    fn what_figures_share_is_one_configuration() {
        let (caching, modes) = (Mode::ALL.iter().filter(|mode| mode.caches()).count(), Mode::ALL.len());
        let over_cache_size = 3 * caching + modes - caching;
        // Another theta in every mode; the default theta is the default cache size of 7a.
        assert_eq!(distinct(&[Figure::Modes]), over_cache_size + modes);
        assert_eq!(distinct(&[Figure::ModesOverFastLink]), distinct(&[Figure::Modes]));
        // Parquet is figure 7a and figure 8a.
        let both = distinct(&[Figure::Modes, Figure::ModesOverFastLink]);
        assert_eq!(distinct(&[Figure::Modes, Figure::ModesOverFastLink, Figure::Formats]), both + 2 * over_cache_size);
        // Bandwidths of figure 12 are those of figures 7, 8 and 11; policies need one more.
        let known = [Figure::Modes, Figure::ModesOverFastLink, Figure::Policies];
        let all = [&known[..], &[Figure::Links]].concat();
        assert_eq!(distinct(&all), distinct(&known) + 2);
    }

    #[test]
    fn every_point_has_a_place_of_its_own() {
        for figure in Figure::chosen(&[Figure::All]) {
            for Chart { name, cells, .. } in charts(&axes(), figure) {
                for (number, cell) in cells.iter().enumerate() {
                    let place = |cell: &Cell| (cell.panel.clone(), cell.series.clone(), cell.x.to_bits());
                    assert!(cells.iter().skip(number + 1).all(|other| place(other) != place(cell)), "{name}: {cell:?}");
                }
            }
        }
    }
}
