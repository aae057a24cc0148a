//! ORDER BY keys.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Sort, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::{columns_of, rewrite_expressions};

/// Removes repeated keys from ORDER BY, on which `first_value` and DISTINCT ON panic. Adds a separate key for NULL
/// before a nested key unless NULL is the greatest value: Arrow orders NULLs within a value like NULL values.
#[derive(Debug)]
pub struct OrderKeys;

impl AnalyzerRule for OrderKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
                rewrite_expressions(node, |part, _| Ok(ordered(part)))
            }
            LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_)) => Ok(sorted(node)),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "order_keys"
    }
}

/// A function without repeated keys in its ORDER BY.
fn ordered(part: &Expr) -> Option<Expr> {
    match part {
        Expr::AggregateFunction(function) => {
            let order_by = without_repeated(&function.params.order_by)?;
            let params = AggregateFunctionParams { order_by, ..function.params.clone() };
            Some(Expr::AggregateFunction(AggregateFunction { func: function.func.clone(), params }))
        }
        Expr::WindowFunction(function) => {
            let order_by = without_repeated(&function.params.order_by)?;
            let params = WindowFunctionParams { order_by, ..function.params.clone() };
            Some(Expr::from(WindowFunction { fun: function.fun.clone(), params }))
        }
        _ => None,
    }
}

fn sorted(mut node: LogicalPlan) -> Transformed<LogicalPlan> {
    let schema = columns_of(&node);
    let keys = match &mut node {
        LogicalPlan::Sort(sort) => Some(&mut sort.expr),
        LogicalPlan::Distinct(Distinct::On(distinct)) => distinct.sort_expr.as_mut(),
        _ => None,
    };
    let Some(keys) = keys else { return Transformed::no(node) };
    let apart: Vec<Sort> = keys.iter().flat_map(|key| null_apart(key, &schema)).collect();
    let changed = without_repeated(&apart).unwrap_or(apart);
    let is_changed = changed.len() != keys.len();
    *keys = changed;
    if is_changed { Transformed::yes(node) } else { Transformed::no(node) }
}

/// The keys without repetitions; `None` if there are none.
fn without_repeated(keys: &[Sort]) -> Option<Vec<Sort>> {
    let mut kept: Vec<Sort> = Vec::with_capacity(keys.len());
    for key in keys {
        if !kept.iter().any(|earlier| earlier.expr == key.expr) {
            kept.push(key.clone());
        }
    }
    (kept.len() < keys.len()).then_some(kept)
}

/// A key; if it is nested, preceded by a key for whether it is NULL.
fn null_apart(key: &Sort, schema: &DFSchema) -> Vec<Sort> {
    let is_greatest = key.nulls_first != key.asc;
    if is_greatest || !key.expr.get_type(schema).is_ok_and(|of| of.is_nested()) {
        return vec![key.clone()];
    }
    let null = Sort::new(key.expr.clone().is_null(), !key.nulls_first, false);
    vec![null, Sort::new(key.expr.clone(), key.asc, !key.asc)]
}
