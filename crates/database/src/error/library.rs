//! Translation of DataFusion's and Arrow's messages to SQL terms.

use datafusion::sql::sqlparser::ast::{BinaryOperator, UnaryOperator};
use thermocline_types::Class;

use super::error::Error;
use super::translate::{internal, meant};

/// Translates a message; unknown ones get the SQLSTATE `otherwise`.
pub(super) fn of_message(message: &str, otherwise: &str) -> Error {
    let message = without_kinds(message);
    known(message)
        .unwrap_or_else(|| if otherwise == "XX000" { internal(message) } else { Error::new(otherwise, plain(message)) })
}

fn known(message: &str) -> Option<Error> {
    let between = |before: &str, after: &str| {
        let (_, rest) = message.split_once(before)?;
        rest.split_once(after).map(|(found, _)| found)
    };
    let of = |class: Class, message: String| Some(Error::from(class.error(message)));
    if let Some(name) = between("table '", "' not found") {
        let name = name.strip_prefix("thermocline.").unwrap_or(name);
        let name = name.strip_prefix("public.").unwrap_or(name);
        return of(Class::UndefinedTable, format!("table \"{name}\" does not exist")).map(|error| error.about(name));
    }
    if let Some(name) = between("table function '", "' not found").or_else(|| between("Invalid function '", "'.")) {
        if WINDOW_FUNCTIONS.contains(&name) {
            return Some(Error::new("42809", format!("window function {name} requires an OVER clause")).about(name));
        }
        let error = of(Class::UndefinedFunction, format!("function {name}(...) does not exist"))?.about(name);
        return Some(match between("Did you mean '", "'?") {
            Some(near) if thermocline_syntax::nearest(name, [near]).is_some() => error.with_hint(meant(near)),
            _ => error,
        });
    }
    if let Some(call) = between("No function matches the given name and argument types '", "'.") {
        let name = call.split('(').next().unwrap_or_default();
        let error = of(Class::UndefinedFunction, format!("function {} does not exist", plain(call)))?.about(name);
        return Some(error.with_hint("no function of this name takes arguments of these types: cast them"));
    }
    if let Some(name) = between("column \"", "\" must appear in the GROUP BY clause") {
        let name = plain(name);
        let last = name.rsplit('.').next().unwrap_or(&name).to_owned();
        let what = format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
        return of(Class::Grouping, what).map(|error| error.about(last));
    }
    let is_unplanned = message.starts_with("Physical plan does not support logical expression");
    if message.starts_with("Aggregate functions are not allowed in the WHERE clause")
        || is_unplanned && message.contains("AggregateFunction")
    {
        return of(Class::Grouping, "aggregate functions are not allowed in WHERE".to_owned())
            .map(|error| error.with_hint("conditions of groups stand in HAVING"));
    }
    if is_unplanned && message.contains("WindowFunction") {
        let error = Error::new("42P20", "window functions are not allowed in WHERE");
        return Some(error.with_hint("compute it in a subquery, and filter its rows"));
    }
    if message.starts_with("Aggregate function calls cannot be nested") {
        return of(Class::Grouping, "aggregate function calls cannot be nested".to_owned());
    }
    if let Some(given) = message.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return of(Class::TypeMismatch, format!("argument of NOT must be type boolean, not type {}", plain(given)));
    }
    if message.starts_with("Scalar subquery returned more than one row") {
        return of(Class::Cardinality, "more than one row returned by a subquery used as an expression".to_owned());
    }
    if message.contains("queries have different number of columns") {
        let what = message.split(' ').next().unwrap_or("UNION");
        return of(Class::Syntax, format!("each {what} query must have the same number of columns"));
    }
    if message.starts_with("LIMIT must be >= 0") || message.starts_with("OFFSET must be >= 0") {
        return of(Class::InvalidParameter, "LIMIT and OFFSET must not be negative".to_owned());
    }
    if let Some(rest) = message.strip_prefix("Can't cast value ")
        && let Some((value, to)) = rest.split_once(" to type ")
    {
        return of(Class::OutOfRange, format!("{value} is out of range for type {}", plain(to)));
    }
    if message.starts_with("Too many columns! The subquery should only return one column") {
        return of(Class::Syntax, "subquery must return only one column".to_owned());
    }
    if message.starts_with("Format not explicitly set and unable to get file extension") {
        let error = of(Class::Syntax, "COPY TO does not say the format of the file".to_owned())?;
        return Some(error.with_hint("STORED AS PARQUET, CSV or JSON behind the target, or a name that ends so"));
    }
    if let Some(rest) = message.strip_prefix("Cannot create filter with non-boolean predicate '") {
        let given = rest.rsplit_once("' returning ").map_or("another", |(_, given)| given);
        return of(Class::TypeMismatch, format!("argument of WHERE must be type boolean, not type {}", plain(given)));
    }
    if let Some(rest) = message.strip_prefix("Cannot coerce arithmetic expression ") {
        let operands = rest.split(" to valid types").next().unwrap_or(rest);
        return of(Class::UndefinedFunction, format!("operator does not exist: {}", plain(operands)));
    }
    if let Some(rest) = message.strip_prefix("Cannot infer common argument type for comparison operation ") {
        return of(Class::UndefinedFunction, format!("operator does not exist: {}", plain(rest)));
    }
    if let Some((from, to)) = between("Cannot cast string '", "' to value of ").and_then(|value| {
        let (_, to) = message.split_once("' to value of ")?;
        Some((value, to.trim_end_matches(" type")))
    }) {
        return of(Class::InvalidText, format!("invalid input syntax for type {}: \"{from}\"", plain(to)));
    }
    if message.contains("There isn't a common type to coerce") {
        let types = between("to coerce ", " in ").unwrap_or("these types");
        let types = types.replace(" and ", " LIKE ");
        return of(Class::UndefinedFunction, format!("operator does not exist: {}", plain(&types)));
    }
    if let Some(name) = message.strip_prefix("View '").and_then(|rest| rest.strip_suffix("' doesn't exist.")) {
        return of(Class::UndefinedTable, format!("view \"{name}\" does not exist")).map(|error| error.about(name));
    }
    if message.contains("Divide by zero") || message.contains("divide by zero") {
        return of(Class::DivisionByZero, "division by zero".to_owned());
    }
    if let Some(name) = message
        .strip_prefix("Unsupported SQL unary operator ")
        .or_else(|| message.strip_prefix("Unsupported binary operator: "))
    {
        let unary = UNARY.iter().find(|operator| format!("{operator:?}") == name).map(ToString::to_string);
        let binary = || BINARY.iter().find(|operator| format!("{operator:?}") == name).map(ToString::to_string);
        return match unary.or_else(binary) {
            Some(operator) => of(Class::Unsupported, format!("operator {operator} is not supported here"))
                .map(|error| error.about(operator)),
            None => of(Class::Unsupported, "an operator of the statement is not supported".to_owned()),
        };
    }
    if message.starts_with("Unsupported LIMIT expression") || message.starts_with("Unsupported OFFSET expression") {
        return of(Class::Unsupported, "LIMIT and OFFSET take constants and parameters only".to_owned());
    }
    if message.starts_with("Unsupported SQL statement") || message.starts_with("Unsupported SQL") {
        let what = message.split_once(": ").map_or(message, |(_, what)| what);
        return of(Class::Unsupported, format!("not supported: {}", plain(what)));
    }
    None
}

