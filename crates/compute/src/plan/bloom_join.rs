//! Bloom joins: which joins collect their build keys, and which scans use them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use thermocline_pushdown::{KeySet, is_hashable};

use crate::join::{BuildKeys, CollectKeysExec, FilterMaker};
use crate::scan::HybridScanExec;
use crate::settings::QuerySettings;

/// Largest Bloom filter of keys that only rows in memory are tested against: about a hundred thousand.
/// More seldom drop seven rows in eight, and every partition of a build side, however small, fills and
/// shrinks one of this size.
const HERE_BYTES_MAX: usize = 128 << 10;

/// Connects hash joins with the scans below their probe sides.
///
/// A join that makes a dynamic filter has found out that its probe side may be filtered by its
/// build side, and which columns of which scans that means. Scans wait for such filters, which are
/// final before the join wants its probe rows; no other maker of filters gives that promise. If the
/// keys can be hashed, the join's build side also collects them into a Bloom filter.
pub(super) fn connect_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut used: Vec<u64> = vec![];
    let mut settings: Option<QuerySettings> = None;
    let mut sends_bloom_filters = false;
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<HybridScanExec>() {
            used.extend(scan.dynamic_filters());
            settings.get_or_insert_with(|| scan.settings().clone());
            sends_bloom_filters |= scan.sends_bloom_filters();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let (false, Some(settings)) = (used.is_empty(), settings) else {
        return Ok(plan);
    };

    let mut makers: HashMap<u64, FilterMaker> = HashMap::new();
    let plan = plan
        .transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(id) = maker(join).filter(|id| used.contains(id)) else {
                return Ok(Transformed::no(node));
            };
            // A filter saves bytes, where something is pushed, and work between scan and join. A set saves
            // the join itself work.
            let direct = is_scan(join.right());
            let saves_bytes = sends_bloom_filters;
            let keys = if settings.bloom_filters { build_keys(join)? } else { None };
            let exactly = keys.as_ref().is_some_and(|keys| is_set_key(join, keys));
            let keys = keys.filter(|_| saves_bytes || !direct || exactly);
            let Some(keys) = keys else {
                makers.insert(id, FilterMaker { keys: None, direct });
                return Ok(Transformed::no(node));
            };
            let build = Arc::clone(join.left());
            let partitions = build.properties().output_partitioning().partition_count();
            let bytes_max = match (saves_bytes, direct) {
                (true, _) => settings.bloom_filter_size,
                (false, false) => settings.bloom_filter_size.min(HERE_BYTES_MAX),
                (false, true) => 0,
            };
            let collected = BuildKeys::new(partitions, bytes_max, settings.bloom_filter_fpr, exactly);
            makers.insert(id, FilterMaker { keys: Some(Arc::clone(&collected)), direct });
            let build: Arc<dyn ExecutionPlan> = Arc::new(CollectKeysExec::new(build, keys, collected));
            let children = vec![build, Arc::clone(join.right())];
            // The new input has the properties of the old one.
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        })
        .data()?;
    plan.transform_up(|node| {
        Ok(match node.downcast_ref::<HybridScanExec>() {
            Some(scan) => Transformed::yes(Arc::new(scan.awaiting(&makers)) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// Whether `plan` is a scan, but for operators that take rows or columns away.
fn is_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes = plan.downcast_ref::<FilterExec>().is_some() || plan.downcast_ref::<ProjectionExec>().is_some();
    match plan.children().as_slice() {
        [] => true,
        [input] if passes => is_scan(input),
        _ => false,
    }
}

/// Whether the build side's keys are one column that a set of keys holds.
fn is_set_key(join: &HashJoinExec, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
    let schema = join.left().schema();
    matches!(keys, [key] if key.data_type(&schema).is_ok_and(|data_type| KeySet::holds(&data_type)))
}

/// The id of the filter that a join makes.
fn maker(join: &HashJoinExec) -> Option<u64> {
    join.dynamic_expressions_produced().first()?.expression_id()
}

/// The build side's keys, if equal keys of both sides hash alike and a row without a partner may go.
fn build_keys(join: &HashJoinExec) -> Result<Option<Vec<Arc<dyn PhysicalExpr>>>> {
    // `NOT IN` wants to see NULLs of the probe side, and a null-safe join matches them.
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let (left, right) = (join.left().schema(), join.right().schema());
    let mut keys = Vec::with_capacity(join.on().len());
    for (build, probe) in join.on() {
        let data_type = build.data_type(&left)?;
        if data_type != probe.data_type(&right)? || !is_hashable(&data_type) {
            return Ok(None);
        }
        keys.push(Arc::clone(build));
    }
    Ok((!keys.is_empty()).then_some(keys))
}
