//! Comparison of dates with timestamps.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Cast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use thermocline_types::MICROS_PER_DAY;

use super::expressions::columns_of;

/// Replaces the comparison of a date, cast to a timestamp, with a constant timestamp by a comparison of dates: `day <
/// DATE '1994-01-01' + INTERVAL '1 year'` is planned as the former. Dates have statistics and need no cast. Midnight of
/// a day is before a moment if the day is before the moment's day, or is that day and the moment is not midnight.
#[derive(Debug)]
pub(super) struct DateBounds;

impl OptimizerRule for DateBounds {
    fn name(&self) -> &str {
        "date_bounds"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = columns_of(&plan);
        plan.map_expressions(|expression| {
            expression.transform_up(|part| {
                Ok(of_days(&part, &schema).map_or_else(|| Transformed::no(part), Transformed::yes))
            })
        })
    }
}

/// The comparison of dates; `None` for other expressions.
fn of_days(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else { return None };
    let (date, op, micros) = match (left.as_ref(), right.as_ref()) {
        (Expr::Cast(cast), Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _)) => {
            (date_of(cast, schema)?, *op, *micros)
        }
        (Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _), Expr::Cast(cast)) => {
            (date_of(cast, schema)?, op.swap()?, *micros)
        }
        _ => return None,
    };
    let day = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok()?;
    let is_midnight = micros.rem_euclid(MICROS_PER_DAY) == 0;
    let op = match op {
        Operator::Lt if !is_midnight => Operator::LtEq,
        Operator::GtEq if !is_midnight => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        Operator::Eq | Operator::NotEq if is_midnight => op,
        _ => return None,
    };
    let day = lit(ScalarValue::Date32(Some(day)));
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(date.clone()), op, Box::new(day))))
}

/// The operand of a cast from date to timestamp.
fn date_of<'a>(cast: &'a Cast, schema: &DFSchema) -> Option<&'a Expr> {
    let is_moment = *cast.field.data_type() == DataType::Timestamp(TimeUnit::Microsecond, None);
    (is_moment && cast.expr.get_type(schema).ok()? == DataType::Date32).then_some(&cast.expr)
}
