//! `\d` and its kin: what a database contains.

use thermocline_database::{Error, Listing, Session};

use super::Failure;
use super::failure::notice;
use super::output::Format;
use super::run::{Runner, counted};

/// Runs work of the session that is not a statement's, unless Ctrl-C is pressed first.
async fn interruptible<'r, T, W: Future<Output = Result<T, Error>> + 'r>(
    runner: &'r mut Runner,
    work: impl FnOnce(&'r Session) -> W,
) -> Result<T, Failure> {
    let Runner { session, interrupt, .. } = runner;
    Ok(interrupt.or(work(session)).await??)
}

/// Lists what matches a pattern.
///
/// # Errors
/// Those of the listing and of output.
pub async fn list(runner: &mut Runner, listing: Listing, pattern: &str) -> Result<(), Failure> {
    let rows = interruptible(runner, |session| session.list(listing, pattern)).await?;
    let shown = runner.print_rows(&rows.schema(), std::slice::from_ref(&rows))?;
    runner.sink.flush()?;
    if runner.format == Format::Table {
        notice(format_args!("({})", counted(rows.num_rows() as u64, shown)));
    }
    Ok(())
}

/// Describes the tables and views that match a pattern.
///
/// # Errors
/// If there are none, and those of output.
pub async fn describe(runner: &mut Runner, pattern: &str) -> Result<(), Failure> {
    let all = interruptible(runner, |session| session.describe_all(pattern)).await?;
    for (at, description) in all.iter().enumerate() {
        if at > 0 {
            runner.say("")?;
        }
        runner.say(&description.title)?;
        runner.print_rows(&description.columns.schema(), std::slice::from_ref(&description.columns))?;
        description.notes.iter().try_for_each(|note| runner.say(note))?;
    }
    runner.sink.flush()
}

/// Shows the statements that create the tables, views and procedures that match a pattern.
///
/// # Errors
/// If there are none, and those of output.
pub async fn definitions(runner: &mut Runner, pattern: &str) -> Result<(), Failure> {
    let text = interruptible(runner, |session| session.definitions(pattern)).await?;
    runner.sink.print(text.as_bytes())?;
    runner.sink.flush()
}
