//! Separation: from each scan upwards, local and bounded operators become part of its fragment.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, Partitioning, ReplaceChildrenOptions};
use thermocline_pushdown::Limits;
use thermocline_pushdown::validate::check_operator;

use super::bloom_join::connect_joins;
use crate::join::RestartableExec;
use crate::scan::HybridScanExec;
use crate::settings::{PushdownOperators, QuerySettings};

/// The rule `separate` (FlexPushdownDB section 4.2).
///
/// ```text
///   FinalAggregate                 FinalAggregate
///     PartialAggregate               HybridScan [FragmentInput -> Filter -> PartialAggregate]
///       Projection          ==>
///         Filter
///           HybridScan
/// ```
///
/// A filter, a projection and a partial aggregate move into the fragment; an aggregate in one step is split
/// into a partial and a final one first. A top-K is copied: every
/// partition keeps its K best, the operator above picks the K best of those. The rule runs last, so
/// that it sees the plan as it will be executed.
#[derive(Debug, Default)]
pub struct Separate {
    limits: Limits,
}

/// A scan with one operator more, or why it may not be part of the fragment.
type Joined = std::result::Result<HybridScanExec, String>;

/// `node` with the reason, in the scan below it, why it is not part of the fragment.
fn marked(node: Arc<dyn ExecutionPlan>, reason: &str) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let [child] = node.children()[..] else {
        return Ok(Transformed::no(node));
    };
    let marked: Arc<dyn ExecutionPlan> = if let Some(scan) = child.downcast_ref::<HybridScanExec>() {
        Arc::new(scan.below_refused(reason))
    } else if child.downcast_ref::<RepartitionExec>().is_some() {
        marked(Arc::clone(child), reason)?.data
    } else {
        return Ok(Transformed::no(node));
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Transformed::yes(node.replace_children(vec![marked], options)?))
}

impl PhysicalOptimizerRule for Separate {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let operators =
            config.extensions.get::<QuerySettings>().map_or(PushdownOperators::All, |s| s.pushdown_operators);
        let plan = match operators {
            PushdownOperators::All => plan.transform_up(|node| self.separate(node)).data()?,
            PushdownOperators::Filters => plan,
        };
        RestartableExec::below_joins(connect_joins(plan)?)
    }

    fn name(&self) -> &str {
        "separate"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl Separate {
    fn separate(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            return match aggregate.mode() {
                AggregateMode::Partial => self.absorb(node),
                AggregateMode::Single | AggregateMode::SinglePartitioned => self.split(node),
                _ => Ok(Transformed::no(node)),
            };
        }
        if node.downcast_ref::<FilterExec>().is_some() {
            return self.absorb(node);
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            // A wider row is cheaper to make here than to send.
            let widens = projection.expr().len() > projection.input().schema().fields().len();
            return if widens { Ok(Transformed::no(node)) } else { self.absorb(node) };
        }
        if let Some(sort) = node.downcast_ref::<SortExec>()
            && sort.fetch().is_some()
            && let Some(scan) = self.scan_below(sort.input())?
        {
            let scan = match self.joined(&scan, &node, true)? {
                Ok(scan) => scan,
                Err(reason) => return marked(node, &reason),
            };
            let child: Arc<dyn ExecutionPlan> = Arc::new(scan);
            let sort = SortExec::new(sort.expr().clone(), child)
                .with_fetch(sort.fetch())
                .with_preserve_partitioning(sort.preserve_partitioning());
            return Ok(Transformed::yes(Arc::new(sort)));
        }
        Ok(Transformed::no(node))
    }

    /// `node` as part of the fragment of the scan below it, if there is one and it may; otherwise the
    /// scan says why not.
    fn absorb(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        match self.absorbed(&node)? {
            None => Ok(Transformed::no(node)),
            Some(Ok(scan)) => Ok(Transformed::yes(Arc::new(scan))),
            Some(Err(reason)) => marked(node, &reason),
        }
    }

    /// `None` if there is no scan below `node` that is open for it.
    fn absorbed(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Joined>> {
        match node.children().as_slice() {
            [child] => match self.scan_below(child)? {
                Some(scan) if scan.fragment().chain().len() < self.limits.operators_max => {
                    self.joined(&scan, node, false).map(Some)
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// `scan` with `node` as part of its fragment, unless the fragment would then not travel any more.
    fn joined(&self, scan: &HybridScanExec, node: &Arc<dyn ExecutionPlan>, copied: bool) -> Result<Joined> {
        if let Err(error) = check_operator(node.as_ref(), &self.limits) {
            return Ok(Err(error.to_string()));
        }
        let joined = scan.with_operator(node, copied)?;
        Ok(match joined.why_not_pushed() {
            Some(reason) if scan.why_not_pushed().is_none() => Err(reason.to_string()),
            _ => Ok(joined),
        })
    }

    /// The open scan that `plan` is, seen through operators that only spread rows and through
    /// those that may join its fragment.
    fn scan_below(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<HybridScanExec>> {
        if let Some(scan) = plan.downcast_ref::<HybridScanExec>() {
            return Ok(scan.is_open().then(|| scan.clone()));
        }
        if let Some(spread) = plan.downcast_ref::<RepartitionExec>() {
            return match spread.partitioning() {
                Partitioning::RoundRobinBatch(_) => self.scan_below(spread.input()),
                _ => Ok(None),
            };
        }
        if plan.downcast_ref::<FilterExec>().is_some() || plan.downcast_ref::<ProjectionExec>().is_some() {
            return Ok(self.absorbed(plan)?.and_then(Joined::ok));
        }
        Ok(None)
    }

    /// A one-step aggregate over a scan as partial and final steps, the first in the fragment.
    fn split(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
            return Ok(Transformed::no(node));
        };
        if aggregate.input().properties().output_partitioning().partition_count() != 1 {
            return Ok(Transformed::no(node));
        }
        let partial: Arc<dyn ExecutionPlan> = Arc::new(AggregateExec::try_new(
            AggregateMode::Partial,
            aggregate.group_expr().clone(),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(aggregate.input()),
            aggregate.input_schema(),
        )?);
        let scan = match self.absorbed(&partial)? {
            None => return Ok(Transformed::no(node)),
            Some(Ok(scan)) => scan,
            Some(Err(reason)) => return marked(node, &reason),
        };
        let merged: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::new(scan)));
        let last = AggregateExec::try_new(
            AggregateMode::Final,
            aggregate.group_expr().as_final(),
            aggregate.aggr_expr().to_vec(),
            vec![None; aggregate.aggr_expr().len()],
            merged,
            aggregate.input_schema(),
        )?
        .with_limit_options(aggregate.limit_options());
        Ok(Transformed::yes(Arc::new(last)))
    }
}
