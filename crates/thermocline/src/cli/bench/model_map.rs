//! `thermocline bench model-map`: figures 4-4 to 4-6 of the runtime model's thesis.

use std::path::PathBuf;

use thermocline_pushdown::Mode;
use thermocline_pushdown::units::{parse_rate, parse_size};
use thermocline_workloads::calibration::kept::{Calibration, CalibrationFile};
use thermocline_workloads::calibration::{MapAxes, SETTINGS, ThesisModel, map_figure};

use super::super::Failure;
use super::super::output;
use super::arguments::{distinct, number};
use super::figures::{Figures, FiguresArgs};

/// Arguments of `thermocline bench model-map`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelMapArgs {
    /// Take overheads, R and BW_storage of this database's calibration instead of the thesis's
    #[arg(long, value_name = "DB")]
    calibration: Option<PathBuf>,
    /// The calibrated storage [default: the last one calibrated]
    #[arg(long, value_name = "NAME", requires = "calibration")]
    node: Option<String>,
    /// S: stored bytes
    #[arg(long, default_value = "15GB")]
    size: String,
    /// R: stored bytes for a byte in memory [default: 1.3, or the calibration's]
    #[arg(long, value_parser = positive)]
    stored_per_memory: Option<f64>,
    /// BW_storage, to which the other bandwidths are in proportion [default: 20GB/s, or the calibration's]
    #[arg(long, value_name = "RATE")]
    storage_rate: Option<String>,
    /// T_compute-overhead in seconds [default: 0.1, or the calibration's]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    compute_overhead: Option<f64>,
    /// T_storage-overhead in seconds [default: 0.45, or the calibration's]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    storage_overhead: Option<f64>,
    /// Hit ratios, comma separated: a map for each
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [0.25, 0.5, 0.75], value_parser = share)]
    hits: Vec<f64>,
    /// The least of the ratios of bandwidths
    #[arg(long, default_value_t = 0.1, value_parser = positive)]
    ratio_min: f64,
    /// The most of the ratios of bandwidths
    #[arg(long, default_value_t = 2.0, value_parser = positive)]
    ratio_max: f64,
    /// Steps of each axis [default: 38, with --quick 19]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=400))]
    steps: Option<u32>,
    /// Draw coarse maps
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    figures: FiguresArgs,
}

const EXAMPLES: &str = "\
Draws which of the modes caching, pushdown and hybrid the model of chapter 4 expects to be fastest, over the ratios of the
bandwidths of computing here, of the link and of storage, at three selectivities; and prints the share of each mode.

Examples:
  thermocline bench model-map --figures DIR
  thermocline bench model-map --calibration mydb --size 1GB --figures DIR";

fn positive(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6, "number")
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1e6, "number of seconds")
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0, "share")
}

/// Draws the maps.
///
/// # Errors
/// If an argument is invalid, there is no such calibration, or a file cannot be written.
pub fn model_map(args: &ModelMapArgs) -> Result<(), Failure> {
    distinct("--hits", &args.hits)?;
    if args.ratio_min >= args.ratio_max {
        return Err(Failure::Usage("--ratio-min is not below --ratio-max".to_owned()));
    }
    let (model, source) = model(args)?;
    let steps = args.steps.unwrap_or(if args.quick { 19 } else { 38 });
    let axes = MapAxes { ratio_min: args.ratio_min, ratio_max: args.ratio_max, steps, hits: args.hits.clone() };
    let figures = Figures::new(&args.figures)?;
    say!("{source}; share of the map where a mode is expected to be fastest");
    say!("{:<8}{:<20}{:>6}{:>10}{:>10}{:>10}", "figure", "", "h", "caching", "pushdown", "hybrid");
    for (name, title, selectivity) in SETTINGS {
        let places = axes.fastest(&model, selectivity);
        for hit in &args.hits {
            let of_hit: Vec<Mode> = places.iter().filter(|(h, ..)| h == hit).map(|(.., mode)| *mode).collect();
            let share = |mode: Mode| {
                let count = of_hit.iter().filter(|known| **known == mode).count();
                format!("{:.1} %", 100.0 * count as f64 / of_hit.len().max(1) as f64)
            };
            let [caching, pushdown, hybrid] = [Mode::Caching, Mode::Pushdown, Mode::Hybrid].map(share);
            say!("{name:<8}{title:<20}{hit:>6}{caching:>10}{pushdown:>10}{hybrid:>10}");
        }
        figures.write(&format!("model-figure-{name}"), || map_figure(&axes, &model, (title, selectivity), &source))?;
    }
    output::flush()
}

/// The parameters, and where they come from.
fn model(args: &ModelMapArgs) -> Result<(ThesisModel, String), Failure> {
    let calibration = calibration(args)?;
    let mode = |mode: Mode| {
        let modes = calibration.as_ref().map(|calibration| &calibration.modes)?;
        modes.iter().find(|fitted| fitted.mode == mode.name())
    };
    let overhead = |of: Mode| mode(of).map(|fitted| fitted.overhead_s);
    let s_per_byte = mode(Mode::Pushdown).map(|fitted| fitted.storage_s_per_byte);
    let storage = s_per_byte.filter(|seconds| *seconds > 0.0).map(|seconds| 1.0 / seconds);
    let given = args.storage_rate.as_deref().map(parse_rate).transpose().map_err(Failure::Usage)?;
    let size = parse_size(&args.size).map_err(Failure::Usage)?;
    if size == 0 {
        return Err(Failure::Usage("--size: nothing takes no time".to_owned()));
    }
    let calibrated = calibration.as_ref().map(|calibration| calibration.stored_per_memory);
    let storage = given.map(|rate| rate as f64).or(storage);
    if let (Some(calibration), None) = (&calibration, storage) {
        let node = &calibration.node;
        let why = format!("the calibration of {node} has no rate of storage, in mode pushdown: give --storage-rate");
        return Err(Failure::Usage(why));
    }
    let storage = storage.unwrap_or(20e9);
    let model = ThesisModel {
        network: storage,
        storage,
        compute: storage,
        storage_overhead_s: args.storage_overhead.or(overhead(Mode::Pushdown)).unwrap_or(0.45),
        compute_overhead_s: args.compute_overhead.or(overhead(Mode::Caching)).unwrap_or(0.1),
        stored_bytes: size as f64,
        stored_per_memory: args.stored_per_memory.or(calibrated).unwrap_or(1.3),
    };
    let source = match &calibration {
        Some(calibration) => format!("calibrated at {}, {}", calibration.node, calibration.format),
        None => "parameters of the thesis".to_owned(),
    };
    let is_given = given.is_some()
        || [args.storage_overhead, args.compute_overhead, args.stored_per_memory].iter().any(Option::is_some);
    let source = if is_given { format!("{source}, but for those given") } else { source };
    Ok((model, source))
}

fn calibration(args: &ModelMapArgs) -> Result<Option<Calibration>, Failure> {
    let Some(directory) = &args.calibration else { return Ok(None) };
    let file = CalibrationFile::of(directory);
    let all = file.read().map_err(|error| Failure::Failed(error.to_string()))?;
    let is_wanted = |known: &Calibration| args.node.as_ref().is_none_or(|node| known.node == *node);
    let found = all.into_iter().filter(is_wanted).max_by_key(|known| known.taken_at);
    let none = || {
        let of_node = args.node.as_ref().map_or_else(String::new, |node| format!(" of {node}"));
        Failure::Failed(format!("{}: there is no calibration{of_node}", file.path().display()))
    };
    found.map(Some).ok_or_else(none)
}
