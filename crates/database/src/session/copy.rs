//! COPY in PostgreSQL's form: files to row tables, queries to files.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Ident, ObjectName, Statement as Ast};
use flate2::read::MultiGzDecoder;
use thermocline_compute::EngineStream;
use thermocline_pushdown::user_err;
use thermocline_syntax::folded;
use thermocline_transactions::database::{Load, RowSession, StatementResult};
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::schema::{TableDefinition, write_identifier};
use thermocline_transactions::types::{DataType, Value, ValueRef, parse_text};
use thermocline_types::{Class, Error, Result as RowResult};
use tokio::sync::mpsc::Receiver;

use super::dispatch::Dispatch;
use super::session::Session;
use super::streams::Streams;
use crate::arrow::Source;
use crate::bridge::{blocking, external};
use crate::copy::{CopyFormat, Output, RowReader, RowWriter, create, finish, of_file};
use crate::statement::{Statement, plain_query, simple};

/// COPY in PostgreSQL's form:
///
/// ```text
/// file --rows--> load, hidden until all of them are there        in a transaction: INSERT for each row
/// query --batches--> rows --> file
/// ```
impl Session {
    pub(super) async fn copy(
        &self,
        statement: &Statement,
        streams: Streams,
        interrupt: &Arc<Interrupt>,
    ) -> Result<EngineStream> {
        let Some(Ast::Copy { source, to, target, options, legacy_options, .. }) = statement.ast() else {
            return user_err!(Syntax, "expected COPY");
        };
        let format = CopyFormat::of(options, legacy_options, target).map_err(external)?;
        let affected = match source {
            CopySource::Table { table_name, columns } if !to => {
                self.copy_from(table_name, columns, target, (format, streams.input), interrupt).await?
            }
            CopySource::Table { table_name, columns } => {
                let columns: Vec<String> = columns.iter().map(Ident::to_string).collect();
                let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
                let query = plain_query(&format!("SELECT {columns} FROM {table_name}"))?;
                self.copy_to(statement.part(Ast::Query(query))?, target, (format, streams.output), interrupt).await?
            }
            CopySource::Query(query) => {
                self.copy_to(statement.part(Ast::Query(query.clone()))?, target, (format, streams.output), interrupt)
                    .await?
            }
        };
        self.streamed(&StatementResult { affected, ..StatementResult::default() })
    }

    async fn copy_to(
        &self,
        query: Statement,
        target: &CopyTarget,
        (format, output): (CopyFormat, Option<Box<dyn Write + Send>>),
        interrupt: &Arc<Interrupt>,
    ) -> Result<u64> {
        let path = match target {
            CopyTarget::File { filename } => Some(self.file_of_copy(filename)?),
            CopyTarget::Stdout if output.is_some() => None,
            CopyTarget::Stdout => return Err(no_stream("COPY TO STDOUT")),
            other => return Err(external(Class::Unsupported.error(format_args!("COPY TO {other} is not supported")))),
        };
        let headings = query.headings();
        let rows = match self.dispatch(&query)? {
            Dispatch::RowsFirst => self.rows_first(query, interrupt).await?,
            _ => self.analytic(query, interrupt).await?,
        };
        let schema = headings.of_schema(&rows.schema);
        let (output, file) = match path {
            Some(path) => {
                let is_gzip = is_gzip(&path);
                let (file, writer) = blocking(move || create(path)).await??;
                (Output::new(Box::new(writer), is_gzip), file)
            }
            None => (Output::new(output.unwrap_or_else(|| Box::new(std::io::sink())), false), None),
        };
        let write = move |batches| write_all(output, format, &schema, batches);
        let rows = self.feed((vec![], rows), interrupt, write).await?;
        if let Some(file) = file {
            blocking(move || finish(file)).await??;
        }
        Ok(rows)
    }

