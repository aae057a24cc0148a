//! `thermocline check`.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::output;
use super::recovery_line::RecoveryLine;

/// Arguments of `thermocline check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Database directory
    #[arg(value_name = "DB")]
    directory: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If the database is damaged, is open, or cannot be read.
pub fn run(arguments: &CheckArgs) -> Result<(), Failure> {
    let mut progress = RecoveryLine::new(Some(&arguments.directory));
    let report = thermocline_database::check(&arguments.directory, &mut |state| progress.show(state))?;
    match report {
        None => output::print(b"no row tables\n")?,
        Some(report) => {
            output::print(report.to_string().as_bytes())?;
            if !report.is_sound() {
                return Err(Failure::Failed(format!("{} is damaged", arguments.directory.display())));
            }
        }
    }
    output::flush()
}
