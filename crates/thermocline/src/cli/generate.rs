//! `thermocline generate`: benchmark data.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use thermocline_pushdown::units::{format_size, parse_size};
use thermocline_workloads::Workload;
use thermocline_workloads::generate::{
    Format, GenerateError, GenerateOptions, Progress, Summary, Table, create_table_sql,
};

use super::Failure;
use super::failure::notice;
use super::output;

/// Arguments of `thermocline generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

/// Data sets.
#[derive(Debug, Subcommand)]
enum What {
    /// The Star Schema Benchmark: lineorder and four dimension tables
    #[command(after_help = SSB_EXAMPLES)]
    Ssb(DataArgs),
    /// TPC-H: lineitem, orders and six more tables, with dbgen's rows
    #[command(after_help = TPCH_EXAMPLES)]
    Tpch(DataArgs),
}

/// Arguments of `thermocline generate ssb` and `thermocline generate tpch`.
#[derive(Debug, Args)]
struct DataArgs {
    /// Scale factor; 1 is about 6,000,000 rows
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,

    /// Format of the objects
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    format: FileFormat,

    /// Approximate stored bytes of an object
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    partition_size: u64,

    /// Folder that gets one folder per table; must not contain them yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Threads; 0 for one per core. The data does not depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

const SSB_EXAMPLES: &str = "\
Prints the statements that define the tables on standard output, all else on standard error.
The data depends on nothing but scale, format and partition size.

Examples:
  thermocline generate ssb --scale 0.1 --out /data/ssb
  thermocline generate ssb --scale 10 --format csv --out /data/ssb | thermocline sql mydb";

const TPCH_EXAMPLES: &str = "\
Prints the statements that define the tables on standard output, all else on standard error.
The data depends on nothing but scale, format and partition size.

Examples:
  thermocline generate tpch --scale 0.1 --out /data/tpch
  thermocline generate tpch --scale 10 --format csv --out /data/tpch | thermocline sql mydb";

/// Format of the objects.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FileFormat {
    /// Parquet with Zstandard
    Parquet,
    /// CSV with a header line
    Csv,
}

/// Runs the command.
///
/// # Errors
/// See [`Failure`].
pub fn run(arguments: &GenerateArgs) -> Result<(), Failure> {
    match &arguments.what {
        What::Ssb(arguments) => generate(&Workload::SSB, arguments),
        What::Tpch(arguments) => generate(&Workload::TPCH, arguments),
    }
}

fn generate(workload: &Workload, arguments: &DataArgs) -> Result<(), Failure> {
    let format = match arguments.format {
        FileFormat::Parquet => Format::Parquet,
        FileFormat::Csv => Format::Csv,
    };
    let options = GenerateOptions {
        scale: arguments.scale,
        format,
        partition_size: arguments.partition_size,
        out: arguments.out.clone(),
        threads: arguments.threads,
    };
    let bars = Bars::new(workload.tables);
    let summary = (workload.generate)(&options, &|progress| bars.show(progress));
    bars.clear();
    let summary = summary.map_err(|error| match error {
        GenerateError::Scale { .. } | GenerateError::PartitionSize(_) => Failure::Usage(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    })?;
    notice(format_args!("{}", table(&summary)));
    // The catalog outlives the working directory, so paths are absolute.
    let out = arguments
        .out
        .canonicalize()
        .map_err(|error| Failure::Failed(format!("{}: {error}", arguments.out.display())))?;
    let mut sql = String::new();
    for table in workload.tables {
        let location = out.join(table.name()).display().to_string();
        let _infallible = writeln!(sql, "{};", create_table_sql(*table, format, &location));
    }
    output::print(sql.as_bytes())?;
    output::flush()
}

/// Table, rows, objects and size, aligned.
fn table(summary: &Summary) -> String {
    let mut text = format!("{:<10} {:>13} {:>8} {:>11}", "table", "rows", "objects", "size");
    for table in &summary.tables {
        let _infallible = write!(
            text,
            "\n{:<10} {:>13} {:>8} {:>11}",
            table.table.name(),
            table.rows,
            table.objects,
            format_size(table.bytes)
        );
    }
    text
}

/// A progress bar for each table begun; nothing if standard error is not a terminal.
struct Bars {
    all: MultiProgress,
    tables: HashMap<Table, OnceLock<ProgressBar>>,
}

impl Bars {
    fn new(tables: &[Table]) -> Self {
        let tables = tables.iter().map(|table| (*table, OnceLock::new())).collect();
        Self { all: MultiProgress::new(), tables }
    }

    fn show(&self, progress: Progress) {
        let Some(bar) = self.tables.get(&progress.table) else { return };
        let bar = bar.get_or_init(|| {
            let bar = self.all.add(ProgressBar::new(progress.rows_total));
            bar.set_style(style("{prefix:10} [{bar:30}] {human_pos:>11}/{human_len} rows {elapsed}"));
            bar.set_prefix(progress.table.name());
            bar
        });
        // Threads report out of order; rows only grow.
        bar.set_position(bar.position().max(progress.rows_done));
    }

    fn clear(&self) {
        let _not_drawn = self.all.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
