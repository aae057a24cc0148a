//! Prepared statements.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::bridge::external;
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, ObjectName, Statement as Ast, UnaryOperator, Value, visit_expressions,
    visit_expressions_mut,
};
use parking_lot::Mutex;
use thermocline_pushdown::user_err;
use thermocline_syntax::{Tokens, folded, parse_type};
use thermocline_types::{Class, DataType as SqlType};

/// Limit on parameters of a statement, as in PostgreSQL's protocol.
pub(super) const PARAMETERS_MAX: usize = 65_535;
/// Limit on the text of a statement with its parameters filled in, in bytes.
const EXECUTED_BYTES_MAX: usize = 16 << 20;
/// Limit on bytes of a session's prepared statements.
const PREPARED_BYTES_MAX: usize = 256 << 20;
/// Estimated bytes of a prepared statement in memory, and for each byte of its text.
const TEMPLATE_BYTES: usize = 4096;
const BYTES_PER_CHARACTER: usize = 32;
/// Volatile functions.
const VARYING: [&str; 3] = ["gen_random_uuid", "random", "uuid"];

/// Prepared statements of a session, by name.
///
/// ```text
/// PREPARE p AS ... id = $1      type of $1: declared, or derived from its context by an engine
/// EXECUTE p('7')           -->  ... id = CAST('7' AS BIGINT), which runs like any statement
/// ```
///
/// DataFusion would plan a statement once and truncate parameters to the derived types: 2.5 would become the integer 2.
/// Here, parameters are assigned as in an INSERT, and both engines run an ordinary statement.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(Mutex<HashMap<String, Template>>);

/// A prepared statement.
#[derive(Debug, Clone)]
struct Template {
    /// Types of parameters, by position; a parameter without a type is inserted as written.
    types: Vec<Option<ParameterType>>,
    /// Number of parameters.
    parameters: usize,
    statement: Box<Ast>,
    /// Estimated bytes in memory.
    bytes: usize,
}

/// Type of a parameter.
#[derive(Debug, Clone)]
enum ParameterType {
    /// Declared in PREPARE.
    Declared(DataType),
    /// Derived from its context.
    Place(SqlType),
}

impl PreparedStatements {
    /// Stores a statement for EXECUTE, with the derived types of its parameters in `places`.
    ///
    /// # Errors
    /// If the name is taken, the statement cannot be prepared, or all statements together take too much memory (54000).
    pub(super) fn prepare(
        &self,
        name: &Ident,
        declared: &[DataType],
        places: &[Option<SqlType>],
        of: &Ast,
    ) -> Result<()> {
        check_preparable(of)?;
        let parameters = parameters(of).max(declared.len());
        if parameters > PARAMETERS_MAX {
            return Err(external(Class::UndefinedParameter.error(format_args!("there is no parameter ${parameters}"))));
        }
        let declared = declared.iter().cloned().map(ParameterType::Declared).map(Some);
        let places = places.iter().map(|place| place.map(ParameterType::Place));
        let types = declared.clone().chain(places.skip(declared.len())).take(parameters).collect();
        let bytes = TEMPLATE_BYTES + BYTES_PER_CHARACTER.saturating_mul(of.to_string().len());
        self.add(folded(name), Template { types, parameters, statement: Box::new(of.clone()), bytes })
    }

    /// The prepared statement of a name, with parameters `$1`, `$2`.
    pub(super) fn statement(&self, name: &ObjectName) -> Option<Ast> {
        let named = self.0.lock();
        named.get(&only_part(name)?).map(|template| (*template.statement).clone())
    }

    /// The statement of EXECUTE, with parameters filled in.
    ///
    /// # Errors
    /// If there is no statement of this name, the number of parameters differs, or a parameter depends on a row or has
    /// the wrong type.
    pub(super) fn executed(&self, execute: &Ast) -> Result<Ast> {
        match execute {
            Ast::Execute { name: Some(name), parameters, using, immediate: false, .. } => {
                let given = parameters.iter().chain(using.iter().map(|using| &using.expr));
                self.filled(name, &given.collect::<Vec<_>>()).map(|filled| *filled)
            }
            other => Ok(other.clone()),
        }
    }

    fn add(&self, name: String, template: Template) -> Result<()> {
        let mut named = self.0.lock();
        if named.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(external(Class::DuplicateStatement.error(message)));
        }
        let bytes = named.values().map(|template| template.bytes).fold(template.bytes, usize::saturating_add);
        if bytes > PREPARED_BYTES_MAX {
            let message = format!("prepared statements of a session that take more than {PREPARED_BYTES_MAX} bytes");
            return Err(external(Class::LimitExceeded.error(message)));
        }
        named.insert(name, template);
        Ok(())
    }

    /// Removes a statement, or all of them.
    ///
    /// # Errors
    /// 26000 if there is no statement of this name.
    pub(super) fn remove(&self, name: &Ident) -> Result<()> {
        let mut named = self.0.lock();
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
            named.clear();
            return Ok(());
        }
        let name = folded(name);
        named.remove(&name).map(drop).ok_or_else(|| undefined(&name))
    }

    fn filled(&self, name: &ObjectName, given: &[&Expr]) -> Result<Box<Ast>> {
        let known = only_part(name).and_then(|name| self.0.lock().get(&name).cloned());
        let Template { types, parameters, statement, .. } = known.ok_or_else(|| undefined(name))?;
        if parameters != given.len() {
            let message = format!("{name} has {parameters} parameters, and {} are given", given.len());
            return Err(external(Class::Syntax.error(message)));
        }
        let mut values = Vec::with_capacity(given.len());
        for (position, value) in given.iter().enumerate() {
            check_constant(value, name, position + 1)?;
            let of = types.get(position).and_then(Option::as_ref);
            let value = assigned(value, of, position + 1)?;
            values.push((value.to_string().len(), value));
        }
        let (mut inner, mut bytes) = (statement, 0);
        let filled = visit_expressions_mut(inner.as_mut(), |part| {
            let number = placeholder(part).unwrap_or_default();
            if let Some((length, value)) = number.checked_sub(1).and_then(|position| values.get(position)) {
                bytes += length;
                if bytes > EXECUTED_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                *part = value.clone();
            }
            ControlFlow::Continue(())
        });
        if filled.is_break() {
            let message = format!("{name} with its parameters is longer than {EXECUTED_BYTES_MAX} bytes");
            return Err(external(Class::LimitExceeded.error(message)));
        }
        Ok(inner)
    }
}

