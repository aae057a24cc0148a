//! Translation of the errors of DataFusion, Arrow, the parser and storage nodes into errors with SQLSTATEs.

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use thermocline_compute::StatementTimeout;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_syntax::nearest;
use thermocline_types::{Class, Error as SqlError};

use super::error::{Error, Position};
use super::library::{of_message, plain};

/// Translates a DataFusion error; returns wrapped errors of ours unchanged.
pub(super) fn translated(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(context, inner) => in_context(context, translated(inner)),
        DataFusionError::Diagnostic(_, inner) => translated(inner),
        DataFusionError::Collection(errors) => {
            errors.first().map_or_else(|| internal("an error of nothing"), translated)
        }
        DataFusionError::Shared(inner) => translated(inner),
        DataFusionError::SQL(parser, _) => of_parser(parser),
        DataFusionError::SchemaError(error, _) => of_schema(error),
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::External(inner) => of_external(inner.as_ref()),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::Plan(message) => of_message(message, "42000"),
        DataFusionError::Configuration(message) => of_message(message, "22023"),
        DataFusionError::NotImplemented(message) => of_message(message, "0A000"),
        DataFusionError::Execution(message) => of_message(message, "58000"),
        DataFusionError::Internal(message) => of_message(message, "XX000"),
        DataFusionError::IoError(error) => of_io(error),
        DataFusionError::ObjectStore(error) => of_node(&NodeError::from_store(error)),
        DataFusionError::ParquetError(error) => match source(error.as_ref()) {
            Some(ours) => ours,
            None => Error::new("XX001", format!("Parquet: {}", plain(&error.to_string()))),
        },
        DataFusionError::ExecutionJoin(_) => internal("a task of the query panicked"),
        other => internal(&other.strip_backtrace()),
    }
}

/// An internal error.
pub(super) fn internal(what: &str) -> Error {
    Error::new("XX000", format!("internal error: {}", plain(what)))
        .with_hint("this is a defect of Thermocline: please report it with the statement")
}

/// Adds context to an error, except names of the library's own parts.
fn in_context(context: &str, error: Error) -> Error {
    let is_of_library = context.starts_with("Optimizer rule '")
        || context.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        || context.starts_with("Object Store")
        || context.contains("Aggregate Function")
        || context.contains("type_coercion");
    if is_of_library { error } else { error.context(context) }
}

/// Translates a boxed error.
fn of_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    source(error).unwrap_or_else(|| of_message(&error.to_string(), "58000"))
}

/// The first of our errors in a chain of sources.
fn source(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours.clone());
        }
        if let Some(ours) = error.downcast_ref::<SqlError>() {
            return Some(Error::from(ours));
        }
        if let Some(node) = error.downcast_ref::<NodeError>() {
            return Some(of_node(node));
        }
        if error.is::<StatementTimeout>() {
            return Some(Error::new("57014", error.to_string()));
        }
        if let Some(inner) = error.downcast_ref::<DataFusionError>() {
            return Some(translated(inner));
        }
        if let Some(store) = error.downcast_ref::<object_store::Error>() {
            return Some(of_node(&NodeError::from_store(store)));
        }
        current = error.source();
    }
    None
}

fn of_node(error: &NodeError) -> Error {
    let state = match error.sqlstate.as_deref() {
        Some(state) => state,
        None => match error.kind {
            ErrorKind::Internal => "XX000",
            ErrorKind::VersionChanged => "40001",
            ErrorKind::NotFound => "58P01",
            ErrorKind::Refused => "42501",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::BadData => "XX001",
            ErrorKind::DeadlineExceeded => "57014",
            ErrorKind::RawIsSmaller | ErrorKind::ResourcesExhausted => "53200",
            ErrorKind::Unavailable => "08006",
            ErrorKind::PushedBack | ErrorKind::UnknownContent | ErrorKind::Busy => "53300",
        },
    };
    Error::new(state, plain(&error.message))
}