/// Operators of the dialect that DataFusion has no expressions for, in the messages of which they have their Rust names.
const UNARY: [UnaryOperator; 12] = [
    UnaryOperator::AtDashAt,
    UnaryOperator::BangNot,
    UnaryOperator::BitwiseNot,
    UnaryOperator::DoubleAt,
    UnaryOperator::Hash,
    UnaryOperator::PGAbs,
    UnaryOperator::PGCubeRoot,
    UnaryOperator::PGPostfixFactorial,
    UnaryOperator::PGPrefixFactorial,
    UnaryOperator::PGSquareRoot,
    UnaryOperator::QuestionDash,
    UnaryOperator::QuestionPipe,
];

/// The same with two operands.
const BINARY: [BinaryOperator; 28] = [
    BinaryOperator::AndGt,
    BinaryOperator::AndLt,
    BinaryOperator::AndLtPipe,
    BinaryOperator::At,
    BinaryOperator::DoubleHash,
    BinaryOperator::GtCaret,
    BinaryOperator::LtCaret,
    BinaryOperator::LtDashGt,
    BinaryOperator::LtLtPipe,
    BinaryOperator::Match,
    BinaryOperator::Overlaps,
    BinaryOperator::PGBitwiseShiftLeft,
    BinaryOperator::PGBitwiseShiftRight,
    BinaryOperator::PGBitwiseXor,
    BinaryOperator::PGOverlap,
    BinaryOperator::PGStartsWith,
    BinaryOperator::PipeAndGt,
    BinaryOperator::PipeGtGt,
    BinaryOperator::QuestionDash,
    BinaryOperator::QuestionDashPipe,
    BinaryOperator::QuestionDoublePipe,
    BinaryOperator::QuestionHash,
    BinaryOperator::Regexp,
    BinaryOperator::Spaceship,
    BinaryOperator::TildeEq,
    BinaryOperator::Xor,
    BinaryOperator::HashMinus,
    BinaryOperator::AtQuestion,
];

