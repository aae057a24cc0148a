//! Fragments: the piece of a plan directly above a scan that may run at storage.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, displayable};
use datafusion_proto::physical_plan::{
    DefaultPhysicalProtoConverter, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use crate::fragment_error::FragmentError;
use crate::validate::{Limits, check_message, check_plan, check_tree, shape, without_run_time_state};
use crate::{FragmentCodec, FragmentInputExec, OperatorKind, StreamInputExec, balanced};

/// A chain of operators over the needed columns of one or more partitions of an object:
///
/// ```text
///   partial aggregate        any chain of local and bounded operators,
///     projection             absorbed by the compute node's `separate` rule
///       filter
///         FragmentInput      the needed columns (A of the filter, B of its output), in schema order
/// ```
///
/// The same value is encoded for a storage node and instantiated over cached columns.
#[derive(Debug, Clone)]
pub struct Fragment {
    root: Arc<dyn ExecutionPlan>,
}

impl Fragment {
    /// The fragment that does nothing: all rows of `columns`.
    pub fn scan(columns: SchemaRef) -> Self {
        Self { root: Arc::new(FragmentInputExec::new(columns)) }
    }

    /// The same with statistics of the rows, which local planning uses and the wire does not carry.
    pub fn scan_with_statistics(columns: SchemaRef, statistics: Statistics) -> Self {
        Self { root: Arc::new(FragmentInputExec::with_statistics(columns, statistics)) }
    }

    /// The same fragment over rows of which `statistics` are known.
    ///
    /// # Errors
    /// If an operator cannot be copied.
    pub fn with_statistics(&self, statistics: Statistics) -> Result<Self, DataFusionError> {
        let mut fragment = Self::scan_with_statistics(self.input_schema(), statistics);
        for operator in self.chain().into_iter().rev().skip(1) {
            fragment = fragment.with_operator(operator)?;
        }
        Ok(fragment)
    }

    /// Statistics of the rows that the fragment yields.
    ///
    /// # Errors
    /// If an operator cannot derive its statistics.
    pub fn statistics(&self) -> Result<Arc<Statistics>, DataFusionError> {
        StatisticsContext::new().compute(self.root.as_ref(), &StatisticsArgs::new())
    }

    /// Puts `operator` (whatever its input was) on top of this fragment.
    ///
    /// # Errors
    /// If the operator cannot stand on this fragment's schema.
    pub fn with_operator(&self, operator: &Arc<dyn ExecutionPlan>) -> Result<Self, DataFusionError> {
        Ok(Self { root: fresh(&flat(operator)?, Arc::clone(&self.root))? })
    }

    /// The fragment with a further filter directly above its input. `predicate` is in terms of the
    /// input's columns.
    ///
    /// # Errors
    /// If the predicate does not fit the input's columns.
    pub fn with_filter_below(&self, predicate: Arc<dyn PhysicalExpr>) -> Result<Self, DataFusionError> {
        let mut operators = self.chain().into_iter().rev();
        let leaf = operators.next().unwrap_or(&self.root);
        let mut operators = operators.peekable();
        let mut plan: Arc<dyn ExecutionPlan> = Arc::clone(leaf);
        let filter = match operators.peek().and_then(|operator| operator.downcast_ref::<FilterExec>()) {
            Some(filter) => {
                let both = balanced(&conjunction([Arc::clone(filter.predicate()), predicate]))?;
                let filter = FilterExecBuilder::from(filter).with_predicate(both).build()?;
                operators.next();
                filter
            }
            None => FilterExec::try_new(balanced(&predicate)?, Arc::clone(&plan))?,
        };
        plan = fresh(&(Arc::new(filter) as Arc<dyn ExecutionPlan>), plan)?;
        for operator in operators {
            plan = fresh(operator, plan)?;
        }
        Ok(Self { root: plan })
    }

    /// Kinds of its operators, from its input upwards. A filter that stops after a number of rows is a limit, too.
    pub fn operator_kinds(&self) -> Vec<OperatorKind> {
        let mut kinds = vec![];
        for operator in self.chain().into_iter().rev() {
            let kind = OperatorKind::of(operator.as_ref());
            kinds.extend(kind);
            if kind == Some(OperatorKind::Filter) && operator.fetch().is_some() {
                kinds.push(OperatorKind::Limit);
            }
        }
        kinds
    }

    /// The topmost operator.
    pub fn root(&self) -> &Arc<dyn ExecutionPlan> {
        &self.root
    }

    /// Columns that the fragment yields.
    pub fn schema(&self) -> SchemaRef {
        self.root.schema()
    }

    /// Columns that the fragment reads, in the order of its input.
    pub fn input_schema(&self) -> SchemaRef {
        self.chain().last().map_or_else(|| self.schema(), |leaf| leaf.schema())
    }

    /// The filter directly above the input, in terms of the input's columns; `None` without one.
    /// Readers prune row groups and pages with it; the fragment still applies it itself.
    pub fn predicate(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        let chain = self.chain();
        let above_leaf = chain.len().checked_sub(2)?;
        chain.get(above_leaf)?.downcast_ref::<FilterExec>().map(FilterExec::predicate)
    }

    /// Whether the fragment can yield fewer or smaller rows than it reads: without that, Parquet's
    /// own bytes are smaller than anything that a storage node could send.
    pub fn reduces(&self) -> bool {
        self.chain().iter().any(|node| {
            node.downcast_ref::<FilterExec>().is_some()
                || node.downcast_ref::<AggregateExec>().is_some()
                || node.fetch().is_some()
        })
    }

    /// Whether the fragment's answer is small by what it computes, whatever its filters keep: it
    /// aggregates, or stops after so many rows.
    pub fn condenses(&self) -> bool {
        self.chain().iter().any(|node| node.downcast_ref::<AggregateExec>().is_some() || node.fetch().is_some())
    }

    /// Operators from the root to the input, the input included.
    pub fn chain(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        let mut chain = vec![&self.root];
        let mut node = &self.root;
        while let Some(child) = node.children().first() {
            chain.push(*child);
            node = *child;
        }
        chain
    }

    /// The fragment as an executable plan of one partition over `input`, with state of its own:
    /// instances run side by side without sharing heaps or dynamic filters.
    ///
    /// # Errors
    /// If `input` does not have the fragment's input columns.
    pub fn instantiate(&self, input: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(StreamInputExec::new(input));
        for operator in self.chain().into_iter().rev().skip(1) {
            plan = fresh(operator, plan)?;
        }
        Ok(plan)
    }

    /// The bytes for the wire: a DataFusion physical plan with [`FragmentCodec`].
    ///
    /// # Errors
    /// [`FragmentError::Codec`] if an operator has no encoding.
    pub fn encode(&self) -> Result<Vec<u8>, FragmentError> {
        let tree = DefaultPhysicalProtoConverter {}.execution_plan_to_proto(&self.root, &FragmentCodec)?;
        Ok(without_run_time_state(tree).encode_to_vec())
    }

    /// Validates and decodes; returns the fragment and its input columns. Nothing is given to
    /// DataFusion before it was found to be [allowed](crate::validate).
    ///
    /// # Errors
    /// [`FragmentError`] of every kind: whatever the bytes are, nothing panics.
    pub fn decode(bytes: &[u8], context: &TaskContext, limits: &Limits) -> Result<(Self, SchemaRef), FragmentError> {
        if bytes.len() > limits.encoded_bytes_max {
            return Err(FragmentError::TooLarge { bytes: bytes.len(), limit: limits.encoded_bytes_max });
        }
        check_message(bytes, limits.encoded_fields_max, &shape::PLAN).map_err(malformed)?;
        let tree = PhysicalPlanNode::decode(bytes).map_err(|error| malformed(error.to_string()))?;
        check_tree(&tree, limits)?;
        let root = guarded(|| {
            let decoding = PhysicalPlanDecodeContext::new(context, &FragmentCodec);
            let root = DefaultPhysicalProtoConverter {}.proto_to_execution_plan(&tree, &decoding)?;
            check_plan(&root, limits)?;
            Ok(root)
        })?;
        let fragment = Self { root };
        let input = fragment.input_schema();
        Ok((fragment, input))
    }
}

fn malformed(why: String) -> FragmentError {
    FragmentError::Codec(DataFusionError::Plan(why))
}

/// Runs a decoder of DataFusion's, and makes a panic of it an error.
///
/// The last defence, not the first: the tree was checked for all that is known to panic, but the
/// decoders are written for plans of one's own, and a version to come may have another `unwrap`. What
/// panics here owns all that it has changed, so nothing half done is left behind.
fn guarded<T>(decode: impl FnOnce() -> Result<T, FragmentError>) -> Result<T, FragmentError> {
    std::panic::catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(malformed("a fragment that passed its checks cannot be decoded".into())))
}

