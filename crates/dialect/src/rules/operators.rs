//! Planning of operators.

use std::fmt::Display;
use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator as Planned, cast, lit};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thermocline_pushdown::{
    UTC, UUID_WIDTH, arrow_span, arrow_type, call_function, casts_otherwise, external, jsonb_scalar, operate, sql_type,
};
use thermocline_types::{Class, DataType, JsonOperator, Operator, Rounded, Value, ValueRef, parse_text, round_into};

use super::decimals::{as_double, quotient};

/// Makes the planner of `context` parse numbers with a point as decimals, and plan operators with SQL's types. Used for
/// sessions and for the reference that benchmarks compare with.
///
/// # Errors
/// Currently none.
pub fn register_operators(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    state.config_mut().options_mut().sql_parser.parse_float_as_decimal = true;
    state.register_expr_planner(Arc::new(Operators))
}

/// Plans operators over SQL types with the operand and result types of `thermocline-types`. Operators over other types
/// are DataFusion's, except quotients of decimals, which are doubles.
///
/// Part of planning, not a rule, because the types of enclosing expressions depend on it.
#[derive(Debug)]
struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let planned = match operator_of(&raw.op) {
            Some(operator) => arithmetic(operator, &raw, schema)?,
            None if is_comparison(&raw.op) => return comparison(raw, schema),
            None if let Some(operator) = document_operator(&raw.op) => of_document(operator, &raw, schema)?,
            None if matches!(raw.op, BinaryOperator::And | BinaryOperator::Or) => return logic(raw),
            None => None,
        };
        Ok(planned.map_or(PlannerResult::Original(raw), PlannerResult::Planned))
    }
}

fn operator_of(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Add,
        BinaryOperator::Minus => Operator::Subtract,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Remainder,
        BinaryOperator::PGExp | BinaryOperator::BitwiseXor => Operator::Power,
        BinaryOperator::StringConcat => Operator::Concatenate,
        _ => return None,
    })
}

fn document_operator(op: &BinaryOperator) -> Option<JsonOperator> {
    Some(match op {
        BinaryOperator::Arrow => JsonOperator::Part,
        BinaryOperator::LongArrow => JsonOperator::PartText,
        BinaryOperator::HashArrow => JsonOperator::Path,
        BinaryOperator::HashLongArrow => JsonOperator::PathText,
        BinaryOperator::AtArrow => JsonOperator::Contains,
        BinaryOperator::ArrowAt => JsonOperator::Contained,
        BinaryOperator::Question => JsonOperator::Exists,
        BinaryOperator::QuestionPipe => JsonOperator::ExistsAny,
        BinaryOperator::QuestionAnd => JsonOperator::ExistsAll,
        _ => return None,
    })
}

/// An operator over JSONB; `None` if an operand does not have an SQL type, such as a list.
fn of_document(operator: JsonOperator, raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let mut types = [None; 2];
    for (side, known) in [&raw.left, &raw.right].into_iter().zip(&mut types) {
        *known = match operand(side, schema) {
            Operand::Unknown => None,
            Operand::Of(of) => Some(of),
            Operand::Other => return Ok(None),
        };
    }
    let [left, right] = types;
    let function = operator.resolve(left, right).map_err(external)?;
    call_function(function, vec![raw.left.clone(), raw.right.clone()]).map(Some)
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Type of an operand.
pub(super) enum Operand {
    /// A string literal or NULL, which takes its type from the context.
    Unknown,
    Of(DataType),
    /// Not an SQL type.
    Other,
}

pub(super) fn operand(of: &Expr, schema: &DFSchema) -> Operand {
    match of {
        Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _) => Operand::Unknown,
        // As in PostgreSQL, a literal is INTEGER if it fits, else BIGINT.
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if DataType::Integer.holds(*number) => {
            Operand::Of(DataType::Integer)
        }
        other => other.get_type(schema).ok().and_then(|of| sql_type(&of)).map_or(Operand::Other, Operand::Of),
    }
}

