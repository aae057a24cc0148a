//! `thermocline restore`.

use std::path::PathBuf;

use clap::Args;
use thermocline_transactions::ids::Sequence;

use super::Failure;
use super::recovery_line::RecoveryLine;

/// Arguments of `thermocline restore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// Directory written by BACKUP TO; with --until, a database
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Database directory, which must not exist or be empty
    #[arg(value_name = "DB")]
    directory: PathBuf,

    /// Restore the state after this record of a database's log, such as the last one before a damaged record
    #[arg(long, value_name = "RECORD")]
    until: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  thermocline restore /backups/monday mydb          a database of what BACKUP TO wrote
  thermocline restore mydb newdb --until 1234       one of the state that mydb had after log record 1234";

/// Runs the command.
///
/// # Errors
/// If the backup is incomplete, there is no such state, or the database already exists.
pub fn run(arguments: &RestoreArgs) -> Result<(), Failure> {
    let RestoreArgs { backup, directory, until } = arguments;
    match until {
        None => thermocline_database::restore(backup, directory)?,
        Some(record) => {
            let mut progress = RecoveryLine::new(Some(backup));
            let record = Sequence(*record);
            thermocline_database::restore_until(backup, directory, record, &mut |state| progress.show(state))?;
        }
    }
    Ok(())
}
