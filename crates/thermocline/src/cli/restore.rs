//! `thermocline restore`.

use std::path::PathBuf;

use clap::Args;
use thermocline_transactions::database::RestoreTo;
use thermocline_transactions::ids::Sequence;

use super::Failure;
use super::failure::notice;
use super::recovery_line::RecoveryLine;

/// Arguments of `thermocline restore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// Directory written by BACKUP TO; with --until or --lose-rows, also a database
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Database directory, which must not exist or be empty
    #[arg(value_name = "DB")]
    directory: PathBuf,

    /// Restore the state after this record of a database's log, such as the last one before a damaged record
    #[arg(long, value_name = "RECORD")]
    until: Option<u64>,

    /// Leave out the rows that are lost with damaged or missing files of blocks, of a database or a backup, and list them
    #[arg(long)]
    lose_rows: bool,
}

const EXAMPLES: &str = "\
Examples:
  thermocline restore /backups/monday mydb          a database of what BACKUP TO wrote
  thermocline restore mydb newdb --until 1234       one of the state that mydb had after log record 1234
  thermocline restore mydb newdb --lose-rows        one without the rows that are lost with damaged blocks";

/// Runs the command.
///
/// # Errors
/// If the backup is incomplete, there is no such state, or the database already exists.
pub fn run(arguments: &RestoreArgs) -> Result<(), Failure> {
    let RestoreArgs { backup, directory, until, lose_rows } = arguments;
    if until.is_none() && !lose_rows {
        return Ok(thermocline_database::restore(backup, directory)?);
    }
    let to = RestoreTo { until: until.map(Sequence), loses_rows: *lose_rows };
    let mut progress = RecoveryLine::new(Some(backup));
    let lost = thermocline_database::restore_state(backup, directory, to, &mut |state| progress.show(state))?;
    lost.lines().for_each(|line| notice(format_args!("{line}")));
    Ok(())
}
