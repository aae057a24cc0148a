//! The rule that makes overflows of integers errors.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{CHECKED_ADD, CHECKED_MULTIPLY, CHECKED_SUBTRACT, arithmetic_functions};

use super::expressions::with_expressions;

/// Replaces `+`, `-` and `*` of integers by functions that err where DataFusion's operators wrap around.
/// Types are coerced before.
///
/// The days between two dates are the difference of integers, too. DataFusion calls it an integer in
/// logical plans and a duration in physical ones, which stops the planning of its comparisons.
#[derive(Debug)]
pub(crate) struct CheckedIntegers {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
}

impl CheckedIntegers {
    /// The rule; `None` if a function that it needs does not exist.
    pub(crate) fn new() -> Option<Self> {
        let functions = arithmetic_functions();
        let function = |name: &str| functions.iter().find(|function| function.name() == name).cloned();
        Some(Self {
            add: function(CHECKED_ADD)?,
            subtract: function(CHECKED_SUBTRACT)?,
            multiply: function(CHECKED_MULTIPLY)?,
        })
    }

    fn checked(&self, expression: &Expr, schema: &DFSchema) -> Option<Expr> {
        let (function, arguments) = match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let function = match op {
                    Operator::Plus => &self.add,
                    Operator::Minus => &self.subtract,
                    Operator::Multiply => &self.multiply,
                    _ => return None,
                };
                let of = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
                if *op == Operator::Minus && of == (DataType::Date32, DataType::Date32) {
                    let days = |date: &Expr| cast(cast(date.clone(), DataType::Int32), DataType::Int64);
                    (function, vec![days(left), days(right)])
                } else if of.0.is_integer() && of.0 == of.1 {
                    (function, vec![left.as_ref().clone(), right.as_ref().clone()])
                } else {
                    return None;
                }
            }
            Expr::Negative(of) => {
                let zero = ScalarValue::new_zero(&of.get_type(schema).ok().filter(DataType::is_integer)?).ok()?;
                (&self.subtract, vec![lit(zero), of.as_ref().clone()])
            }
            _ => return None,
        };
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments)))
    }
}

impl AnalyzerRule for CheckedIntegers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, |expression, schema| self.checked(expression, schema))
    }

    fn name(&self) -> &str {
        "checked_integers"
    }
}