impl fmt::Display for Fragment {
    /// The operators on one line, from the input upwards.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, node) in self.chain().into_iter().rev().enumerate() {
            if position > 0 {
                f.write_str(" -> ")?;
            }
            write!(f, "{}", displayable(node.as_ref()).one_line().to_string().trim_end())?;
        }
        Ok(())
    }
}

/// `operator` with long chains of AND and OR as balanced trees.
fn flat(operator: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    if let Some(filter) = operator.downcast_ref::<FilterExec>() {
        let predicate = balanced(filter.predicate())?;
        if !Arc::ptr_eq(&predicate, filter.predicate()) {
            return Ok(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?));
        }
    } else if let Some(projection) = operator.downcast_ref::<ProjectionExec>() {
        let expressions = projection
            .expr()
            .iter()
            .map(|output| Ok(ProjectionExpr { expr: balanced(&output.expr)?, alias: output.alias.clone() }));
        let expressions = expressions.collect::<Result<Vec<_>, DataFusionError>>()?;
        let changed = |(new, old): (&ProjectionExpr, &ProjectionExpr)| !Arc::ptr_eq(&new.expr, &old.expr);
        if expressions.iter().zip(projection.expr()).any(changed) {
            return Ok(Arc::new(ProjectionExec::try_new(expressions, Arc::clone(projection.input()))?));
        }
    } else if let Some(aggregate) = operator.downcast_ref::<AggregateExec>() {
        return Ok(flat_aggregate(aggregate)?.unwrap_or_else(|| Arc::clone(operator)));
    }
    Ok(Arc::clone(operator))
}

