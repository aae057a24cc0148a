//! The library table `db`.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use thermocline_lua::{Kind, Raised};
use thermocline_statements::{Environment, Outcome, OutputColumn, Prepared, Rows};
use thermocline_tables::schema::{COLUMNS_MAX, NAME_BYTES_MAX};
use thermocline_tables::table::StatementMemory;
use thermocline_types::error::Raised as RaisedError;
use thermocline_types::{Class, DataType, Error, Value, ValueRef};

use super::super::loaded::{Statement, StatementHandle};
use super::super::machine::L;
use super::arguments::{bad, bytes, count, expected};
use super::result::{ResultSet, push_cells_of, push_result, push_row};
use super::value::{push_cell, push_timestamp, push_value, value_at, value_of};
use super::{Named, decimal, moment};
use crate::Context;

/// Instructions charged for a statement, besides the rows that it counts itself.
const INSTRUCTIONS_OF_A_STATEMENT: usize = 50;
/// Parameters of a statement that fit without an allocation.
const PARAMETERS_AT_HAND: usize = 12;
/// Maximum initial bytes of cells of a `db.rows` result.
const ROWS_BYTES_AT_ONCE: usize = 16 << 10;
/// Values of a row that are on the stack at the same time.
const CELLS_AT_ONCE: usize = 16;

pub const FUNCTIONS: &[Named] = &[
    ("abort", abort),
    ("call", call),
    ("date", moment::make_date),
    ("decimal", decimal::make),
    ("execute", execute),
    ("execute_each", execute_each),
    ("now", now),
    ("prepare", prepare),
    ("query", query),
    ("query_each", query_each),
    ("row", row),
    ("rows", rows),
    ("timestamp", moment::make_timestamp),
    ("uuid", uuid),
    ("value", value),
    ("values", values),
];

/// Methods of the statements that `db.prepare` returns.
pub const STATEMENT_FUNCTIONS: &[Named] = &[
    ("execute", execute),
    ("execute_each", execute_each),
    ("query", query),
    ("query_each", query_each),
    ("row", row),
    ("value", value),
    ("values", values),
];

/// Parameters of one run.
type Parameters = SmallVec<[Value; PARAMETERS_AT_HAND]>;

/// Runs the statement given or named by the first argument, with the other arguments as parameters.
fn run(stack: &L<'_>, name: &str) -> Result<(Rc<Statement>, Outcome), Raised> {
    with_statement(stack, name, 1, |context, statement| {
        let environment = context.environment();
        let types = statement.parameters();
        let mut parameters = Parameters::new();
        for (index, position) in (2..=stack.top()).enumerate() {
            parameters.push(parameter(stack, position, index, types, environment)?);
        }
        environment.keeping_texts(|| context.run(statement, &parameters))
    })
}

/// Runs it for each set of parameters in the table in the second argument.
fn run_each(stack: &L<'_>, name: &str) -> Result<(Rc<Statement>, Outcome), Raised> {
    if !stack.is_table(2) {
        return Err(expected(stack, 2, name, "table"));
    }
    let runs = stack.raw_len(2);
    with_statement(stack, name, runs, |context, statement| {
        let environment = context.environment();
        let types = statement.parameters();
        let set = |run| set(stack, run, types, environment);
        environment.keeping_texts(|| Ok(context.run_batch_of(statement, runs, set)?.outcome))
    })
}

fn with_statement(
    stack: &L<'_>,
    name: &str,
    runs: usize,
    run: impl FnOnce(&mut Context<'_, '_>, &Prepared) -> thermocline_types::Result<Outcome>,
) -> Result<(Rc<Statement>, Outcome), Raised> {
    let machine = stack.host();
    machine.spend(stack, runs.saturating_mul(INSTRUCTIONS_OF_A_STATEMENT))?;
    let handle = stack.user::<StatementHandle>(1).map(|handle| Rc::clone(&handle.0));
    let text = match (&handle, stack.kind(1)) {
        (Some(_), _) => &[][..],
        (None, Kind::Text(text)) => text,
        _ => return Err(expected(stack, 1, name, "statement")),
    };
    machine.transact(stack, |context| {
        let statement = match handle {
            Some(statement) => statement,
            None => plan(stack, context, text)?,
        };
        let outcome = run(context, &statement.prepared)?;
        Ok((statement, outcome))
    })
}