/// Window functions, which require OVER.
const WINDOW_FUNCTIONS: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Prefixes of error kinds, which are meaningless to users.
const KINDS: [&str; 14] = [
    "Error during planning: ",
    "Execution error: ",
    "Invalid or Unsupported Configuration: ",
    "External error: ",
    "This feature is not implemented: ",
    "Schema error: ",
    "Arrow error: ",
    "Parquet error: ",
    "Internal error: ",
    "Cast error: ",
    "Parser error: ",
    "Compute error: ",
    "Invalid argument error: ",
    "Optimizer rule 'optimize_projections' failed\ncaused by\n",
];

fn without_kinds(message: &str) -> &str {
    let mut text = message;
    while let Some(rest) = KINDS.iter().find_map(|kind| text.strip_prefix(kind)) {
        text = rest;
    }
    text
}

/// Beginnings of the tail of a message that concerns the library's code.
const OF_ITS_CODE: [&str; 3] = ["\nThis issue was likely caused by a bug in", "\n\nbacktrace:", "\nbacktrace:"];

/// Type names of the libraries and in SQL. A name precedes its own prefixes.
const TYPES: [(&str, &str); 27] = [
    ("LargeUtf8", "text"),
    ("Utf8View", "text"),
    ("Utf8", "text"),
    ("FixedSizeBinary(16)", "uuid"),
    ("LargeBinary", "bytea"),
    ("BinaryView", "bytea"),
    ("Binary", "bytea"),
    ("UInt64", "bigint unsigned"),
    ("UInt32", "integer unsigned"),
    ("UInt16", "smallint unsigned"),
    ("UInt8", "smallint unsigned"),
    ("Int64", "bigint"),
    ("Int32", "integer"),
    ("Int16", "smallint"),
    ("Int8", "smallint"),
    ("Float64", "double precision"),
    ("Float32", "real"),
    ("Float16", "real"),
    ("Boolean", "boolean"),
    ("Date32", "date"),
    ("Date64", "date"),
    ("Decimal32", "numeric"),
    ("Decimal64", "numeric"),
    ("Decimal128", "numeric"),
    ("Decimal256", "numeric"),
    ("Interval(MonthDayNano)", "interval"),
    ("Null", "unknown"),
];

