//! `\d` and its kin: what a database contains.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use thermocline_database::{Description, Error, Listing, Session};

use super::Failure;
use super::failure::notice;
use super::output::{Format, table};
use super::run::{Limits, Runner, Shown, counted};

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
    let shown = runner.print_rows(&rows.schema(), std::slice::from_ref(&rows), runner.limits())?;
    runner.sink.flush()?;
    if runner.format == Format::Table {
        notice(format_args!("({})", counted(rows.num_rows() as u64, shown)));
    }
    Ok(())
}

/// Describes the tables and views that match a pattern, each with all of its columns. For programs, rows about several
/// say which is meant.
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
        let columns = match runner.format {
            Format::Csv | Format::Json | Format::Markdown if all.len() > 1 => with_name(description)?,
            _ => description.columns.clone(),
        };
        let limits = Limits { rows: None, ..runner.limits() };
        let shown = runner.print_rows(&columns.schema(), std::slice::from_ref(&columns), limits)?;
        if shown != Shown::default() {
            runner.say(&format!("({})", counted(columns.num_rows() as u64, shown)))?;
        }
        description.notes.iter().try_for_each(|note| runner.say(note))?;
    }
    runner.sink.flush()
}

/// The rows of a description, with the name of the table in front.
fn with_name(description: &Description) -> Result<RecordBatch, ArrowError> {
    let rows = &description.columns;
    let names = StringArray::from(vec![description.name.as_str(); rows.num_rows()]);
    let table = Arc::new(Field::new("table", DataType::Utf8, false));
    let fields: Vec<_> = std::iter::once(table).chain(rows.schema().fields().iter().cloned()).collect();
    let arrays = std::iter::once(Arc::new(names) as ArrayRef).chain(rows.columns().iter().cloned()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Shows the statements that create the tables, views and procedures that match a pattern.
///
/// # Errors
/// If there are none, and those of output.
pub async fn definitions(runner: &mut Runner, pattern: &str) -> Result<(), Failure> {
    let text = interruptible(runner, |session| session.definitions(pattern)).await?;
    // No name and no text in a definition can control the terminal.
    let text = if runner.sink.is_terminal() { table::escaped(&text) } else { text };
    runner.sink.print(text.as_bytes())?;
    runner.sink.flush()
}
