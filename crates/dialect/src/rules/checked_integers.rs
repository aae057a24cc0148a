//! Overflow checks for integers and decimals.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::checked;

use super::expressions::with_expressions;

/// Replaces operators over integers, and over decimals whose result may have more than 38 digits, by functions that
/// return an error with a SQLSTATE where DataFusion wraps around or loses digits. Runs after type coercion.
///
/// The difference of two dates is one of integers, too. DataFusion makes it an integer in logical plans and a duration
/// in physical plans, so comparisons of it cannot be planned.
#[derive(Debug)]
pub struct CheckedIntegers;

/// Whether an operator over decimals is a remainder, or has a result type with the maximal precision.
fn is_of_all_digits(expression: &Expr, of: &(DataType, DataType), schema: &DFSchema) -> bool {
    matches!(of, (DataType::Decimal128(..), DataType::Decimal128(..)))
        && (matches!(expression, Expr::BinaryExpr(BinaryExpr { op: Operator::Modulo, .. }))
            || matches!(expression.get_type(schema), Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, _))))
}

fn rewritten(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (function, arguments) = match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let function = checked(*op)?;
            let of = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
            if *op == Operator::Minus && of == (DataType::Date32, DataType::Date32) {
                let days = |date: &Expr| cast(cast(date.clone(), DataType::Int32), DataType::Int64);
                (function, vec![days(left), days(right)])
            } else if (of.0.is_integer() && of.0 == of.1) || is_of_all_digits(expression, &of, schema) {
                (function, vec![left.as_ref().clone(), right.as_ref().clone()])
            } else {
                return None;
            }
        }
        Expr::Negative(of) => {
            let zero = ScalarValue::new_zero(&of.get_type(schema).ok().filter(DataType::is_integer)?).ok()?;
            (checked(Operator::Minus)?, vec![lit(zero), of.as_ref().clone()])
        }
        _ => return None,
    };
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments)))
}

impl AnalyzerRule for CheckedIntegers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, rewritten)
    }

    fn name(&self) -> &str {
        "checked_integers"
    }
}
