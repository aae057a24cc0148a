//! `thermocline bench ycsb`: point reads and updates of 1 KB rows over skewed keys.

use datafusion::common::{Result, exec_err};
use thermocline_pushdown::units::{parse_size, size_within};
use thermocline_workloads::oltp::{Calls, Language, Scan, TransactionRecord, drive, scanning};
use thermocline_workloads::ycsb::{self, Mix, Skew, YcsbCalls};

use super::super::Failure;
use super::arguments::{distinct, number};
use super::engine::{EngineArgs, OnOff, Table, failed};

/// Rows.
const ROWS: u64 = 1_000_000;
/// Rows with `--quick`.
const QUICK_ROWS: u64 = 20_000;

/// Arguments of `thermocline bench ycsb`.
#[derive(Debug, clap::Args)]
pub struct YcsbArgs {
    /// Rows of the table [default: 1000000, with --quick 20000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,
    /// Bytes of a row: a key of 8, and ten columns
    #[arg(long, default_value = "1008", value_parser = parse_row_size)]
    row_size: usize,
    /// Percentages of reads and updates, such as 90/10, or the core workloads A, B, C; comma separated
    #[arg(long, value_delimiter = ',', default_value = "50/50")]
    mix: Vec<Mix>,
    /// Exponents of the Zipf distribution of keys, comma separated; 0 is uniform
    #[arg(long, value_delimiter = ',', default_value = "0.99", value_parser = parse_exponent)]
    skew: Vec<f64>,
    /// Make hot keys neighbours instead of spreading them over the table
    #[arg(long)]
    unscrambled: bool,
    /// Languages of the procedures, comma separated: rust, lua, sql
    #[arg(long, value_delimiter = ',', default_value = "rust")]
    procedures: Vec<Language>,
    /// Run each mix and skew a second time, with a reader beside the clients that aggregates the whole table again and
    /// again
    #[arg(long)]
    scan: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Sizes of rows: from a byte in each column to what the engine takes.
const ROW_BYTES: (u64, u64) = (18, 1 << 20);

fn parse_row_size(text: &str) -> Result<usize, String> {
    size_within(parse_size(text)?, ROW_BYTES, text).map(|bytes| bytes as usize)
}

fn parse_exponent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 10.0, "exponent")
}

/// Runs every mix at every skew, in a new database for each language, number of partitions, and with and without a log.
///
/// # Errors
/// If an argument is invalid or a transaction fails.
pub fn ycsb(args: YcsbArgs) -> Result<(), Failure> {
    args.engine.check()?;
    distinct("--mix", &args.mix)?;
    distinct("--skew", &args.skew)?;
    distinct("--procedures", &args.procedures)?;
    let mut table = Table::new(args.engine.json.as_ref())?;
    for language in &args.procedures {
        for log in &args.engine.log {
            for partitions in &args.engine.partitions {
                one_database(&args, *language, *log, *partitions, &mut table)?;
            }
        }
    }
    Ok(())
}

fn one_database(args: &YcsbArgs, language: Language, log: OnOff, partitions: u16, table: &mut Table) -> Result<()> {
    let scratch = args.engine.database(partitions, log, ycsb::registrations(language).map_err(failed)?)?;
    let database = &scratch.database;
    let rows = args.rows.unwrap_or(if args.engine.quick { QUICK_ROWS } else { ROWS });
    let field_bytes = ycsb::field_bytes(args.row_size);
    ycsb::define(&mut database.session(), field_bytes, language).map_err(failed)?;
    ycsb::load(database, rows, field_bytes, partitions.into()).map_err(failed)?;
    args.engine.settle(database, log)?;
    let procedures = ycsb::procedures(language);
    let procedures: Vec<&str> = procedures.iter().map(String::as_str).collect();
    for mix in &args.mix {
        for exponent in &args.skew {
            let skew = Skew { exponent: *exponent, scrambled: !args.unscrambled };
            let client = |number| YcsbCalls::new((rows, field_bytes), skew, *mix, language, number);
            let run = || {
                let clients = (0..args.engine.clients(partitions) as u64)
                    .map(|number| Box::new(client(number)) as Box<dyn Calls>);
                drive(database, &procedures, clients.collect(), args.engine.drive())
            };
            let record = || TransactionRecord {
                mix: mix.to_string(),
                skew: Some(*exponent),
                procedures: language.to_string(),
                rows: Some(rows),
                row_bytes: Some(ycsb::row_bytes(field_bytes)),
                scrambled: Some(skew.scrambled),
                ..args.engine.record("ycsb", database, partitions, log)
            };
            table.put(record().with(&run().map_err(failed)?))?;
            if args.scan {
                let (measured, scans) = scanning(database, ycsb::TABLE, run).map_err(failed)?;
                scans.iter().try_for_each(|scan| check(*scan, rows))?;
                table.put(record().with(&measured).with_scans(&scans))?;
            }
        }
    }
    Ok(())
}

/// Compares what a scan found with the loaded rows: updates change no key.
fn check(scan: Scan, rows: u64) -> Result<()> {
    let sum = (0..rows.cast_signed()).fold(0, i64::wrapping_add);
    if (scan.rows, scan.sum) == (rows, sum) {
        return Ok(());
    }
    exec_err!("a scan found {} rows with keys that add up to {}, not {rows} and {sum}", scan.rows, scan.sum)
}
