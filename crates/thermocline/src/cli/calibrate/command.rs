//! Arguments of `thermocline calibrate`, and its course.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use thermocline_database::{Database, OpenOptions, check_setting};
use thermocline_pushdown::Mode;
use thermocline_pushdown::units::parse_size;
use thermocline_workloads::calibration::{
    Axes, CalibrateOptions, Calibrated, CalibrationError, Progress, cached_bytes_max, calibrate, compute_figure,
    hit_ratio_figure, pushdown_figure, storages,
};

use super::super::Failure;
use super::super::failure::notice;
use super::super::interrupt::Interrupt;
use super::super::output;
use super::super::recovery_line::RecoveryLine;
use super::super::sql::assignment;
use super::report::print_report;
use super::show::show;

/// Arguments of `thermocline calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// Database directory
    #[arg(value_name = "DB")]
    directory: PathBuf,
    /// External table to measure, at each of its storages
    #[arg(long, value_name = "TABLE", required_unless_present = "show")]
    table: Option<String>,
    /// Measure it at this storage only, such as 10.0.0.1:32020
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Stored bytes of the table to measure, but at least 8 partitions; their columns are cached, and must fit into half
    /// of the memory [default: 32MiB, with --quick 4MiB]
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// Repetitions of each query, of which the median counts [default: 5, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Seed of the choice of the queries that are not fitted
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run few queries, for some seconds
    #[arg(long)]
    quick: bool,
    /// Write figures 4-1 to 4-3 to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a setting that has no part in what is measured, such as request_timeout; others are the database's
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
    /// Show the calibrations of the database instead
    #[arg(long, conflicts_with_all = ["table", "node", "size", "repeats", "seed", "quick", "out", "settings"])]
    show: bool,
}

/// Settings that the measured queries need as they are.
const OWN_SETTINGS: [&str; 6] = ["mode", "bitmaps", "cached_answers", "indexes", "pushback", "cache_size"];
/// Settings that have no part in the time of the measured queries. All others may, and the calibration does not record
/// them: with a value for this run alone, it would be of queries that nobody runs later.
const OTHER_SETTINGS: [&str; 9] = [
    "allowed_locations",
    "executor_partitions",
    "query_memory_limit",
    "request_timeout",
    "row_memory_limit",
    "statement_timeout",
    "temporary_directory",
    "temporary_files_limit",
    "tenant",
];

const EXAMPLES: &str = "\
Runs filters of several sizes, row and column selectivities over the table, in the modes caching, pushdown and hybrid,
with shares of it cached, and fits the thesis's model of each mode to the times by linear regression. Some of the queries
are not fitted: the errors printed are theirs. Mode auto, which has a model of its own, begins with the rates in the last
line. The result is kept in DB/calibration.json for each storage, and used when the database is opened again, as long as
the storage and this machine are what they were. Ctrl-C leaves the file as it was.
Nothing else should run on either side meanwhile.

Examples:
  thermocline calibrate mydb --table lineorder
  thermocline calibrate mydb --table lineorder --size 256MiB --repeats 9 --out figures
  thermocline calibrate mydb --show";

fn size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("nothing would be measured".to_owned()),
        size => Ok(size),
    }
}

/// Runs the command.
///
/// # Errors
/// If the table cannot be calibrated, a query fails, or the result cannot be written.
pub async fn run(arguments: CalibrateArgs) -> Result<(), Failure> {
    let directory = &arguments.directory;
    if !directory.is_dir() {
        return Err(Failure::Failed(format!("there is no database at {}", directory.display())));
    }
    let Some(table) = arguments.table.as_deref().filter(|_| !arguments.show) else { return show(directory) };
    arguments.settings.iter().try_for_each(|(name, value)| check(name, value))?;
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).map_err(|error| Failure::Failed(format!("{}: {error}", out.display())))?;
    }
    let mut interrupt = Interrupt::listen(true)?;
    let measured = interrupt.or(measure(&arguments, table)).await;
    if let Err(Failure::Interrupted) = measured {
        notice(format_args!("interrupted: nothing was kept, and the calibrations are what they were"));
    }
    measured??;
    output::flush()
}

/// Refuses a setting that is unknown or may change what is measured.
fn check(name: &str, value: &str) -> Result<(), Failure> {
    check_setting(name, value).map_err(|error| Failure::Usage(error.to_string()))?;
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("thermocline.").unwrap_or(&name);
    if OWN_SETTINGS.contains(&name) {
        return Err(Failure::Usage(format!("--set {name}: calibrate sets {name} itself")));
    }
    if !OTHER_SETTINGS.contains(&name) {
        return Err(Failure::Usage(format!(
            "--set {name}: it may change what is measured, and a calibration does not record it; ALTER DATABASE SET {name} \
             changes it for the queries that use the calibration as well"
        )));
    }
    Ok(())
}

