//! Runs one statement: rows to standard output, with progress and Ctrl-C.
//!
//! ```text
//!   task: session ---channel---> here: text ---> standard output
//!     ^ aborted                    ^ Ctrl-C, closed pipe
//!     +----------------------------+
//! ```
//!
//! The query runs in a task of its own, so that Ctrl-C is noticed while it computes, and the next rows are computed
//! while the last ones are written.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::TryStreamExt;
use thermocline_database::{Error, Headings, Session, Statement, Streams, Variables};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::Failure;
use super::interrupt::Interrupt;
use super::output::{self, Format, ROWS_AT_ONCE, Sink};
use super::progress::ProgressLine;

/// Longest wait for a cancelled query to end; it ends anyway.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// A finished statement.
#[derive(Debug, Clone, Copy)]
pub struct Finished {
    /// Rows of its result; `None` for a statement without one.
    pub rows: Option<u64>,
    /// Rows that it changed; `None` for a statement that changes none.
    pub affected: Option<u64>,
    /// Time from its start to its last row written.
    pub time: Duration,
    /// What was shown of its rows.
    pub shown: Shown,
    /// Whether it had already ended when Ctrl-C tried to stop it.
    pub was_late: bool,
}

/// Runs statements of one session.
#[derive(Debug)]
pub struct Runner {
    /// The session.
    pub session: Session,
    /// Output format of rows.
    pub format: Format,
    /// Whether times of statements are shown.
    pub timing: bool,
    /// Cancels the running statement.
    pub interrupt: Interrupt,
    /// Whether no script is read from standard input, so that COPY may read it.
    pub is_stdin_free: bool,
    /// Whether a table has a line for each value.
    pub expanded: Expanded,
    /// Destination of rows.
    pub sink: Sink,
    /// Variables that statements refer to.
    pub variables: Variables,
    /// The last statement; `None` before the first.
    pub last: Option<Statement>,
    /// An unfinished text that the user of a shell has edited, and goes on with at the prompt.
    pub begun: Option<String>,
    /// Columns of the terminal of a shell; `None` if nobody looks at one.
    pub columns: Option<usize>,
    /// Maximum rows of a result that a shell shows; `None` for all.
    pub rows_max: Option<usize>,
}

/// Maximum rows of a result that a shell shows, unless `.maxrows` says another number.
const ROWS_MAX: usize = 1000;

/// What of some rows was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// Rows that were left out.
    pub rows_hidden: usize,
    /// Columns that were left out.
    pub columns_hidden: usize,
    /// Columns whose texts were cut.
    pub columns_cut: usize,
}

/// What of some rows is shown at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// So many rows; `None` for all.
    pub rows: Option<usize>,
    /// What fits so many columns of a terminal; `None` for all.
    pub columns: Option<usize>,
}

/// When a table has a line for each value, instead of one for each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expanded {
    /// Never.
    #[default]
    Off,
    /// Always.
    On,
    /// If a row is wider than the terminal.
    Auto,
}

impl Runner {
    /// A runner of a session's statements.
    pub fn new(session: Session, format: Format, interrupt: Interrupt, is_stdin_free: bool) -> Self {
        Self {
            session,
            format,
            timing: true,
            interrupt,
            is_stdin_free,
            expanded: Expanded::default(),
            sink: Sink::default(),
            variables: Variables::default(),
            last: None,
            begun: None,
            columns: None,
            rows_max: Some(ROWS_MAX),
        }
    }

    /// Runs `statement` and writes its rows.
    ///
    /// # Errors
    /// The statement's error; [`Failure::Interrupted`] after Ctrl-C.
    pub async fn run(&mut self, statement: Statement) -> Result<Finished, Failure> {
        let started = Instant::now();
        self.last = Some(statement.clone());
        let Counts { rows, affected, shown, was_late } = match self.format {
            Format::Table => self.run_table(statement).await?,
            Format::Csv | Format::Json | Format::Markdown => self.run_streaming(statement).await?,
        };
        self.sink.flush()?;
        Ok(Finished { rows, affected, time: started.elapsed(), shown, was_late })
    }

    /// Standard streams of COPY. Standard input belongs to a script unless its text was an argument.
    fn streams(&self, statement: &Statement) -> Streams {
        Streams {
            input: (self.is_stdin_free && statement.reads_input()).then(|| Box::new(std::io::stdin()) as _),
            output: statement.writes_output().then(|| self.sink.writer()),
        }
    }

