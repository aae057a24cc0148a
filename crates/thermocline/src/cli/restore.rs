//! `thermocline restore`.

use std::path::PathBuf;

use clap::Args;

use super::Failure;

/// Arguments of `thermocline restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// What BACKUP TO wrote
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Database directory, which must not be there or be empty
    #[arg(value_name = "DB")]
    directory: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If the backup is not whole, or the database is there already.
pub fn run(arguments: &RestoreArgs) -> Result<(), Failure> {
    Ok(thermocline_database::restore(&arguments.backup, &arguments.directory)?)
}