fn arithmetic(operator: Operator, raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (left, right) = (&raw.left, &raw.right);
    let types = match (operand(left, schema), operand(right, schema)) {
        (Operand::Unknown, Operand::Unknown) if operator != Operator::Concatenate => return Ok(None),
        (Operand::Other, _) | (_, Operand::Other) => {
            return Ok(if operator == Operator::Divide { quotient(left, right, schema) } else { None });
        }
        (left, right) => [left, right].map(|side| match side {
            Operand::Of(of) => Some(of),
            Operand::Unknown | Operand::Other => None,
        }),
    };
    let [one, other] = types;
    let resolved = operator.resolve(one, other).map_err(external)?;
    let sides = [settled(left, one, resolved.left)?, settled(right, other, resolved.right)?];
    let plain =
        |op: Planned, [left, right]: [Expr; 2]| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    let op = match operator {
        Operator::Add => Planned::Plus,
        Operator::Subtract => Planned::Minus,
        Operator::Multiply => Planned::Multiply,
        Operator::Divide => Planned::Divide,
        Operator::Remainder => Planned::Modulo,
        Operator::Power => Planned::BitwiseXor,
        Operator::Concatenate => Planned::StringConcat,
    };
    let as_type = |of: ArrowType| sides.clone().map(|side| with_type(side, &of, schema));
    Ok(Some(match resolved.result {
        DataType::SmallInt => plain(op, as_type(ArrowType::Int16)),
        DataType::Integer if resolved.left == DataType::Date => {
            let [left, right] = as_type(ArrowType::Date32);
            operate(operator, left, right)?
        }
        DataType::Integer => plain(op, as_type(ArrowType::Int32)),
        DataType::BigInt => plain(op, as_type(ArrowType::Int64)),
        DataType::Double => {
            let [left, right] = sides.map(|side| as_double(&side, schema).unwrap_or(side));
            operate(operator, left, right)?
        }
        DataType::Text => plain(op, as_type(ArrowType::Utf8)),
        DataType::Real | DataType::Timestamp | DataType::TimestampTz | DataType::Interval => {
            let [left, right] = sides;
            operate(operator, left, right)?
        }
        DataType::Date | DataType::Bytea | DataType::Jsonb => {
            let days = |side: Expr, of: DataType| match of.is_integer() {
                true => with_type(side, &ArrowType::Int32, schema),
                false => side,
            };
            let [left, right] = sides;
            operate(operator, days(left, resolved.left), days(right, resolved.right))?
        }
        _ => plain(op, sides),
    }))
}

/// Converts an operand of unknown type to `to`; returns others unchanged.
pub(super) fn settled(side: &Expr, known: Option<DataType>, to: DataType) -> Result<Expr> {
    match (known, side) {
        (None, Expr::Literal(value, _)) => literal(value, to),
        _ => Ok(side.clone()),
    }
}

/// Converts a literal of unknown type to `to`.
fn literal(value: &ScalarValue, to: DataType) -> Result<Expr> {
    let value = match value {
        ScalarValue::Utf8(Some(text)) => parse_text(text, to).map_err(external)?,
        _ => Value::Null,
    };
    Ok(lit(match value {
        Value::Boolean(value) => ScalarValue::Boolean(Some(value)),
        Value::Int(value) => ScalarValue::Int64(Some(value)),
        Value::Real(value) => ScalarValue::Float32(Some(value)),
        Value::Float(value) => ScalarValue::Float64(Some(value)),
        Value::Decimal(value) => {
            ScalarValue::Decimal128(Some(value.units()), thermocline_types::PRECISION_MAX, value.scale().cast_signed())
        }
        Value::Text(value) => ScalarValue::Utf8(Some(value.into())),
        Value::Bytes(value) => ScalarValue::Binary(Some(value.into())),
        Value::Date(value) => ScalarValue::Date32(Some(value)),
        Value::Timestamp(value) => ScalarValue::TimestampMicrosecond(Some(value), None),
        Value::TimestampTz(value) => ScalarValue::TimestampMicrosecond(Some(value), Some(UTC.into())),
        Value::Jsonb(text) => jsonb_scalar(&text),
        Value::Interval(value) => ScalarValue::IntervalMonthDayNano(Some(arrow_span(value).map_err(external)?)),
        Value::Uuid(value) => ScalarValue::FixedSizeBinary(UUID_WIDTH, Some(value.to_vec())),
        Value::Null => ScalarValue::try_new_null(&arrow_type(to).unwrap_or(ArrowType::Decimal128(1, 0)))?,
    }))
}

/// Casts an expression to a type; a literal is converted directly.
fn with_type(side: Expr, of: &ArrowType, schema: &DFSchema) -> Expr {
    if let Expr::Literal(value, metadata) = &side
        && !casts_otherwise(&value.data_type(), of)
        && let Ok(value) = value.cast_to(of)
    {
        return Expr::Literal(value, metadata.clone());
    }
    let is_text = *of == ArrowType::Utf8;
    match side.get_type(schema) {
        Ok(known) if known == *of || (is_text && known.is_string()) => side,
        _ => cast(side, of.clone()),
    }
}