fn undefined(name: &dyn std::fmt::Display) -> datafusion::common::DataFusionError {
    external(Class::UndefinedStatement.error(format_args!("prepared statement \"{name}\" does not exist")))
}

/// Checks that PREPARE supports a statement.
///
/// # Errors
/// 42601, unless it is a query, INSERT, UPDATE, DELETE or MERGE.
pub fn check_preparable(statement: &Ast) -> Result<()> {
    match statement {
        Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_) => Ok(()),
        _ => Err(external(Class::Syntax.error("PREPARE is for SELECT, VALUES, INSERT, UPDATE, DELETE and MERGE"))),
    }
}

fn check_constant(value: &Expr, name: &ObjectName, number: usize) -> Result<()> {
    let found = visit_expressions(value, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } => {
            ControlFlow::Break(part.to_string())
        }
        _ if placeholder(part).is_some() => ControlFlow::Break(part.to_string()),
        _ => ControlFlow::Continue(()),
    });
    // A parameter is one value; a volatile function would give another for each row.
    if let Some(function) = varying(value) {
        let message = format!("parameter {number} of {name} calls {function}(): give its value instead");
        return Err(external(Class::Unsupported.error(message)));
    }
    match found {
        ControlFlow::Break(part) => {
            user_err!(Syntax, "parameter {number} of {name} is {part}, which is not a constant")
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A volatile function that an expression calls.
pub(super) fn varying(expr: &Expr) -> Option<String> {
    let called = visit_expressions(expr, |part| match part {
        Expr::Function(call) => match only_part(&call.name) {
            Some(function) if VARYING.contains(&function.as_str()) => ControlFlow::Break(function),
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    called.break_value()
}

/// The expression for a parameter in the statement.
fn assigned(value: &Expr, of: Option<&ParameterType>, number: usize) -> Result<Expr> {
    let as_written = || Expr::Nested(Box::new(value.clone()));
    let to = match of {
        None => return Ok(as_written()),
        Some(ParameterType::Declared(written)) => written.clone(),
        Some(ParameterType::Place(place)) => {
            let (place, literal) = (*place, Literal::of(value));
            if let Literal::Typed(given) = literal
                && !given.assigns_to(place)
                && !place.is_text()
            {
                let message = format!("parameter ${number} of type {given} cannot be coerced to the type {place}");
                return Err(external(Class::TypeMismatch.error(message)));
            }
            match (literal, place) {
                // No cast: these have any number of digits, or have the type already.
                (_, SqlType::Numeric | SqlType::Decimal { .. })
                | (Literal::Typed(SqlType::BigInt), SqlType::BigInt)
                | (Literal::Text, SqlType::Text | SqlType::Varchar(_)) => return Ok(as_written()),
                _ => written_type(place.unbounded())?,
            }
        }
    };
    let expr = Box::new(value.clone());
    Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type: to, array: false, format: None })
}

/// Syntactic form of a parameter.
#[derive(Clone, Copy)]
enum Literal {
    /// A string literal, which takes any type.
    Text,
    Typed(SqlType),
    /// NULL, or an expression.
    Other,
}

impl Literal {
    fn of(value: &Expr) -> Self {
        match value {
            Expr::Nested(inner) => Self::of(inner),
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => match Self::of(expr) {
                number @ Self::Typed(of) if of.is_number() => number,
                _ => Self::Other,
            },
            Expr::Value(value) => match &value.value {
                Value::Boolean(_) => Self::Typed(SqlType::Boolean),
                Value::Number(digits, _) if digits.contains(['e', 'E']) => Self::Typed(SqlType::Double),
                Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Self::Typed(SqlType::BigInt),
                Value::Number(..) => Self::Typed(SqlType::Numeric),
                Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_) => {
                    Self::Text
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// The syntax tree of a type.
///
/// # Errors
/// If the parser does not know the type, which is impossible.
pub fn written_type(of: SqlType) -> Result<DataType> {
    let text = of.to_string();
    Ok(parse_type(Tokens::of(&text)?)?)
}

fn parameters(statement: &Ast) -> usize {
    let mut last = 0;
    let _ = visit_expressions(statement, |part| {
        last = last.max(placeholder(part).unwrap_or_default());
        ControlFlow::<()>::Continue(())
    });
    last
}

/// The number of a parameter, from 1.
fn placeholder(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(text) => text.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn only_part(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [name] => name.as_ident().map(folded),
        _ => None,
    }
}