fn of_io(error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
    if let Some(inner) = error.get_ref()
        && let Some(ours) = source(inner)
    {
        return ours;
    }
    let state = match error.kind() {
        NotFound => "58P01",
        PermissionDenied => "42501",
        StorageFull => "53100",
        _ => "58030",
    };
    Error::new(state, error.to_string())
}

fn out_of_memory(message: &str) -> Error {
    // Keeps the memory use of operators, which helps to size the machine.
    Error::new("53200", format!("out of memory: {}", plain(message)))
        .with_hint("ALTER DATABASE SET query_memory_limit, or let fewer queries run at once with queries_in_flight")
}

fn of_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::from(Class::DivisionByZero.error("division by zero")),
        ArrowError::ArithmeticOverflow(_) => {
            Error::from(Class::OutOfRange.error("a number is out of range of its type"))
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => of_message(message, "22P02"),
        ArrowError::ExternalError(inner) => of_external(inner.as_ref()),
        ArrowError::MemoryError(message) => out_of_memory(message),
        ArrowError::IoError(_, error) => of_io(error),
        ArrowError::NotYetImplemented(message) => of_message(message, "0A000"),
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message) => of_message(message, "22023"),
        ArrowError::CsvError(message) => Error::new("22P04", plain(message)),
        ArrowError::ParquetError(message) => Error::new("XX001", plain(message)),
        other => of_message(&other.to_string(), "58000"),
    }
}

/// Translates a parser error, whose message ends with the position.
fn of_parser(error: &ParserError) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return Error::from(Class::TooDeep.error("the statement is nested too deeply"));
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    of_syntax(message)
}

/// Makes a syntax error from a message that may end with the position.
pub(super) fn of_syntax(message: &str) -> Error {
    let placed = message.rsplit_once(" at Line: ").and_then(|(before, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let column = column.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((before, line.parse().ok()?, column.parse().ok()?))
    });
    let (text, position) = match placed {
        Some((before, line, column)) => (before, Some(Position { line, column, text: "".into(), start: 1 })),
        None => (message, None),
    };
    let text = text.strip_suffix(" in the statement").unwrap_or(text);
    let text = text.replace("found: EOF", END);
    let error = Error::new(Class::Syntax.sqlstate(), format!("syntax error: {}", lower(&text)));
    match position {
        Some(position) => error.at(position),
        None => error,
    }
}

/// End of a parser message about the end of a statement.
pub(super) const END: &str = "found: the end";

/// The text with its first letter in lower case, unless it begins with a word in capitals, such as an SQL keyword.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn of_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            Error::from(Class::AmbiguousColumn.error(message))
                .about(field.name.as_str())
                .with_hint("write the table in front of it, as in t.column")
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            let message = format!("column \"{name}\" specified more than once");
            Error::from(Class::DuplicateColumn.error(message)).about(name.as_str())
        }
    }
}

fn no_column(field: &Column, valid: &[Column]) -> Error {
    let table = field.relation.as_ref().map(|relation| relation.table());
    if let Some(table) = table
        && !valid.iter().any(|column| column.relation.as_ref().is_some_and(|relation| relation.table() == table))
    {
        let message = format!("missing FROM-clause entry for table \"{table}\"");
        return Error::from(Class::UndefinedTable.error(message)).about(table);
    }
    let message = match table {
        Some(table) => format!("column {table}.{} does not exist", field.name),
        None => format!("column \"{}\" does not exist", field.name),
    };
    let error = Error::from(Class::UndefinedColumn.error(message)).about(field.name.as_str());
    match nearest(&field.name, valid.iter().map(|column| column.name.as_str())) {
        Some(near) => error.with_hint(meant(near)),
        None => error,
    }
}

/// The hint for a likely intended name, quoted if necessary.
pub fn meant(name: &str) -> String {
    let plain =
        name.chars().enumerate().all(|(at, c)| c.is_ascii_lowercase() || c == '_' || (at > 0 && c.is_ascii_digit()));
    if plain { format!("did you mean {name}?") } else { format!("did you mean \"{name}\"?") }
}