    async fn run_table(&mut self, statement: Statement) -> Result<Counts, Failure> {
        let mut task = JoinSet::new();
        let progress = ProgressLine::follow(&self.session);
        let session = self.session.clone();
        let headings = self.session.headings(&statement);
        let streams = self.streams(&statement);
        // A plan that is cut lacks what one looks for.
        let limits = if statement.is_explain() { Limits::default() } else { self.limits() };
        task.spawn(async move { session.run_with(statement, streams).await });
        let mut finished = self.interrupt.or(task.join_next()).await;
        let canceled = finished.is_err() && self.session.cancel();
        if canceled {
            // The statement reports whether it was stopped or had ended; a second Ctrl-C does not wait for that.
            self.interrupt.reset();
            finished = self.interrupt.or(task.join_next()).await;
        }
        drop(progress);
        match finished {
            Ok(Some(result)) => {
                let result = result.map_err(|error| panicked(&error))?;
                let result = result.map_err(|error| failed(error, canceled))?;
                let shown = match result.has_rows {
                    true => self.print_rows(&headings.of_schema(&result.schema), &result.batches, limits)?,
                    false => Shown::default(),
                };
                let rows = result.has_rows.then_some(result.rows() as u64);
                Ok(Counts { rows, affected: result.affected, shown, was_late: canceled })
            }
            Ok(None) => Err(Failure::Failed("the query vanished".to_owned())),
            Err(failure) => {
                cancel(task).await;
                Err(failure)
            }
        }
    }

    /// The limits of a table in the terminal of a shell; none elsewhere.
    pub fn limits(&self) -> Limits {
        let columns = self.columns.filter(|_| self.format == Format::Table && self.sink.is_terminal());
        Limits { rows: columns.and(self.rows_max), columns }
    }

    /// Writes rows that are all there, up to the limits.
    ///
    /// # Errors
    /// If a value has no text, output fails, or Ctrl-C is pressed.
    pub fn print_rows(&self, schema: &SchemaRef, batches: &[RecordBatch], limits: Limits) -> Result<Shown, Failure> {
        let mut text = String::new();
        let (batches, rows_hidden) = first_rows(batches, limits.rows);
        let layout = match self.format {
            Format::Table => Some(output::table::Layout::new(schema, &batches)?),
            Format::Csv => {
                output::csv::header(schema, &mut text);
                None
            }
            Format::Markdown => {
                output::markdown::header(schema, &mut text);
                None
            }
            Format::Json => None,
        };
        let is_wide = layout.as_ref().zip(limits.columns).is_some_and(|(layout, columns)| layout.width() > columns);
        let is_expanded = self.expanded == Expanded::On || self.expanded == Expanded::Auto && is_wide;
        let layout = match (layout, limits.columns) {
            (Some(layout), Some(columns)) if !is_expanded => Some(layout.within(columns)),
            (layout, _) => layout,
        };
        let (columns_hidden, columns_cut) = layout.as_ref().map_or((0, 0), |layout| (layout.hidden(), layout.cut()));
        if let Some(layout) = layout.as_ref().filter(|_| !is_expanded) {
            layout.header(&mut text);
        }
        self.sink.print(text.as_bytes())?;
        let mut number = 1;
        for batch in &batches {
            for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                if self.interrupt.pressed() {
                    return Err(Failure::Interrupted);
                }
                text.clear();
                match &layout {
                    Some(layout) if is_expanded => {
                        output::expanded::records(layout, batch, start, number + start as u64, &mut text)?;
                    }
                    Some(layout) => layout.rows(batch, start, &mut text)?,
                    None => {
                        let some = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
                        self.append(schema, &some, &mut text)?;
                    }
                }
                self.sink.print(text.as_bytes())?;
            }
            number += batch.num_rows() as u64;
        }
        Ok(Shown { rows_hidden, columns_hidden, columns_cut })
    }

    /// Appends rows as CSV or JSON.
    fn append(&self, schema: &SchemaRef, rows: &RecordBatch, text: &mut String) -> Result<(), Failure> {
        match self.format {
            Format::Json => output::json::rows(schema, rows, text)?,
            Format::Markdown => output::markdown::rows(rows, text)?,
            Format::Csv | Format::Table => output::csv::rows(rows, text)?,
        }
        Ok(())
    }

    /// Writes a line for people, without control characters; nothing in formats for programs.
    ///
    /// # Errors
    /// If output fails.
    pub fn say(&self, line: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.sink.print(format!("{}\n", output::table::in_one_line(line)).as_bytes()),
            Format::Csv | Format::Json | Format::Markdown => Ok(()),
        }
    }

    async fn run_streaming(&mut self, statement: Statement) -> Result<Counts, Failure> {
        let mut task = JoinSet::new();
        let progress = ProgressLine::follow(&self.session);
        let (sender, mut pieces) = mpsc::channel(1);
        let headings = self.session.headings(&statement);
        let streams = self.streams(&statement);
        task.spawn(stream(self.session.clone(), statement, streams, sender));
        let mut canceled = false;
        let written = self.print_stream(&mut pieces, &headings, progress.as_ref(), &mut canceled).await;
        drop(progress);
        match written {
            Ok(rows) => match task.join_next().await {
                Some(Err(error)) => Err(panicked(&error)),
                Some(Ok(Err(error))) => Err(failed(error, canceled)),
                Some(Ok(Ok(affected))) => Ok(Counts { rows, affected, shown: Shown::default(), was_late: canceled }),
                None => Ok(Counts { rows, affected: None, shown: Shown::default(), was_late: canceled }),
            },
            Err(failure) => {
                drop(pieces);
                cancel(task).await;
                Err(failure)
            }
        }
    }

    /// Writes pieces until there are no more, which is also the case after an error. `canceled` says whether the row
    /// engine was asked to stop.
    async fn print_stream(
        &mut self,
        pieces: &mut mpsc::Receiver<Piece>,
        headings: &Headings,
        progress: Option<&ProgressLine>,
        canceled: &mut bool,
    ) -> Result<Option<u64>, Failure> {
        let mut rows = None;
        let mut shown = SchemaRef::new(Schema::empty());
        let mut text = String::new();
        loop {
            let piece = match self.interrupt.or(pieces.recv()).await {
                Err(_) if self.session.cancel() => {
                    *canceled = true;
                    self.interrupt.reset();
                    self.interrupt.or(pieces.recv()).await?
                }
                piece => piece?,
            };
            let Some(piece) = piece else { break };
            if let Some(progress) = progress.filter(|_| self.sink.is_terminal()) {
                // Rows and progress would overwrite each other.
                progress.stop();
            }
            match piece {
                Piece::Schema(schema) => {
                    rows = Some(0);
                    shown = headings.of_schema(&schema);
                    text.clear();
                    match self.format {
                        Format::Csv => output::csv::header(&shown, &mut text),
                        Format::Markdown => output::markdown::header(&shown, &mut text),
                        Format::Json | Format::Table => {}
                    }
                    self.sink.print(text.as_bytes())?;
                }
                Piece::Rows(batch) => {
                    for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                        if self.interrupt.pressed() {
                            return Err(Failure::Interrupted);
                        }
                        let some = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
                        text.clear();
                        self.append(&shown, &some, &mut text)?;
                        self.sink.print(text.as_bytes())?;
                    }
                    self.sink.flush()?;
                    rows = rows.map(|rows| rows + batch.num_rows() as u64);
                }
            }
        }
        Ok(rows)
    }
}

