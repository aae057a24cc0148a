//! DataFusion's physical optimizer rules, without their defects.

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;

use super::filter_names::FilterNames;
use super::projections::Projections;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules of the physical optimizer in order, with `FilterNames` around filter pushdown and `Projections` around
/// projection pushdown.
pub fn physical_rules() -> Vec<Rule> {
    let pushdown = [FilterPushdown::new(), FilterPushdown::new_post_optimization()];
    let mut ours: Vec<Rule> = pushdown.into_iter().map(|rule| Arc::new(FilterNames(rule)) as Rule).collect();
    ours.push(Arc::new(Projections(ProjectionPushdown::new())));
    let rules = PhysicalOptimizer::new().rules.into_iter();
    rules.map(|rule| ours.iter().find(|our| our.name() == rule.name()).cloned().unwrap_or(rule)).collect()
}