/// AND and OR; literal texts become truth values.
fn logic(mut raw: RawBinaryExpr) -> Result<PlannerResult<RawBinaryExpr>> {
    for side in [&mut raw.left, &mut raw.right] {
        if let Expr::Literal(value @ ScalarValue::Utf8(_), _) = side {
            *side = literal(value, DataType::Boolean)?;
        }
    }
    Ok(PlannerResult::Original(raw))
}

fn comparison(mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    check_comparable(&raw.left, &raw.right, &raw.op, schema)?;
    let [left, right] = alike([raw.left, raw.right], schema)?;
    (raw.left, raw.right) = (left, right);
    let is_real = [&raw.left, &raw.right].map(|side| is_real(side, schema));
    match is_real {
        [Some(true), Some(false)] => beside_real(&mut raw, schema)?,
        [Some(false), Some(true)] => {
            if let Some(op) = turned(&raw.op) {
                std::mem::swap(&mut raw.left, &mut raw.right);
                raw.op = op;
                beside_real(&mut raw, schema)?;
            }
        }
        _ => {}
    }
    Ok(PlannerResult::Original(raw))
}

/// Whether a number is a REAL; `None` for other types.
pub(super) fn is_real(of: &Expr, schema: &DFSchema) -> Option<bool> {
    match operand(of, schema) {
        Operand::Of(of) if of.is_number() => Some(of == DataType::Real),
        _ => None,
    }
}

/// Compares a REAL with another number as doubles, like SQL. A literal is rounded to an adjacent REAL, so that column
/// statistics can still prune files.
fn beside_real(raw: &mut RawBinaryExpr, schema: &DFSchema) -> Result<()> {
    use BinaryOperator::{Gt, GtEq, Lt, LtEq};
    let literal = match &raw.right {
        Expr::Literal(value, _) => match value.cast_to(&ArrowType::Float64)? {
            ScalarValue::Float64(Some(number)) => round_into(ValueRef::Float(number), DataType::Real).ok(),
            _ => None,
        },
        _ => None,
    };
    match (literal, &raw.op) {
        (Some(Rounded::Exact(ValueRef::Real(number))), _) => raw.right = lit(number),
        (Some(Rounded::Below(ValueRef::Real(number))), op @ (Lt | LtEq | Gt | GtEq)) => {
            raw.op = if matches!(op, Lt | LtEq) { LtEq } else { Gt };
            raw.right = lit(number);
        }
        _ => {
            let doubles = [&raw.left, &raw.right].map(|side| with_type(side.clone(), &ArrowType::Float64, schema));
            [raw.left, raw.right] = doubles;
        }
    }
    Ok(())
}

/// The comparison with its sides exchanged.
fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match op {
        Eq => Eq,
        NotEq => NotEq,
        Lt => Gt,
        LtEq => GtEq,
        Gt => Lt,
        GtEq => LtEq,
        _ => return None,
    })
}

/// Converts a literal of unknown type to the type of the other operand. Literals beside a TIMESTAMPTZ depend on the
/// session's time zone; [`TemporalLiterals`](super::temporal_literals::TemporalLiterals) converts them.
pub(super) fn alike([left, right]: [Expr; 2], schema: &DFSchema) -> Result<[Expr; 2]> {
    Ok(match (operand(&left, schema), operand(&right, schema)) {
        (Operand::Of(DataType::TimestampTz), _) | (_, Operand::Of(DataType::TimestampTz)) => [left, right],
        (Operand::Unknown, Operand::Of(of)) if !of.is_text() => [settled(&left, None, of.unbounded())?, right],
        (Operand::Of(of), Operand::Unknown) if !of.is_text() => {
            let right = settled(&right, None, of.unbounded())?;
            [left, right]
        }
        _ => [left, right],
    })
}

/// Checks that SQL compares the types of the two operands.
pub(super) fn check_comparable(left: &Expr, right: &Expr, symbol: impl Display, schema: &DFSchema) -> Result<()> {
    match (operand(left, schema), operand(right, schema)) {
        (Operand::Of(one), Operand::Of(other)) if !one.compares_to(other) => {
            let message = format!("operator does not exist: {one} {symbol} {other}");
            Err(external(Class::UndefinedFunction.error(message)))
        }
        _ => Ok(()),
    }
}