/// The parameter at a position of the stack.
#[inline]
fn parameter(
    stack: &L<'_>,
    position: i32,
    index: usize,
    types: &[DataType],
    environment: &Environment,
) -> thermocline_types::Result<Value> {
    let kind = stack.kind(position);
    // The common case.
    if let Kind::Integer(number) = kind {
        return Ok(Value::Int(number));
    }
    let value = value_of(stack, position, kind, types.get(index).copied()).map_err(|error| match error {
        Error::User(class, message) => class.error(format_args!("parameter ${}: {message}", index + 1)),
        error => error,
    })?;
    let value = value.to_value();
    environment.text(value.heap_bytes())?;
    Ok(value)
}

/// Parameters of one run: an element of the table at 2. Missing ones at its end are NULL.
fn set(
    stack: &L<'_>,
    run: usize,
    types: &[DataType],
    environment: &Environment,
) -> thermocline_types::Result<Parameters> {
    pushing(stack, |stack| {
        stack.raw_get_index(2, count(run).saturating_add(1));
        if !stack.is_table(-1) {
            return Err(Class::TypeMismatch.error(format_args!("set {} of parameters is no table", run + 1)));
        }
        let at = stack.top();
        let given = stack.raw_len(at);
        if given > types.len() {
            return Err(Class::UndefinedParameter.error(format_args!(
                "the statement has {} parameters and was given {given} in set {}",
                types.len(),
                run + 1
            )));
        }
        let mut parameters = Parameters::new();
        for index in 0..types.len() {
            parameters.push(pushing(stack, |stack| {
                stack.raw_get_index(at, count(index).saturating_add(1));
                parameter(stack, at + 1, index, types, environment)
            })?);
        }
        Ok(parameters)
    })
}

/// Runs a function and pops everything that it pushed.
fn pushing<T>(stack: &L<'_>, run: impl FnOnce(&L<'_>) -> thermocline_types::Result<T>) -> thermocline_types::Result<T> {
    let done = stack.scoped(|stack| Ok(run(stack)));
    done.unwrap_or_else(|_: Raised| Err(Error::internal("an error of Lua where none is raised")))
}

fn plan(stack: &L<'_>, context: &Context<'_, '_>, text: &[u8]) -> thermocline_types::Result<Rc<Statement>> {
    let machine = stack.host();
    let loaded = machine.current().ok_or_else(|| Error::internal("a statement outside of a procedure"))?;
    loaded.statement(context.schema(), text, machine.meter_of(), context.environment())
}

fn query(stack: &L<'_>) -> Result<i32, Raised> {
    let (statement, Outcome { rows, .. }) = run(stack, "query")?;
    push_result(stack, Arc::clone(&statement.columns), rows)?;
    Ok(1)
}

fn execute(stack: &L<'_>) -> Result<i32, Raised> {
    let (_, Outcome { affected, .. }) = run(stack, "execute")?;
    stack.push_integer(i64::try_from(affected).unwrap_or(i64::MAX));
    Ok(1)
}

/// `db.query_each(sql, {{1, 2}, {3, 4}})`: the rows of all runs, in the order of the sets.
fn query_each(stack: &L<'_>) -> Result<i32, Raised> {
    let (statement, Outcome { rows, .. }) = run_each(stack, "query_each")?;
    push_result(stack, Arc::clone(&statement.columns), rows)?;
    Ok(1)
}

/// `db.execute_each(sql, {{1, 2}, {3, 4}})`: number of rows that all runs have changed.
fn execute_each(stack: &L<'_>) -> Result<i32, Raised> {
    let (_, Outcome { affected, .. }) = run_each(stack, "execute_each")?;
    stack.push_integer(i64::try_from(affected).unwrap_or(i64::MAX));
    Ok(1)
}

/// The only row of a result, or none.
fn only(stack: &L<'_>, name: &str) -> Result<Option<(Rc<Statement>, Rows)>, Raised> {
    let (statement, Outcome { rows, .. }) = run(stack, name)?;
    match rows.len() {
        0 => Ok(None),
        1 => Ok(Some((statement, rows))),
        many => {
            let message = format!("db.{name} of a statement that gave {many} rows");
            Err(stack.host().abort(stack, Class::Cardinality.error(message)))
        }
    }
}

