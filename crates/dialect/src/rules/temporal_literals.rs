//! Exact comparison of dates and times with literals.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{string_to_datetime, string_to_time_nanoseconds};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use thermocline_types::{parse_timestamp, parse_timestamptz};

use super::expressions::{compares, with_expressions};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

/// Converts literals that are compared with a date, time or timestamp to the unit of that value, before type coercion.
///
/// Coercion would convert both sides to nanoseconds, which end in 2262, and the optimizer would then truncate the
/// literal to the column's unit, so that a column of milliseconds could equal a literal with microseconds. A literal
/// that the unit cannot represent lies between two values that it can:
///
/// ```text
///   c <  1.0005 s, c <= 1.0005 s    c <= 1000 ms
///   c >  1.0005 s, c >= 1.0005 s    c >  1000 ms
///   c =  1.0005 s                   c <  1000 ms AND c >  1000 ms      FALSE, or NULL if c is
///   c <> 1.0005 s                   c <= 1000 ms OR  c >  1000 ms      TRUE, or NULL if c is
/// ```
#[derive(Debug)]
pub struct TemporalLiterals;

impl AnalyzerRule for TemporalLiterals {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref().unwrap_or("UTC");
        with_expressions(plan, |expression, schema| exact(expression, &Context { schema, zone }))
    }

    fn name(&self) -> &str {
        "temporal_literals"
    }
}

/// Context that determines the instant of a literal.
struct Context<'a> {
    /// Columns that expressions read.
    schema: &'a DFSchema,
    /// The session's time zone, for text without one.
    zone: &'a str,
}

/// Converts the literal of one comparison to the unit of the other side.
fn exact(expression: &Expr, context: &Context) -> Option<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(left, *op, right, context)
            .or_else(|| compared(right, op.swap().unwrap_or(*op), left, context))
            .or_else(|| dated(left, *op, right, context.schema)),
        Expr::Between(between) => bounded(between, context),
        Expr::InList(list) => listed(list, context),
        _ => None,
    }
}

/// Converts `value op literal`; `None` if it is not of this form.
fn compared(value: &Expr, op: Operator, literal: &Expr, context: &Context) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, Lt, LtEq, NotEq};
    if !compares(op) {
        return None;
    }
    let unit = Unit::of(value, context.schema)?;
    let (floor, is_exact) = unit.floor(instant(literal, &unit, context.zone)?);
    let is = |op: Operator| {
        let sides = (Box::new(value.clone()), Box::new(lit(floor.clone())));
        Expr::BinaryExpr(BinaryExpr::new(sides.0, op, sides.1))
    };
    Some(match op {
        _ if is_exact => is(op),
        Lt | LtEq => is(LtEq),
        Gt | GtEq => is(Gt),
        Eq => is(Lt).and(is(Gt)),
        NotEq => is(LtEq).or(is(Gt)),
        // Always or never true, but still evaluated, so that values that cannot be cast to the column's type fail.
        IsDistinctFrom => is(LtEq).or(is(Gt)).or(value.clone().is_null()),
        _ => is(Lt).and(is(Gt)).and(value.clone().is_not_null()),
    })
}

/// Compares a date with a timestamp in the timestamp's unit.
fn dated(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !compares(op) {
        return None;
    }
    let (of_left, of_right) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let cast = |date: &Expr, to: &DataType| Expr::Cast(Cast::new(Box::new(date.clone()), to.clone()));
    let (left, right) = match (&of_left, &of_right) {
        (DataType::Date32, DataType::Timestamp(..)) => (cast(left, &of_right), right.clone()),
        (DataType::Timestamp(..), DataType::Date32) => (left.clone(), cast(right, &of_left)),
        _ => return None,
    };
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}

/// BETWEEN, in which one or both bounds may be literals.
fn bounded(between: &Between, context: &Context) -> Option<Expr> {
    let Between { expr, negated, low, high } = between;
    let below = if *negated { Operator::Lt } else { Operator::GtEq };
    let above = if *negated { Operator::Gt } else { Operator::LtEq };
    let sides = [(below, low), (above, high)];
    let exact = sides.map(|(op, bound)| compared(expr, op, bound, context));
    if exact.iter().all(Option::is_none) {
        return None;
    }
    let as_written =
        |op: Operator, bound: &Expr| Expr::BinaryExpr(BinaryExpr::new(expr.clone(), op, Box::new(bound.clone())));
    let [exact_low, exact_high] = exact;
    let low = exact_low.unwrap_or_else(|| as_written(below, low));
    let high = exact_high.unwrap_or_else(|| as_written(above, high));
    Some(if *negated { low.or(high) } else { low.and(high) })
}

/// `IN`. Items that are not such literals, such as NULL, are kept.
fn listed(list: &InList, context: &Context) -> Option<Expr> {
    let unit = Unit::of(&list.expr, context.schema)?;
    let instants: Vec<_> = list.list.iter().map(|item| instant(item, &unit, context.zone)).collect();
    if instants.iter().all(Option::is_none) {
        return None;
    }
    let held = |(item, nanos): (&Expr, &Option<i128>)| match nanos {
        None => Some(item.clone()),
        // The column cannot contain an instant that its unit cannot represent.
        Some(nanos) => match unit.floor(*nanos) {
            (value, true) => Some(lit(value)),
            (_, false) => None,
        },
    };
    let items: Vec<_> = list.list.iter().zip(&instants).filter_map(held).collect();
    if items.is_empty() {
        let op = if list.negated { Operator::NotEq } else { Operator::Eq };
        return compared(&list.expr, op, list.list.first()?, context);
    }
    Some(list.expr.as_ref().clone().in_list(items, list.negated))
}

/// Resolution of a type, and its zone if it has one.
enum Unit {
    Day,
    Time(TimeUnit),
    Timestamp(TimeUnit, Option<Arc<str>>),
}

