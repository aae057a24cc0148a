//! NULL of empty scalar subqueries.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{Column, Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{all_columns, rewrite_expressions};

/// Makes the column of a scalar subquery nullable unless the subquery always has a row: without a row it is NULL, even
/// if the column is NOT NULL. DataFusion considers only the column, and folds `(SELECT ...) IS NULL` to FALSE.
#[derive(Debug)]
pub struct EmptySubqueries;

impl AnalyzerRule for EmptySubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            rewrite_expressions(node, |part, _| match part {
                Expr::ScalarSubquery(subquery) => nullable(subquery),
                _ => Ok(None),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "empty_subqueries"
    }
}

/// The subquery with a nullable column; `None` if the column is nullable already, or the subquery is never empty.
fn nullable(of: &Subquery) -> Result<Option<Expr>> {
    let plan = of.subquery.as_ref();
    let [field] = plan.schema().fields().as_ref() else { return Ok(None) };
    if field.is_nullable() || has_a_row(plan) {
        return Ok(None);
    }
    let column = all_columns(plan.schema());
    let marked = ScalarUDF::from(Nullable::new()).call(column).alias(Column::from_name(field.name()).name);
    let plan = LogicalPlanBuilder::from(plan.clone()).project([marked])?.build()?;
    Ok(Some(Expr::ScalarSubquery(of.with_plan(Arc::new(plan)))))
}

/// Whether a plan always has a row: it is an aggregate without groups, or has no table.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
        _ => false,
    }
}

/// Identity function with a nullable result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Nullable {
    signature: Signature,
}

impl Nullable {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &'static str {
        "nullable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => exec_err!("nullable has one argument"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match arguments.arg_fields {
            [of] => Ok(Arc::new(Field::new(of.name(), of.data_type().clone(), true))),
            _ => exec_err!("nullable has one argument"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(arguments.args) {
            Ok([value]) => Ok(value),
            Err(_) => exec_err!("nullable has one argument"),
        }
    }
}
