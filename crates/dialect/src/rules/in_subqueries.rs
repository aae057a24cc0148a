//! NULL results of `IN (SELECT ...)`.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, InSubquery};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, exists, lit, not_exists, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::set_comparison::with_own_name;

/// Replaces `x IN (SELECT ...)` by `EXISTS` where a filter distinguishes FALSE from NULL.
///
/// DataFusion's join for it has only two values except in top-level conjuncts of a filter. The replacement:
///
/// ```text
///   CASE WHEN EXISTS (s WHERE s = x)               THEN TRUE
///        WHEN EXISTS (s WHERE s IS NULL)           THEN NULL
///        WHEN x IS NULL AND EXISTS (s)             THEN NULL
///        ELSE FALSE END
/// ```
#[derive(Debug)]
pub struct InSubqueries;

impl AnalyzerRule for InSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) => {
                let schema = Arc::clone(filter.input.schema());
                let place = Place { is_term: true, is_null_false: true };
                let predicate = rewritten(filter.predicate, place, &schema)?;
                let changed = predicate.transformed;
                let filter = LogicalPlan::Filter(Filter::try_new(predicate.data, filter.input)?);
                Ok(if changed { Transformed::yes(filter) } else { Transformed::no(filter) })
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "in_subqueries"
    }
}

/// Position of an expression in a predicate.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The expression is a top-level conjunct.
    is_term: bool,
    /// NULL has the effect of FALSE.
    is_null_false: bool,
}

fn rewritten(expression: Expr, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let place = Place { is_term: place.is_term && op == Operator::And, ..place };
            let left = rewritten(*left, place, schema)?;
            let right = rewritten(*right, place, schema)?;
            let changed = left.transformed || right.transformed;
            let whole = Expr::BinaryExpr(BinaryExpr::new(Box::new(left.data), op, Box::new(right.data)));
            Ok(if changed { Transformed::yes(whole) } else { Transformed::no(whole) })
        }
        Expr::InSubquery(of) => {
            let is_correlated = !of.subquery.outer_ref_columns.is_empty();
            let is_exact = if of.negated {
                // A null-aware join needs a key of both sides.
                place.is_term && !is_correlated && of.expr.any_column_refs()
            } else {
                place.is_null_false || !may_be_null(&of, schema)?
            };
            if is_exact || of.subquery.subquery.schema().fields().len() != 1 {
                return Ok(Transformed::no(Expr::InSubquery(of)));
            }
            Ok(Transformed::yes(with_null(of, schema)?))
        }
        other => {
            let place = Place { is_term: false, is_null_false: false };
            other.map_children(|part| rewritten(part, place, schema))
        }
    }
}

/// Rewrites `IN (SELECT ...)` of one column to `EXISTS` with SQL's three-valued result.
///
/// # Errors
/// If the subquery rejects the condition.
pub(super) fn as_exists(of: InSubquery, schema: &DFSchema) -> Result<Expr> {
    if may_be_null(&of, schema)? {
        return with_null(of, schema);
    }
    let (_, found) = found(&of, schema)?;
    Ok(if of.negated { not_exists(found) } else { exists(found) })
}

/// The rows of a subquery under a unique name, and those that equal the outer value.
fn found(of: &InSubquery, schema: &DFSchema) -> Result<(LogicalPlanBuilder, Arc<LogicalPlan>)> {
    let rows = with_own_name(&of.subquery.subquery)?;
    let item = Expr::Column(Column::from(rows.schema().qualified_field(0)));
    let value = outer(of.expr.as_ref().clone(), schema)?;
    let found = rows.clone().filter(item.eq(value))?.build()?;
    Ok((rows, Arc::new(found)))
}

/// Whether the result may be NULL.
fn may_be_null(of: &InSubquery, schema: &DFSchema) -> Result<bool> {
    let subquery = of.subquery.subquery.schema();
    Ok(of.expr.nullable(schema)? || subquery.fields().iter().any(|field| field.is_nullable()))
}

/// The expression with a three-valued result.
fn with_null(of: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let is_correlated = !of.subquery.outer_ref_columns.is_empty();
    let (rows, found) = found(&of, schema)?;
    let item_is_null = Expr::Column(Column::from(rows.schema().qualified_field(0))).is_null();
    // One row suffices. Correlated rows must not be limited before they are joined.
    let some = |rows: LogicalPlanBuilder| -> Result<Expr> {
        let rows = if is_correlated { rows } else { rows.limit(0, Some(1))? };
        Ok(exists(Arc::new(rows.build()?)))
    };
    let null_item = some(rows.clone().filter(item_is_null)?)?;
    let null = || lit(ScalarValue::Boolean(None));
    let outcome = when(exists(found), lit(!of.negated))
        .when(null_item, null())
        .when(of.expr.is_null().and(some(rows)?), null())
        .otherwise(lit(of.negated))?;
    Ok(outcome)
}

/// The expression with outer references in place of columns.
fn outer(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    expression
        .transform_up(|part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
}
