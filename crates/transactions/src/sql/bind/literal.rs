//! Literals.

use sqlparser::ast::{self, DateTimeField, Interval, TypedString};

use super::{Binder, Typed};
use crate::error::{Class, Error, Result};
use crate::schema::names;
use crate::sql::data_type::data_type;
use crate::sql::expression::Expr;
use crate::types::{DataType, Decimal, PRECISION_MAX, Value, parse_text};

impl Binder<'_> {
    pub(super) fn literal(&mut self, value: &ast::Value) -> Result<Typed> {
        Ok(match value {
            ast::Value::Number(digits, _) => number(digits)?,
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Typed { expr: Expr::Literal(text.as_str().into()), data_type: None }
            }
            ast::Value::DollarQuotedString(text) => {
                Typed { expr: Expr::Literal(text.value.as_str().into()), data_type: None }
            }
            ast::Value::Boolean(value) => Typed::new(Expr::Literal(Value::Boolean(*value)), DataType::Boolean),
            ast::Value::Null => Typed { expr: Expr::Literal(Value::Null), data_type: None },
            ast::Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|number| number.parse().ok());
                self.parameter(
                    number.ok_or_else(|| {
                        Class::Syntax.error(format_args!("parameters are $1, $2 and so on, not {name}"))
                    })?,
                )?
            }
            other => return Err(Error::not_here(format_args!("literal {other}"))),
        })
    }

    /// `DATE '2024-01-01'`.
    pub(super) fn typed_string(&mut self, typed: &TypedString) -> Result<Typed> {
        let to = data_type(&typed.data_type)?;
        match typed.value.value.clone().into_string() {
            Some(text) => Ok(Typed::new(Expr::Literal(parse_text(&text, to)?), to)),
            None => Err(Class::Syntax.error(format_args!("{typed} is not a literal"))),
        }
    }
}

fn number(digits: &str) -> Result<Typed> {
    if let Ok(whole) = digits.parse() {
        return Ok(Typed::new(Expr::Literal(Value::Int(whole)), DataType::BigInt));
    }
    if digits.contains(['e', 'E']) {
        return Ok(Typed::new(Expr::Literal(parse_text(digits, DataType::Double)?), DataType::Double));
    }
    match Decimal::parse(digits) {
        Some(decimal) => Ok(Typed::new(Expr::Literal(decimal.into()), DataType::Numeric)),
        None => Err(Class::OutOfRange.error(format_args!("{digits} has more than {PRECISION_MAX} digits"))),
    }
}

/// Months, days and microseconds of `INTERVAL '1 day'` or `INTERVAL '1' DAY`.
pub(super) fn interval(interval: &Interval) -> Result<[i64; 3]> {
    let invalid = || Class::InvalidDatetime.error(format_args!("{interval} is not an interval that is read here"));
    let ast::Expr::Value(value) = &*interval.value else { return Err(Error::not_here(interval)) };
    let text = match &value.value {
        ast::Value::Number(digits, _) => digits.clone(),
        other => other.clone().into_string().ok_or_else(invalid)?,
    };
    if interval.last_field.is_some() {
        return Err(Error::not_here(interval));
    }
    let mut sum = [0_i64; 3];
    let mut add = |count: &str, unit: &str| -> Option<()> {
        let count: i64 = count.parse().ok()?;
        let (place, factor) = match unit.strip_suffix('s').unwrap_or(unit) {
            "year" => (0, 12),
            "month" | "mon" => (0, 1),
            "week" => (1, 7),
            "day" => (1, 1),
            "hour" => (2, 3_600_000_000),
            "minute" | "min" => (2, 60_000_000),
            "second" | "sec" => (2, 1_000_000),
            "millisecond" => (2, 1_000),
            "microsecond" => (2, 1),
            _ => return None,
        };
        let slot = sum.get_mut(place)?;
        *slot = slot.checked_add(count.checked_mul(factor)?)?;
        Some(())
    };
    if let Some(field) = &interval.leading_field {
        add(text.trim(), &field.to_string().to_ascii_lowercase()).ok_or_else(invalid)?;
        return Ok(sum);
    }
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(invalid());
    }
    for [count, unit] in pairs {
        add(count, unit).ok_or_else(invalid)?;
    }
    Ok(sum)
}

/// The field's name in `EXTRACT(field FROM ...)`.
pub(super) fn field_name(field: &DateTimeField) -> Result<Box<str>> {
    match field {
        DateTimeField::Custom(name) => names::fold(name),
        other => Ok(other.to_string().to_ascii_lowercase().into()),
    }
}
