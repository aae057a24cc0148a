//! Comparison of integers with decimals.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Cast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{compares, with_expressions};

/// Compares an integer with the integers next to a fractional decimal, which needs no common type and can use
/// statistics. Runs after type coercion.
#[derive(Debug)]
pub struct IntegerBounds;

impl AnalyzerRule for IntegerBounds {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, |expression, schema| match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                bounded(left, *op, right, schema).or_else(|| bounded(right, op.swap()?, left, schema))
            }
            _ => None,
        })
    }

    fn name(&self) -> &str {
        "integer_bounds"
    }
}

/// Rewrites the comparison of an integer, cast to a decimal, with a decimal literal; `None` for others.
fn bounded(side: &Expr, op: Operator, written: &Expr, schema: &DFSchema) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let written = match written {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() => expr.as_ref(),
        other => other,
    };
    let (Expr::Cast(Cast { expr: value, field }), Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), _)) =
        (side, written)
    else {
        return None;
    };
    if !compares(op) || !field.data_type().is_decimal() || !value.get_type(schema).ok()?.is_integer() {
        return None;
    }
    let unit = 10_i128.checked_pow(u32::try_from(*scale).ok()?)?;
    let floor = i64::try_from(digits.div_euclid(unit)).ok()?;
    let next = floor.checked_add(1)?;
    let of = value.get_type(schema).ok()?;
    let bound = |bound: i64| ScalarValue::from(bound).cast_to(&of).ok().map(lit);
    let (floor, next) = (bound(floor)?, bound(next)?);
    let is = |op: Operator, bound: Expr| Expr::BinaryExpr(BinaryExpr::new(value.clone(), op, Box::new(bound)));
    Some(match op {
        _ if digits.rem_euclid(unit) == 0 => return None,
        Lt | LtEq => is(LtEq, floor),
        Gt | GtEq => is(GtEq, next),
        Eq => is(LtEq, floor).and(is(GtEq, next)),
        NotEq => is(LtEq, floor).or(is(GtEq, next)),
        IsDistinctFrom => lit(true),
        IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}
