//! The rule that compares decimals with the decimals that are written.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{compares, with_expressions};

/// Most digits of a number that a float holds exactly enough to write it again.
const DIGITS_MAX: usize = 15;
/// Most digits of a decimal.
const PRECISION_MAX: u8 = 38;

/// Makes decimals of the numbers that decimals are compared with, before types are coerced.
///
/// SQL's `1234567.89` is a decimal; DataFusion's is a float, and not the decimal next to it. Elsewhere
/// floats stay floats: division and functions of decimals have other digits than users expect.
#[derive(Debug)]
pub(crate) struct DecimalLiterals;

impl AnalyzerRule for DecimalLiterals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, exact)
    }

    fn name(&self) -> &str {
        "decimal_literals"
    }
}

/// One comparison with decimals in place of floats.
fn exact(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            let made = |left: &Expr, op: &Operator, right: &Expr| {
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), *op, Box::new(right.clone())))
            };
            literal_beside(left, right, schema)
                .map(|literal| made(left, op, &literal))
                .or_else(|| literal_beside(right, left, schema).map(|literal| made(&literal, op, right)))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let bounds = (literal_beside(expr, low, schema), literal_beside(expr, high, schema));
            matches!(bounds, (Some(_), _) | (_, Some(_))).then(|| {
                let low = Box::new(bounds.0.unwrap_or_else(|| low.as_ref().clone()));
                let high = Box::new(bounds.1.unwrap_or_else(|| high.as_ref().clone()));
                Expr::Between(Between::new(expr.clone(), *negated, low, high))
            })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let literals: Vec<_> = list.iter().map(|item| literal_beside(expr, item, schema)).collect();
            literals.iter().any(Option::is_some).then(|| {
                let list =
                    literals.into_iter().zip(list).map(|(literal, item)| literal.unwrap_or_else(|| item.clone()));
                Expr::InList(InList::new(expr.clone(), list.collect(), *negated))
            })
        }
        _ => None,
    }
}

/// `constant` as a decimal, if it has a float and `value` is a decimal.
fn literal_beside(value: &Expr, constant: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !has_float(constant)
        || !value
            .get_type(schema)
            .ok()
            .is_some_and(|of| matches!(of, DataType::Decimal128(..) | DataType::Decimal256(..)))
    {
        return None;
    }
    let (value, scale) = number(constant)?;
    let digits = u8::try_from(value.unsigned_abs().to_string().len()).ok()?;
    let precision = digits.max(scale);
    (precision <= PRECISION_MAX).then(|| lit(ScalarValue::Decimal128(Some(value), precision, scale.cast_signed())))
}

fn has_float(constant: &Expr) -> bool {
    match constant {
        Expr::Literal(value, _) => matches!(value, ScalarValue::Float64(Some(_))),
        Expr::Negative(inner) => has_float(inner),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => has_float(left) || has_float(right),
        _ => false,
    }
}

/// The value of a number, or of a sum, difference or product of numbers: digits, and how many of them are
/// behind the point.
fn number(constant: &Expr) -> Option<(i128, u8)> {
    match constant {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => written(*value),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some((i128::from(*value), 0)),
        Expr::Negative(inner) => number(inner).map(|(value, scale)| (-value, scale)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ((a, a_scale), (b, b_scale)) = (number(left)?, number(right)?);
            let scale = a_scale.max(b_scale);
            let scaled = |value: i128, of: u8| value.checked_mul(10_i128.checked_pow(u32::from(scale - of))?);
            match op {
                Operator::Plus => Some((scaled(a, a_scale)?.checked_add(scaled(b, b_scale)?)?, scale)),
                Operator::Minus => Some((scaled(a, a_scale)?.checked_sub(scaled(b, b_scale)?)?, scale)),
                Operator::Multiply => Some((a.checked_mul(b)?, a_scale.checked_add(b_scale)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The number that was written for a float; `None` if it had too many digits to know.
fn written(value: f64) -> Option<(i128, u8)> {
    // The shortest text that gives the float, without an exponent.
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches(['-', '0']).trim_end_matches('0');
    if significant.len() > DIGITS_MAX {
        return None;
    }
    Some((digits.parse().ok()?, u8::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_the_numbers_that_were_written() {
        for (text, expected) in [
            ("0.1", Some((1, 1))),
            ("1234567.89", Some((123_456_789, 2))),
            ("-0.000000001", Some((-1, 9))),
            ("99999999999999.9", Some((999_999_999_999_999, 1))),
            ("12345678901234.567", None),
            ("1e20", Some((100_000_000_000_000_000_000, 0))),
            ("1e300", None),
            ("NaN", None),
            ("inf", None),
        ] {
            assert_eq!(written(text.parse().unwrap_or(f64::NAN)), expected, "{text}");
        }
    }

    #[test]
    fn sums_of_numbers_are_exact() {
        let both = |op| {
            let sides = (Box::new(lit(0.06)), Box::new(lit(0.01)));
            number(&Expr::BinaryExpr(BinaryExpr::new(sides.0, op, sides.1)))
        };
        assert_eq!(both(Operator::Minus), Some((5, 2)));
        assert_eq!(both(Operator::Plus), Some((7, 2)));
        assert_eq!(both(Operator::Multiply), Some((6, 4)));
        assert_eq!(both(Operator::Divide), None);
    }
}
