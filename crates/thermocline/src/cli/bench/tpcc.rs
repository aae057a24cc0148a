//! `thermocline bench tpcc`: the five transactions of TPC-C, and the consistency conditions before and after.

use datafusion::common::{Result, exec_err};
use thermocline_transactions::database::RowEngine;
use thermocline_workloads::oltp::{Calls, Language, TransactionRecord, drive};
use thermocline_workloads::tpcc::{self, Condition, Remote, Scale, Terminal, Transaction};

use super::super::Failure;
use super::arguments::distinct;
use super::engine::{EngineArgs, OnOff, Table, failed};

/// Maximum violations printed.
const SHOWN_MAX: usize = 10;

/// Arguments of `thermocline bench tpcc`.
#[derive(Debug, clap::Args)]
pub struct TpccArgs {
    /// Warehouses
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    warehouses: u32,
    /// Load a hundredth of the rows of each warehouse, as with --quick
    #[arg(long)]
    reduced: bool,
    /// Let transactions touch other warehouses as the standard says: on, off, or both
    #[arg(long, value_delimiter = ',', default_value = "on")]
    remote: Vec<OnOff>,
    /// Languages of the procedures, comma separated: rust, lua
    #[arg(long, value_delimiter = ',', default_value = "rust")]
    procedures: Vec<Language>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the standard mix in a new database for each number of partitions, with and without a log and remote
/// transactions.
///
/// # Errors
/// If an argument is invalid, a transaction fails, or a consistency condition is broken.
pub fn tpcc(args: TpccArgs) -> Result<(), Failure> {
    args.engine.check()?;
    distinct("--remote", &args.remote)?;
    distinct("--procedures", &args.procedures)?;
    let scale = match args.engine.quick || args.reduced {
        true => Scale::reduced(args.warehouses),
        false => Scale::standard(args.warehouses),
    };
    let mut table = Table::new(args.engine.json.as_ref())?;
    for language in &args.procedures {
        for remote in &args.remote {
            for log in &args.engine.log {
                for partitions in &args.engine.partitions {
                    one_database(&args.engine, scale, *language, (*remote, *log), *partitions, &mut table)?;
                }
            }
        }
    }
    say!("conditions 1 to 12 hold after each load, 1 to 10 and 12 after each run");
    Ok(())
}

fn one_database(
    args: &EngineArgs,
    scale: Scale,
    language: Language,
    (remote, log): (OnOff, OnOff),
    partitions: u16,
    table: &mut Table,
) -> Result<()> {
    let scratch = args.database(partitions, log, tpcc::registrations(language).map_err(failed)?)?;
    let database = &scratch.database;
    tpcc::define(&mut database.session(), language).map_err(failed)?;
    tpcc::load(database, scale, partitions.into()).map_err(failed)?;
    args.settle(database, log)?;
    check(database, scale, &Condition::ALL, "after the load")?;
    let kind = if remote.0 { Remote::Standard } else { Remote::Never };
    let terminals = (0..args.clients(partitions) as u64)
        .map(|number| Box::new(Terminal::new(scale, kind, 1, number)) as Box<dyn Calls>);
    let record = TransactionRecord {
        mix: if remote.0 { "remote" } else { "local" }.to_owned(),
        procedures: language.to_string(),
        warehouses: Some(scale.warehouses),
        remote: Some(remote.0),
        ..args.record("tpcc", database, partitions, log)
    };
    let measured = drive(database, &Transaction::PROCEDURES, terminals.collect(), args.drive()).map_err(failed)?;
    check(database, scale, &Condition::always(), "after the run")?;
    let new_orders = measured.tallies.first().map(|tally| measured.per_second(tally.committed));
    table.put(TransactionRecord { new_orders_per_s: new_orders, ..record.with(&measured) })
}

fn check(database: &RowEngine, scale: Scale, conditions: &[Condition], when: &str) -> Result<()> {
    let broken = tpcc::violations(&mut database.session(), scale, conditions).map_err(failed)?;
    for violation in broken.iter().take(SHOWN_MAX) {
        eprintln!("{violation}");
    }
    match broken.len() {
        0 => Ok(()),
        count => exec_err!("{count} violations of consistency conditions {when}"),
    }
}