async fn measure(arguments: &CalibrateArgs, table: &str) -> Result<(), Failure> {
    let database = open(arguments).await?;
    let session = database.session();
    let engine = session.engine();
    // Before minutes of measuring that could not be kept.
    engine.resources().calibrations().check_keeps().map_err(|error| not_kept(&error))?;
    let labels = match storages(engine, table) {
        Err(CalibrationError::UnknownTable(name)) => {
            // A table that could not be restored says why.
            session.run(&format!("SELECT * FROM \"{}\" LIMIT 0", table.replace('"', "\"\""))).await?;
            return Err(failed(&CalibrationError::UnknownTable(name)));
        }
        found => found.map_err(|error| failed(&error))?,
    };
    let nodes: Vec<String> = arguments.node.clone().map_or(labels, |node| vec![node]);
    let options = options(arguments, engine.resources().settings().cache_size);
    let mut measured = vec![];
    for node in &nodes {
        let mut line = ProgressLine::new(node);
        let calibrated = calibrate(engine, &session.settings(), (table, node), &options, &mut |progress| {
            line.show(progress);
        })
        .await;
        drop(line);
        let calibrated = calibrated.map_err(|error| failed(&error))?;
        print_report(&calibrated);
        measured.push(calibrated);
    }
    for Calibrated { calibration, .. } in &measured {
        engine.resources().calibrations().keep(calibration.clone()).map_err(|error| not_kept(&error))?;
    }
    for (number, calibrated) in measured.iter().enumerate() {
        if let Some(out) = &arguments.out {
            write_figures(out, number, calibrated)?;
        }
    }
    say!("kept in {}; it is used when the database is opened again", arguments.directory.display());
    session.close().await?;
    Ok(database.close().await?)
}

async fn open(arguments: &CalibrateArgs) -> Result<Database, Failure> {
    let options = OpenOptions {
        directory: Some(arguments.directory.clone()),
        settings: arguments.settings.clone(),
        allocated: Some(crate::heap::allocated_bytes),
        ..OpenOptions::default()
    };
    let mut progress = RecoveryLine::new(Some(&arguments.directory));
    Ok(Database::open(options, move |state| progress.show(state)).await?)
}

/// `cache_size` is what the cache may take where the memory of this machine is not known.
fn options(arguments: &CalibrateArgs, cache_size: usize) -> CalibrateOptions {
    let CalibrateArgs { quick, seed, size, repeats, .. } = arguments;
    CalibrateOptions {
        axes: if *quick { Axes::quick(*seed) } else { Axes::full(*seed) },
        repeats: repeats.unwrap_or(if *quick { 3 } else { 5 }) as usize,
        bytes_max: size.unwrap_or(if *quick { 4 << 20 } else { 32 << 20 }),
        cached_bytes_max: cached_bytes_max(cache_size as u64),
    }
}

fn not_kept(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("the calibration is not kept: {error}"))
}

fn failed(error: &CalibrationError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Writes the figures of storage `number`; those of the first have no number in their names.
fn write_figures(out: &Path, number: usize, calibrated: &Calibrated) -> Result<(), Failure> {
    let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
    let write = |name: &str, svg: String| {
        let path = out.join(format!("model-figure-{name}{suffix}.svg"));
        std::fs::write(&path, svg).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
    };
    write("4-1", compute_figure(calibrated)?)?;
    if calibrated.observations.iter().any(|query| query.mode == Mode::Pushdown) {
        write("4-2", pushdown_figure(calibrated)?)?;
    }
    write("4-3", hit_ratio_figure(calibrated)?)
}

/// A line on standard error, if that is a terminal.
struct ProgressLine<'a> {
    node: &'a str,
    is_shown: bool,
}

impl<'a> ProgressLine<'a> {
    fn new(node: &'a str) -> Self {
        Self { node, is_shown: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, Progress { done, total }: Progress) {
        self.print(&format!("\r\x1b[K{}: {done} of {total} queries", self.node));
    }

    fn print(&self, text: &str) {
        if self.is_shown {
            let mut stderr = std::io::stderr().lock();
            let _nobody_looks = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        }
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        self.print("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_what_is_measured_are_refused() {
        let refused = |name: &str, value: &str| match check(name, value) {
            Err(Failure::Usage(why)) => why,
            other => panic!("{name}: {other:?}"),
        };
        for (name, value) in [("mode", "pushdown"), ("Thermocline.Mode", "pushdown"), ("cache_size", "1GiB")] {
            assert!(refused(name, value).contains("calibrate sets"), "{name}");
        }
        for (name, value) in [
            ("compression", "none"),
            ("THERMOCLINE.compression", "none"),
            ("partition_size", "1MiB"),
            ("partitions_in_flight", "1"),
            ("bytes_in_flight", "1MiB"),
            ("pushdown_operators", "filters"),
            ("cache_policy", "lru"),
            ("datafusion.execution.batch_size", "100"),
        ] {
            let why = refused(name, value);
            let plain = name.to_ascii_lowercase().replace("thermocline.", "");
            assert!(why.contains(&format!("--set {plain}: it may change what is measured")), "{why}");
            assert!(why.contains(&format!("ALTER DATABASE SET {plain}")), "{why}");
        }
        assert!(refused("compresion", "none").contains("compresion"));
        assert!(refused("request_timeout", "soon").contains("request_timeout"));
    }

    #[test]
    fn settings_beside_what_is_measured_are_taken() {
        let value = |name: &str| match name {
            "allowed_locations" => "all",
            "executor_partitions" => "2",
            "query_memory_limit" | "row_memory_limit" | "temporary_files_limit" => "3GiB",
            "request_timeout" | "statement_timeout" => "90s",
            _ => "",
        };
        for name in OTHER_SETTINGS {
            for written in [name.to_owned(), format!("Thermocline.{name}")] {
                assert!(check(&written, value(name)).is_ok(), "{written}");
            }
        }
    }
}