impl Unit {
    /// The unit of an expression that is not a literal.
    fn of(value: &Expr, schema: &DFSchema) -> Option<Self> {
        let is_literal = match value {
            Expr::Literal(..) => true,
            Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(..)),
            _ => false,
        };
        if is_literal || value.is_volatile() {
            return None;
        }
        match value.get_type(schema).ok()? {
            DataType::Date32 => Some(Self::Day),
            DataType::Time32(unit) | DataType::Time64(unit) => Some(Self::Time(unit)),
            DataType::Timestamp(unit, zone) => Some(Self::Timestamp(unit, zone)),
            _ => None,
        }
    }

    /// The greatest value of the unit's type that is not after `nanos`, and whether it is exactly that instant.
    fn floor(&self, nanos: i128) -> (ScalarValue, bool) {
        let size = match self {
            Self::Day => NANOS_PER_DAY,
            Self::Time(unit) | Self::Timestamp(unit, _) => nanos_of(*unit),
        };
        let (low, high) = match self {
            Self::Day => (i128::from(i32::MIN), i128::from(i32::MAX)),
            Self::Time(_) | Self::Timestamp(..) => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        let value = nanos.div_euclid(size).clamp(low, high);
        let is_exact = value * size == nanos;
        let short = i32::try_from(value).ok();
        let long = i64::try_from(value).ok();
        let value = match self {
            Self::Day => ScalarValue::Date32(short),
            Self::Time(TimeUnit::Second) => ScalarValue::Time32Second(short),
            Self::Time(TimeUnit::Millisecond) => ScalarValue::Time32Millisecond(short),
            Self::Time(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(long),
            Self::Time(TimeUnit::Nanosecond) => ScalarValue::Time64Nanosecond(long),
            Self::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(long, zone.clone()),
            Self::Timestamp(TimeUnit::Millisecond, zone) => ScalarValue::TimestampMillisecond(long, zone.clone()),
            Self::Timestamp(TimeUnit::Microsecond, zone) => ScalarValue::TimestampMicrosecond(long, zone.clone()),
            Self::Timestamp(TimeUnit::Nanosecond, zone) => ScalarValue::TimestampNanosecond(long, zone.clone()),
        };
        (value, is_exact)
    }
}

/// Nanoseconds since midnight, or since 1970, of a literal that may be compared with values of `unit`: text, or text
/// cast to a date, time or timestamp. `None` for other expressions and for invalid text. Text without a zone is in the
/// session's zone if the other side is an instant.
fn instant(literal: &Expr, unit: &Unit, zone: &str) -> Option<i128> {
    let (text, data_type) = match literal {
        Expr::Literal(value, _) => (value.try_as_str()??, None),
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => (value.try_as_str()??, Some(cast.field.data_type())),
            _ => return None,
        },
        _ => return None,
    };
    match (unit, data_type) {
        (Unit::Time(_), None) => time(text),
        (Unit::Time(_), Some(DataType::Time32(of) | DataType::Time64(of))) => held(time(text)?, nanos_of(*of)),
        (Unit::Timestamp(_, None), None) => local(text, unit),
        (Unit::Timestamp(_, None) | Unit::Day, Some(DataType::Timestamp(of, None))) => {
            held(local(text, unit)?, nanos_of(*of))
        }
        (Unit::Timestamp(_, None), Some(DataType::Date32)) => held(timestamp(text, "UTC", unit)?, NANOS_PER_DAY),
        (Unit::Timestamp(_, Some(_)), None) => timestamp(text, zone, unit),
        (Unit::Timestamp(_, Some(_)), Some(DataType::Timestamp(of, Some(of_literal)))) => {
            held(timestamp(text, of_literal, unit)?, nanos_of(*of))
        }
        _ => None,
    }
}

/// The instant if it is a multiple of `size`; the cast would truncate others.
fn held(nanos: i128, size: i128) -> Option<i128> {
    (nanos.rem_euclid(size) == 0).then_some(nanos)
}

fn nanos_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => NANOS_PER_SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

fn time(text: &str) -> Option<i128> {
    string_to_time_nanoseconds(text).ok().map(i128::from)
}

/// Whether a text has digits that only a value of `unit` keeps. All others are compared with it as a timestamp of SQL,
/// which is rounded to microseconds.
fn is_finer(text: &str, unit: &Unit) -> bool {
    matches!(unit, Unit::Timestamp(TimeUnit::Nanosecond, _)) && has_nanoseconds(text)
}

/// Whether the fraction of a second in a text has more digits than microseconds.
pub(super) fn has_nanoseconds(text: &str) -> bool {
    let digits = |fraction: &str| fraction.bytes().take_while(u8::is_ascii_digit).count();
    text.split_once('.').is_some_and(|(_, fraction)| digits(fraction) > 6)
}

/// The local time of text, ignoring a zone in it, as in SQL.
fn local(text: &str, unit: &Unit) -> Option<i128> {
    match parse_timestamp(text) {
        Ok(micros) if !is_finer(text, unit) => Some(i128::from(micros) * 1000),
        _ => timestamp(text, "UTC", unit),
    }
}

/// The instant of text, in `zone` unless the text contains one.
fn timestamp(text: &str, zone: &str, unit: &Unit) -> Option<i128> {
    if matches!(zone, "UTC" | "+00:00")
        && !is_finer(text, unit)
        && let Ok(micros) = parse_timestamptz(text)
    {
        return Some(i128::from(micros) * 1000);
    }
    let zone: Tz = zone.parse().ok()?;
    let found = string_to_datetime(&zone, text).ok()?;
    Some(i128::from(found.timestamp()) * NANOS_PER_SECOND + i128::from(found.timestamp_subsec_nanos()))
}