    async fn copy_from(
        &self,
        table: &ObjectName,
        columns: &[Ident],
        target: &CopyTarget,
        (format, input): (CopyFormat, Option<Box<dyn Read + Send>>),
        interrupt: &Arc<Interrupt>,
    ) -> Result<u64> {
        let name = simple(table).unwrap_or_else(|| table.to_string());
        if self.engine().has_relation(&name) {
            return user_err!(
                WrongObject,
                "{name} is no row table: external tables are read only, write objects to their location"
            );
        }
        let schema = self.row_schema();
        let into = RowTarget::new(schema.table(&name).map_err(external)?, columns).map_err(external)?;
        let input = match target {
            CopyTarget::File { filename } => {
                let path = self.file_of_copy(filename)?;
                let is_gzip = is_gzip(&path);
                let file = blocking(move || open(&path)).await??;
                if is_gzip {
                    Box::new(MultiGzDecoder::new(BufReader::new(file))) as Box<dyn Read + Send>
                } else {
                    Box::new(file)
                }
            }
            CopyTarget::Stdin => input.ok_or_else(|| no_stream("COPY FROM STDIN"))?,
            other => {
                return Err(external(Class::Unsupported.error(format_args!("COPY FROM {other} is not supported"))));
            }
        };
        if self.in_transaction() {
            let insert = into.insert();
            let work = move |session: &mut RowSession| {
                into.read_all(input, format, |values| {
                    let values: Vec<Value> = values.iter().map(|value| value.to_value()).collect();
                    session.execute(&insert, &values).map(drop)
                })
            };
            return self.rows.statement(interrupt, work).await;
        }
        let (table, columns) = (into.table.clone(), into.names());
        let begin = move |session: &mut RowSession| session.load(&table, &columns);
        let mut load: Load = self.rows.statement(interrupt, begin).await?;
        let work = move || {
            into.read_all(input, format, |values| load.push(values))?;
            load.finish()
        };
        self.rows.without_session(interrupt, work).await
    }

    /// The path of a file, checked against the allowed locations.
    fn file_of_copy(&self, name: &str) -> Result<PathBuf> {
        let named = name.strip_prefix("file://").unwrap_or(name);
        if named.contains("://") {
            return Err(external(Class::Unsupported.error(format_args!(
                "COPY in PostgreSQL's form is of files, not of {name}; COPY ... TO '{name}' STORED AS CSV, or an external \
                 table, is of objects"
            ))));
        }
        let path = std::path::absolute(named)?;
        self.settings().allowed_locations.check(&path.to_string_lossy())?;
        Ok(path)
    }
}

/// Target table of COPY FROM.
struct RowTarget {
    table: Box<str>,
    columns: Vec<(Box<str>, DataType)>,
}

impl RowTarget {
    fn new(table: &TableDefinition, columns: &[Ident]) -> RowResult<Self> {
        let named = |name: &Ident| {
            let name = folded(name);
            table.column(&name)
        };
        let positions = match columns {
            [] => table.listed_columns().map(|(position, _)| position).collect(),
            columns => columns.iter().map(named).collect::<RowResult<Vec<_>>>()?,
        };
        let columns = positions.iter().filter_map(|position| table.columns.get(*position));
        let columns = columns.map(|column| (column.name.clone(), column.data_type)).collect();
        Ok(Self { table: table.name.clone(), columns })
    }

    fn names(&self) -> Vec<Box<str>> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    /// An INSERT of one row of parameters.
    fn insert(&self) -> String {
        let quoted = |name: &str| {
            let mut text = String::new();
            // Writing to a String cannot fail.
            let _ = write_identifier(&mut text, name);
            text
        };
        let columns: Vec<String> = self.columns.iter().map(|(name, _)| quoted(name)).collect();
        let parameters: Vec<String> = (1..=columns.len()).map(|number| format!("${number}")).collect();
        let (table, columns, parameters) = (quoted(&self.table), columns.join(", "), parameters.join(", "));
        format!("INSERT INTO {table} ({columns}) VALUES ({parameters})")
    }