/// Makes a library's text readable: removes parts about its own code, translates type names, writes literals plainly,
/// and limits the length.
pub(super) fn plain(text: &str) -> String {
    let mut text = without_kinds(text);
    for end in OF_ITS_CODE {
        text = text.split(end).next().unwrap_or(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let begins_word = !out.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let found = TYPES.iter().find(|(name, _)| begins_word && rest.starts_with(name));
        match found {
            Some((name, sql)) if !rest.get(name.len()..).is_some_and(is_in_word) => {
                let behind = rest.get(name.len()..).unwrap_or_default();
                match literal(behind) {
                    Some((value, behind)) => {
                        out.push_str(value);
                        rest = behind;
                    }
                    None => {
                        out.push_str(sql);
                        rest = behind;
                    }
                }
            }
            _ if begins_word
                && (rest.starts_with("Timestamp(") || rest.starts_with("Time64(") || rest.starts_with("Time32(")) =>
            {
                let (inside, behind) = rest.split_once(')').unwrap_or((rest, ""));
                out.push_str(
                    match (rest.starts_with("Timestamp("), inside.contains("Some(") || inside.contains('"')) {
                        (true, true) => "timestamp with time zone",
                        (true, false) => "timestamp",
                        _ => "time",
                    },
                );
                rest = behind.strip_prefix(')').unwrap_or(behind);
            }
            _ => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    shortened(out.trim_end())
}

fn is_in_word(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The value of a literal, written as `(value)` behind its type, and the rest of the text. Parentheses that belong to a
/// type contain a comma.
fn literal(behind: &str) -> Option<(&str, &str)> {
    let inside = behind.strip_prefix('(')?;
    let (value, rest) = inside.split_once(')')?;
    (!value.contains(", ") || value.starts_with('"')).then_some((value.trim_matches('"'), rest))
}

/// Limit on characters of a message, which may contain user data.
const MESSAGE_CHARACTERS_MAX: usize = 4000;

/// Removes the middle of a long text.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MESSAGE_CHARACTERS_MAX {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - MESSAGE_CHARACTERS_MAX / 4).collect();
    let begin: String = text.chars().take(MESSAGE_CHARACTERS_MAX / 4 * 3).collect();
    format!("{begin} [... {} characters ...] {end}", count - MESSAGE_CHARACTERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_literals_are_sqls() {
        for (text, expected) in [
            ("sum(Utf8View)", "sum(text)"),
            ("count(Int64(1))", "count(1)"),
            ("Utf8(\"abc\") = t.x", "abc = t.x"),
            ("Timestamp(Nanosecond, None) + Int64", "timestamp + bigint"),
            ("Timestamp(µs, \"+00:00\")", "timestamp with time zone"),
            ("Decimal128(15, 2)", "numeric(15, 2)"),
            ("MyInt64 and Int64s", "MyInt64 and Int64s"),
            ("Execution error: it fails", "it fails"),
            ("no space left.\nThis issue was likely caused by a bug in DataFusion's code", "no space left."),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn long_messages_have_a_beginning_and_an_end() {
        let text = plain(&format!("value {} does not fit", "ü".repeat(1 << 20)));
        assert!(text.starts_with("value ü") && text.ends_with("ü does not fit"), "{text}");
        assert!(text.chars().count() < MESSAGE_CHARACTERS_MAX + 50, "{}", text.len());
    }

    #[test]
    fn known_messages_have_their_sqlstate() {
        for (message, state, said) in [
            ("table 'thermocline.public.nosuch' not found", "42P01", "table \"nosuch\" does not exist"),
            ("Invalid function 'nofunc'.\nDid you mean 'trunc'?", "42883", "function nofunc(...) does not exist"),
            ("Invalid function 'row_number'.\nDid you mean 'row'?", "42809", "requires an OVER clause"),
            ("Cannot create filter with non-boolean predicate 't.k' returning Int64", "42804", "not type bigint"),
            ("Cannot cast string 'abc' to value of Int64 type", "22P02", "type bigint: \"abc\""),
        ] {
            let error = of_message(message, "42000");
            assert_eq!(error.sqlstate(), state, "{message}");
            assert!(error.message().contains(said), "{error}");
        }
    }
}
