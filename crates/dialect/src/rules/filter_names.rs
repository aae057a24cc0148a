//! Filter pushdown and columns with equal names.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// Pushes filters down, unless an operator has two columns with the name of a filtered column. Operators look up a
/// filter's columns in their inputs by name, and take the first: a filter on `b.k` would apply to `a.k`, and lose rows.
#[derive(Debug)]
pub(super) struct FilterNames(pub(super) FilterPushdown);

impl PhysicalOptimizerRule for FilterNames {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let repeated = repeated_names(&plan)?;
        let is_early = self.name() == FilterPushdown::new().name();
        match repeated.is_empty() || repeated.is_disjoint(&filtered_names(&plan, is_early)?) {
            true => self.0.optimize(plan, config),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Names that occur twice among the columns of an operator.
fn repeated_names(plan: &Arc<dyn ExecutionPlan>) -> Result<HashSet<String>> {
    let mut repeated = HashSet::new();
    plan.apply(|node| {
        let schema = node.schema();
        let mut names = HashSet::with_capacity(schema.fields().len());
        let twice = schema.fields().iter().filter(|field| !names.insert(field.name()));
        repeated.extend(twice.map(|field| field.name().clone()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(repeated)
}

/// Names of columns with filters that are pushed down: early ones, or dynamic ones of joins, of sorts with a limit, and
/// of aggregates without groups.
fn filtered_names(plan: &Arc<dyn ExecutionPlan>, is_early: bool) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    let mut renamed: Vec<(String, Vec<String>)> = vec![];
    plan.apply(|node| {
        let mut add = |expression: &Arc<dyn PhysicalExpr>| names.extend(names_in(expression));
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            if is_early {
                add(filter.predicate());
            }
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            join.on().iter().for_each(|(left, right)| [left, right].into_iter().for_each(&mut add));
        } else if let Some(sort) = node.downcast_ref::<SortExec>() {
            if sort.fetch().is_some() {
                sort.expr().iter().for_each(|key| add(&key.expr));
            }
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            if aggregate.group_expr().is_empty() {
                aggregate.aggr_expr().iter().for_each(|function| function.expressions().iter().for_each(&mut add));
            }
            let keys = aggregate.group_expr().expr().iter();
            renamed.extend(keys.map(|(key, name)| (name.clone(), names_in(key).collect())));
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let columns = projection.expr().iter();
            renamed.extend(columns.map(|column| (column.alias.clone(), names_in(&column.expr).collect())));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    // Adds the names of the filtered columns further below.
    loop {
        let below = renamed.iter().filter(|(name, _)| names.contains(name)).flat_map(|(_, below)| below);
        let more: Vec<String> = below.filter(|name| !names.contains(*name)).cloned().collect();
        if more.is_empty() {
            return Ok(names);
        }
        names.extend(more);
    }
}

fn names_in(expression: &Arc<dyn PhysicalExpr>) -> impl Iterator<Item = String> + use<> {
    collect_columns(expression).into_iter().map(|column| column.name().to_owned())
}
