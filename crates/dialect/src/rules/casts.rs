//! Casts with PostgreSQL's results.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{casts_otherwise, external, sql_cast, sql_type};
use thermocline_types::Class;

use super::expressions::rewrite_expressions;

/// Replaces casts between SQL types where Arrow gives another value: it truncates fractions, rounds decimals to doubles
/// twice, and parses and formats text differently. Rejects casts that SQL does not have. Runs after type coercion.
#[derive(Debug)]
pub struct Casts;

fn replaced(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Cast(Cast { expr, field }) = expression else { return Ok(None) };
    let (from, to) = (expr.get_type(schema)?, field.data_type());
    if let (Some(one), Some(other)) = (sql_type(&from), sql_type(to))
        && !one.casts_to(other)
    {
        return Err(external(Class::CannotCoerce.error(format_args!("cannot cast type {one} to {other}"))));
    }
    match casts_otherwise(&from, to) {
        true => sql_cast(expr.as_ref().clone(), to).map(Some),
        false => Ok(None),
    }
}

impl AnalyzerRule for Casts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| rewrite_expressions(node, replaced)).data()
    }

    fn name(&self) -> &str {
        "casts"
    }
}