    /// Passes all rows to `push` and returns their number.
    fn read_all(
        &self,
        input: Box<dyn Read + Send>,
        format: CopyFormat,
        mut push: impl FnMut(&[ValueRef<'_>]) -> RowResult<()>,
    ) -> RowResult<u64> {
        let mut may_be_header = format.may_have_header;
        let mut reader = RowReader::new(input, format).map_err(|error| self.at(1, None, error))?;
        let (mut rows, mut values) = (0, Vec::with_capacity(self.columns.len()));
        loop {
            let next = reader.next_row();
            let line = reader.line();
            if !next.map_err(|error| self.at(line, None, error))? {
                return Ok(rows);
            }
            if std::mem::take(&mut may_be_header) && self.is_header(&reader) {
                continue;
            }
            self.check_width(reader.len()).map_err(|error| self.at(line, None, error))?;
            values.clear();
            for (position, (name, data_type)) in self.columns.iter().enumerate() {
                let value = reader.field(position).and_then(|field| match field {
                    // Texts are taken unparsed, see below.
                    Some(_) if data_type.is_text() => Ok(Value::Null),
                    Some(text) => parse_text(text, *data_type),
                    None => Ok(Value::Null),
                });
                values.push(value.map_err(|error| self.at(line, Some(name), error))?);
            }
            let mut given = Vec::with_capacity(values.len());
            for ((position, (_, data_type)), value) in self.columns.iter().enumerate().zip(&values) {
                given.push(match reader.field(position) {
                    Ok(Some(text)) if data_type.is_text() => ValueRef::Text(text),
                    _ => value.as_ref(),
                });
            }
            push(&given).map_err(|error| self.at(line, None, error))?;
            rows += 1;
        }
    }

    /// Whether the row has the names of the columns.
    fn is_header(&self, row: &RowReader<Box<dyn Read + Send>>) -> bool {
        let mut names = self.columns.iter().enumerate();
        row.len() == self.columns.len()
            && names.all(|(at, (name, _))| matches!(row.field(at), Ok(Some(field)) if field == &**name))
    }

    fn check_width(&self, given: usize) -> RowResult<()> {
        match self.columns.get(given) {
            Some((name, _)) => Err(Class::BadCopyFormat.error(format_args!("missing data for column \"{name}\""))),
            None if given > self.columns.len() => {
                Err(Class::BadCopyFormat.error("extra data after last expected column"))
            }
            None => Ok(()),
        }
    }

    /// Adds the position in the file to an error of a row; other errors do not concern the current row.
    fn at(&self, line: u64, column: Option<&str>, error: Error) -> Error {
        let column = column.map(|name| format!(", column {name}")).unwrap_or_default();
        match error {
            Error::User(Class::ObjectInUse | Class::ActiveTransaction | Class::FailedTransaction, _) => error,
            Error::User(class, message) => {
                class.error(format_args!("COPY {}, line {line}{column}: {message}", self.table))
            }
            other => other,
        }
    }
}

fn no_stream(what: &str) -> DataFusionError {
    external(Class::Unsupported.error(format_args!(
        "{what} is for a statement that is given its rows, as by thermocline sql DB -c '{what}' with a file or pipe \
         beside it; in scripts use COPY with the name of a file"
    )))
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| of_file(path, &error))
}

/// Writes batches as they arrive, up to `None`, and returns the number of rows. A channel that closes without `None`
/// means that the query has failed or the statement was dropped.
fn write_all(
    output: Output,
    format: CopyFormat,
    schema: &SchemaRef,
    mut batches: Receiver<Option<RecordBatch>>,
) -> RowResult<u64> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mut writer = RowWriter::new(output, format, names);
    let mut rows = 0;
    while let Some(batch) = batches.blocking_recv() {
        let Some(batch) = batch else {
            return match writer.finish().and_then(Output::end) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(of_writing(&error)),
                _ => Ok(rows),
            };
        };
        let source = Source::new(&batch).map_err(failed)?;
        let mut values = Vec::with_capacity(batch.num_columns());
        for row in 0..batch.num_rows() {
            source.read(row, &mut values).map_err(failed)?;
            match writer.push_row(&values)? {
                // The reader has closed the pipe, as in `| head`.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(rows),
                written => written.map_err(|error| of_writing(&error))?,
            }
            rows += 1;
        }
    }
    Err(Error::Cancelled("the query whose rows were to be copied has ended before its last row".into()))
}

fn of_writing(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull => Error::DiskFull(error.to_string().into()),
        _ => Error::Io(error.to_string().into()),
    }
}

fn failed(error: DataFusionError) -> Error {
    Class::Unsupported.error(format_args!("{}: write a CAST to TEXT", error.strip_backtrace()))
}