/// `3 rows`, with what was left out of them: `1200 rows, 1000 shown, .maxrows 0 for all, texts cut, \x for all`.
pub fn counted(rows: u64, shown: Shown) -> String {
    let mut text = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
    if shown.rows_hidden > 0 {
        text += &format!(", {} shown, .maxrows 0 for all", rows.saturating_sub(shown.rows_hidden as u64));
    }
    if shown.columns_hidden > 0 {
        let plural = if shown.columns_hidden == 1 { "" } else { "s" };
        text += &format!(", {} column{plural} left out", shown.columns_hidden);
    }
    if shown.columns_cut > 0 {
        text += ", texts cut";
    }
    if shown.columns_hidden > 0 || shown.columns_cut > 0 {
        text += ", \\x for all";
    }
    text
}

/// The first rows of some batches, up to a number, and the number of the others.
fn first_rows(batches: &[RecordBatch], rows_max: Option<usize>) -> (Vec<RecordBatch>, usize) {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut left = rows_max.unwrap_or(rows);
    let some = batches.iter().map(|batch| {
        let kept = batch.num_rows().min(left);
        left -= kept;
        batch.slice(0, kept)
    });
    (some.collect(), rows.saturating_sub(rows_max.unwrap_or(rows)))
}

/// Counts of a statement.
struct Counts {
    /// Rows of the result.
    rows: Option<u64>,
    /// Rows changed.
    affected: Option<u64>,
    /// See [`Finished::shown`].
    shown: Shown,
    /// See [`Finished::was_late`].
    was_late: bool,
}

/// A piece of a streaming query's result.
enum Piece {
    /// The schema of its rows.
    Schema(SchemaRef),
    /// Some of its rows.
    Rows(RecordBatch),
}

/// Runs the statement into `pieces` until the receiver is gone; returns the number of rows that it changed.
async fn stream(
    session: Session,
    statement: Statement,
    streams: Streams,
    pieces: mpsc::Sender<Piece>,
) -> Result<Option<u64>, Error> {
    let mut query = session.stream_with(statement, streams).await?;
    if query.has_rows && pieces.send(Piece::Schema(query.schema.clone())).await.is_err() {
        return Ok(query.affected);
    }
    while let Some(batch) = query.rows.try_next().await? {
        if query.has_rows && pieces.send(Piece::Rows(batch)).await.is_err() {
            return Ok(query.affected);
        }
    }
    Ok(query.affected)
}

/// Ends a query, and waits a moment for storage nodes to be notified.
async fn cancel<T: 'static>(mut task: JoinSet<T>) {
    if tokio::time::timeout(CANCEL_WAIT, task.shutdown()).await.is_err() {
        tracing::info!("a canceled query computes on until it next looks up");
    }
}

/// The failure of a statement: an interruption if the user cancelled it and that ended it.
fn failed(error: Error, canceled: bool) -> Failure {
    match error.sqlstate() {
        "57014" if canceled => Failure::Interrupted,
        _ => error.into(),
    }
}

fn panicked(error: &JoinError) -> Failure {
    Failure::Failed(format!("internal error, please report it: {error}"))
}