fn row(stack: &L<'_>) -> Result<i32, Raised> {
    match only(stack, "row")? {
        Some((statement, rows)) => push_row(stack, &statement.columns, &rows, 0),
        None => stack.push_nil(),
    }
    Ok(1)
}

fn value(stack: &L<'_>) -> Result<i32, Raised> {
    match only(stack, "value")? {
        Some((_, rows)) => push_cell(stack, &rows, 0, 0),
        None => stack.push_nil(),
    }
    Ok(1)
}

/// `db.values(sql, ...)`, or `db.values(result, row)`.
fn values(stack: &L<'_>) -> Result<i32, Raised> {
    if let Some(result) = stack.user::<ResultSet>(1) {
        return match stack.kind(2) {
            Kind::Integer(row) => result.push_values(stack, row),
            _ => Err(expected(stack, 2, "values", "integer")),
        };
    }
    let Some((_, rows)) = only(stack, "values")? else { return Ok(0) };
    push_cells_of(stack, &rows, 0)
}

/// `db.prepare(sql)`, or `db.prepare(name, sql)`, after which the name stands for the statement.
fn prepare(stack: &L<'_>) -> Result<i32, Raised> {
    let named = !stack.is_none(2);
    let text = bytes(stack, if named { 2 } else { 1 }, "prepare")?;
    let machine = stack.host();
    let statement = machine.transact(stack, |context| plan(stack, context, text))?;
    if named {
        let name = bytes(stack, 1, "prepare")?;
        if let Some(loaded) = machine.current() {
            loaded.name_statement(name, Rc::clone(&statement), machine.meter_of());
        }
    }
    match machine.kept() {
        Ok(kept) => stack.push_user(StatementHandle(statement), &kept.statement),
        Err(error) => return Err(machine.abort(stack, error)),
    }
    Ok(1)
}

/// Calls another procedure as part of this transaction.
fn call(stack: &L<'_>) -> Result<i32, Raised> {
    let name = bytes(stack, 1, "call")?;
    let answer = stack.host().transact(stack, |context| {
        let name = super::utf8(name)?;
        let wanted: Vec<DataType> = context.argument_types(name)?;
        let arguments = (2..=stack.top())
            .zip(0_usize..)
            .map(|(position, index)| value_at(stack, position, wanted.get(index).copied()));
        let arguments = arguments.collect::<thermocline_types::Result<Vec<_>>>()?;
        context.call(name, &arguments)
    })?;
    push_result(stack, answer.columns, answer.rows)?;
    Ok(1)
}

/// Ends the transaction: `db.abort(message)`, `db.abort(message, sqlstate)`.
fn abort(stack: &L<'_>) -> Result<i32, Raised> {
    let message = String::from_utf8_lossy(bytes(stack, 1, "abort")?).into_owned();
    let error = match stack.kind(2) {
        Kind::Nil => Class::Raised.error(message),
        Kind::Text(state) => {
            let is_state = state.len() == 5
                && state.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
                && !state.starts_with(b"00");
            if !is_state {
                return Err(bad(stack, 2, "abort", "a SQLSTATE has five digits and capital letters"));
            }
            let sqlstate = String::from_utf8_lossy(state).into_owned().into_boxed_str();
            Error::Raised(Box::new(RaisedError { sqlstate, message: message.into() }))
        }
        _ => return Err(expected(stack, 2, "abort", "string")),
    };
    Err(stack.host().abort(stack, error))
}

