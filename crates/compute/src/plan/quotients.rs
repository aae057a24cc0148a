//! What the planner takes for a decimal.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::decimals::quotient;

/// Has the planner of `context` take numbers with a point for decimals, and quotients of decimals for
/// doubles. Sessions do, and so does what is compared with them.
///
/// # Errors
/// None that a context gives today.
pub fn register_numbers(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    state.config_mut().options_mut().sql_parser.parse_float_as_decimal = true;
    state.register_expr_planner(Arc::new(Quotients))
}

/// Divides decimals as doubles. The quotients that DataFusion gives have four more digits than the dividend,
/// and fewer than users expect of `1.0 / 3`.
///
/// This is part of planning, not of the rule alone: the type of what a division is part of depends on it.
#[derive(Debug)]
struct Quotients;

impl ExprPlanner for Quotients {
    fn plan_binary_op(&self, division: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let quotient = match division.op {
            BinaryOperator::Divide => quotient(&division.left, &division.right, schema),
            _ => None,
        };
        Ok(quotient.map_or(PlannerResult::Original(division), PlannerResult::Planned))
    }
}