/// An aggregate with balanced arguments and filters; `None` if they are.
fn flat_aggregate(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>, DataFusionError> {
    let mut changed = false;
    let mut flattened = |expression: &Arc<dyn PhysicalExpr>| {
        let flat = balanced(expression)?;
        changed |= !Arc::ptr_eq(&flat, expression);
        Ok::<_, DataFusionError>(flat)
    };
    let mut calls = Vec::with_capacity(aggregate.aggr_expr().len());
    for call in aggregate.aggr_expr() {
        let arguments = call.expressions().iter().map(&mut flattened).collect::<Result<Vec<_>, _>>()?;
        let orders = call.order_bys().iter().map(|order| Arc::clone(&order.expr)).collect();
        let Some(call) = call.with_new_expressions(arguments, orders) else { return Ok(None) };
        calls.push(Arc::new(call));
    }
    let mut filters = Vec::with_capacity(calls.len());
    for filter in aggregate.filter_expr() {
        filters.push(filter.as_ref().map(&mut flattened).transpose()?);
    }
    if !changed {
        return Ok(None);
    }
    let flat = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        calls,
        filters,
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(flat.with_limit_options(aggregate.limit_options()))))
}

/// A copy of `operator` over `input` that shares no run-time state with the original. A top-K
/// would otherwise share its dynamic filter with every other partition's top-K.
fn fresh(
    operator: &Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    if let Some(sort) = operator.downcast_ref::<SortExec>() {
        let copy = SortExec::new(sort.expr().clone(), input).with_fetch(sort.fetch());
        return Ok(Arc::new(copy));
    }
    Arc::clone(operator).replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::filter::FilterExecBuilder;

    use super::*;

    #[test]
    fn a_filter_with_a_limit_is_both() {
        let columns = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let scan = Fragment::scan(columns);
        assert_eq!(scan.operator_kinds(), []);
        let filter = |fetch| {
            let filter = FilterExecBuilder::new(lit(true), Arc::clone(scan.root())).with_fetch(fetch).build().unwrap();
            scan.with_operator(&(Arc::new(filter) as Arc<dyn ExecutionPlan>)).unwrap()
        };
        assert_eq!(filter(None).operator_kinds(), [OperatorKind::Filter]);
        assert_eq!(filter(Some(5)).operator_kinds(), [OperatorKind::Filter, OperatorKind::Limit]);
    }
}