/// `db.rows({"id", "total"}, {{1, 2}, {id = 3, total = 4}})`: a result to return.
fn rows(stack: &L<'_>) -> Result<i32, Raised> {
    for position in 1..=2 {
        if !stack.is_table(position) {
            return Err(expected(stack, position, "rows", "table"));
        }
    }
    let machine = stack.host();
    let (width, height) = (stack.raw_len(1), stack.raw_len(2));
    if width > COLUMNS_MAX {
        return Err(bad(stack, 1, "rows", &format!("a result has at most {COLUMNS_MAX} columns")));
    }
    machine.spend(stack, width.saturating_mul(height.saturating_add(1)))?;
    let mut columns: Vec<(Box<str>, Option<DataType>)> = Vec::with_capacity(width);
    for index in 1..=count(width) {
        let name = stack.scoped(|stack| {
            stack.raw_get_index(1, index);
            match stack.kind(-1) {
                Kind::Text(name) if name.len() > NAME_BYTES_MAX => {
                    Err(bad(stack, 1, "rows", &format!("names of columns have at most {NAME_BYTES_MAX} bytes")))
                }
                Kind::Text(name) => Ok(String::from_utf8_lossy(name).into()),
                _ => Err(bad(stack, 1, "rows", "names of columns are strings")),
            }
        })?;
        columns.push((name, None));
    }
    let mut out = Rows::new(columns.len());
    let at_once = ROWS_BYTES_AT_ONCE / (size_of::<ValueRef<'_>>() * width.max(1));
    out.reserve(height.min(at_once));
    let filled = machine.with_context(|context| {
        let memory = context.environment().memory();
        (1..=count(height)).try_for_each(|row| push_cells(stack, row, &mut columns, &mut out, memory))
    });
    filled.unwrap_or_else(|| Err(machine.abort(stack, Error::internal("a result outside of a transaction"))))?;
    let column = |(name, data_type): (Box<str>, Option<DataType>)| OutputColumn {
        name,
        data_type: data_type.unwrap_or(DataType::Text),
    };
    push_result(stack, columns.into_iter().map(column).collect(), out)?;
    Ok(1)
}

/// Appends one of the rows of `db.rows`: values by their columns' names or numbers.
fn push_cells(
    stack: &L<'_>,
    row: i64,
    columns: &mut [(Box<str>, Option<DataType>)],
    out: &mut Rows,
    memory: Option<&StatementMemory>,
) -> Result<(), Raised> {
    let machine = stack.host();
    stack.scoped(|stack| {
        stack.raw_get_index(2, row);
        if !stack.is_table(-1) {
            return Err(bad(stack, 2, "rows", &format!("row {row} is no table")));
        }
        let (at, values, width) = (stack.top(), stack.raw_len(-1), columns.len());
        if values > width {
            return Err(bad(stack, 2, "rows", &format!("row {row} has {values} values for {width} columns")));
        }
        let mut number = 0;
        for columns in columns.chunks_mut(CELLS_AT_ONCE) {
            stack.scoped(|stack| {
                columns.iter_mut().try_for_each(|(name, data_type)| {
                    number += 1;
                    let kind = stack.raw_get_named(1, at, number);
                    let pushed = value_of(stack, -1, kind, None).and_then(|value| {
                        *data_type = common(*data_type, value, name)?;
                        out.push_within(value, memory)
                    });
                    pushed.map_err(|error| match error {
                        // A script must not be able to see whether there is memory.
                        Error::OutOfMemory(_) => machine.abort(stack, error),
                        error => machine.raise(stack, error),
                    })
                })
            })?;
        }
        Ok(())
    })?;
    if stack.may_hold(out.byte_size()) {
        return Ok(());
    }
    let message = "no memory for the rows of db.rows";
    Err(machine.abort(stack, Error::OutOfMemory(message.into())))
}

/// Type of a column that holds one more value.
fn common(known: Option<DataType>, value: ValueRef<'_>, name: &str) -> thermocline_types::Result<Option<DataType>> {
    match (known, value.data_type()) {
        (known, None) => Ok(known),
        (None, found) => Ok(found),
        (Some(known), Some(found)) if known == found => Ok(Some(known)),
        (Some(DataType::BigInt | DataType::Numeric), Some(DataType::BigInt | DataType::Numeric)) => {
            Ok(Some(DataType::Numeric))
        }
        (Some(known), Some(found)) => {
            Err(Class::TypeMismatch.error(format_args!("column \"{name}\" has values of {known} and of {found}")))
        }
    }
}

fn now(stack: &L<'_>) -> Result<i32, Raised> {
    let now = stack.host().transact(stack, |context| Ok(context.now()))?;
    push_timestamp(stack, now.0);
    Ok(1)
}

fn uuid(stack: &L<'_>) -> Result<i32, Raised> {
    let uuid = stack.host().transact(stack, |context| Ok(context.environment().random_uuid()))?;
    push_value(stack, ValueRef::Uuid(uuid));
    Ok(1)
}
