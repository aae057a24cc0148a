//! Binding of literals.

use std::borrow::Cow;

use sqlparser::ast::{self, DateTimeField, TypedString};
use thermocline_types::{
    Class, DataType, Decimal, Error, Interval, PRECISION_MAX, Result, Value, ValueRef, cast, parse_text,
};

use super::{Binder, Typed};
use crate::data_type::data_type;
use crate::expression::Expr;
use crate::names::fold;

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
            other => return Err(Error::unsupported(format_args!("literal {other}"))),
        })
    }

    /// `DATE '2024-01-01'`.
    pub(super) fn typed_string(&mut self, typed: &TypedString) -> Result<Typed> {
        let to = data_type(&typed.data_type)?;
        match typed.value.value.clone().into_string() {
            // Like a cast, which truncates.
            Some(text) => Ok(Typed::new(Expr::Literal(cast(ValueRef::Text(&text), to)?), to)),
            None => Err(Class::Syntax.error(format_args!("{typed} is not a literal"))),
        }
    }
}

fn number(digits: &str) -> Result<Typed> {
    let digits = &*if digits.contains('_') { Cow::from(digits.replace('_', "")) } else { Cow::from(digits) };
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

/// `INTERVAL '1 day'` or `INTERVAL '1' DAY`.
pub(super) fn interval(written: &ast::Interval) -> Result<Typed> {
    let ast::Expr::Value(value) = &*written.value else { return Err(Error::unsupported(written)) };
    let text = match &value.value {
        ast::Value::Number(digits, _) => digits.clone(),
        other => match other.clone().into_string() {
            Some(text) => text,
            None => return Err(Error::unsupported(written)),
        },
    };
    if written.last_field.is_some() || written.leading_precision.is_some() {
        return Err(Error::unsupported(written));
    }
    let unit = written.leading_field.as_ref().map(|field| field.to_string().to_ascii_lowercase());
    let span = Interval::parse(&text, unit.as_deref())?;
    Ok(Typed::new(Expr::Literal(Value::Interval(span)), DataType::Interval))
}

/// The field's name in `EXTRACT(field FROM ...)`.
pub(super) fn field_name(field: &DateTimeField) -> Result<Box<str>> {
    match field {
        DateTimeField::Custom(name) => fold(name),
        other => Ok(other.to_string().to_ascii_lowercase().into()),
    }
}
