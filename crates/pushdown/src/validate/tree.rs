//! The protobuf tree of a fragment.

use datafusion_proto::protobuf;
use datafusion_proto::protobuf::physical_aggregate_expr_node::AggregateFunction;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType as Operator;
use prost::Message;

use super::Limits;
use super::expression::{ExpressionCheck, Place};
use super::functions::is_aggregate;
use super::message::check_message;
use super::shape::SCHEMA;
use super::types::check_schema;
use crate::FragmentError;

/// Keys of a top-K, columns of a group.
const KEYS_MAX: usize = 1024;

/// An operator's reason to be refused, with its name.
type Checked<T = ()> = Result<T, (&'static str, String)>;

/// Checks the whole tree. Nothing of it has been given to DataFusion yet.
///
/// # Errors
/// [`FragmentError::Refused`] with the operator's name and the reason.
pub(crate) fn check_tree(root: &protobuf::PhysicalPlanNode, limits: &Limits) -> Result<(), FragmentError> {
    let mut check = ExpressionCheck::new(limits);
    operator(root, limits, &mut check, limits.operators_max)
        .map(|_| ())
        .map_err(|(name, reason)| FragmentError::Refused { operator: name.to_owned(), reason })
}

/// The tree without what only an execution needs and a decoder makes anew: dynamic filters of a
/// top-K or an aggregate, and the schema of an aggregate's states.
pub(crate) fn without_run_time_state(mut root: protobuf::PhysicalPlanNode) -> protobuf::PhysicalPlanNode {
    let mut node = Some(&mut root);
    while let Some(current) = node {
        node = match &mut current.physical_plan_type {
            Some(Operator::Sort(sort)) => {
                sort.dynamic_filter = None;
                sort.input.as_deref_mut()
            }
            Some(Operator::Aggregate(aggregate)) => {
                aggregate.dynamic_filter = None;
                aggregate.schema = None;
                aggregate.input.as_deref_mut()
            }
            Some(Operator::Filter(filter)) => filter.input.as_deref_mut(),
            Some(Operator::Projection(projection)) => projection.input.as_deref_mut(),
            Some(Operator::GlobalLimit(limit)) => limit.input.as_deref_mut(),
            Some(Operator::LocalLimit(limit)) => limit.input.as_deref_mut(),
            _ => None,
        };
    }
    root
}

/// Columns that an operator yields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Yields {
    Columns(usize),
    /// States of an aggregate, whose number only the decoded plan knows.
    States,
}

impl Yields {
    fn columns(self, operator: &'static str) -> Checked<usize> {
        match self {
            Yields::Columns(columns) => Ok(columns),
            Yields::States => Err((operator, "only a limit may follow a partial aggregation".into())),
        }
    }
}

fn operator(
    node: &protobuf::PhysicalPlanNode,
    limits: &Limits,
    check: &mut ExpressionCheck<'_>,
    left: usize,
) -> Checked<Yields> {
    let input = |input: Option<&protobuf::PhysicalPlanNode>, name, check: &mut ExpressionCheck<'_>| match (
        input,
        left.checked_sub(1),
    ) {
        (None, _) => Err((name, "it has no input".to_owned())),
        (_, None) => Err((name, format!("the fragment has more than {} operators", limits.operators_max))),
        (Some(node), Some(left)) => operator(node, limits, check, left),
    };
    let kind = node.physical_plan_type.as_ref();
    match kind.ok_or(("?", "an operator is missing or unknown".to_owned()))? {
        Operator::Filter(filter) => {
            let name = "FilterExec";
            let columns = input(filter.input.as_deref(), name, check)?.columns(name)?;
            let fail = |reason| (name, reason);
            check.check(filter.expr.as_ref(), columns, Place::Operand).map_err(fail)?;
            if filter.default_filter_selectivity > 100 {
                return Err(fail(format!("a selectivity of {} %", filter.default_filter_selectivity)));
            }
            if !(1..=limits.batch_rows_max).contains(&filter.batch_size) {
                return Err(fail(format!("batches of {} rows", filter.batch_size)));
            }
            if filter.projection.len() > columns.max(KEYS_MAX) {
                return Err(fail(format!("it yields {} of {columns} columns", filter.projection.len())));
            }
            match filter.projection.iter().find(|column| **column as usize >= columns) {
                Some(column) => Err(fail(format!("column {column} is not among the {columns}"))),
                None => Ok(Yields::Columns(filter.projection.len())),
            }
        }
        Operator::Projection(projection) => {
            let name = "ProjectionExec";
            let columns = input(projection.input.as_deref(), name, check)?.columns(name)?;
            let fail = |reason| (name, reason);
            if projection.expr.len() != projection.expr_name.len() {
                return Err(fail(format!(
                    "it has {} expressions and {} names",
                    projection.expr.len(),
                    projection.expr_name.len()
                )));
            }
            for expression in &projection.expr {
                check.check(Some(expression), columns, Place::Column).map_err(fail)?;
            }
            Ok(Yields::Columns(projection.expr.len()))
        }
        Operator::Aggregate(aggregate) => {
            let name = "AggregateExec";
            let columns = input(aggregate.input.as_deref(), name, check)?.columns(name)?;
            aggregation(aggregate, columns, limits, check).map_err(|reason| (name, reason))?;
            Ok(Yields::States)
        }
        Operator::Sort(sort) => {
            let name = "SortExec";
            let columns = input(sort.input.as_deref(), name, check)?.columns(name)?;
            let fail = |reason| (name, reason);
            match usize::try_from(sort.fetch) {
                Ok(0) => return Err(fail("a top-K of no row".into())),
                Ok(k) if k <= limits.top_k_max => {}
                Ok(k) => return Err(fail(format!("a top-K of {k} passes the limit of {}", limits.top_k_max))),
                Err(_) => return Err(fail("a sort without a limit is not bounded".into())),
            }
            if sort.dynamic_filter.is_some() {
                return Err(fail("it brings a dynamic filter".into()));
            }
            if !(1..=KEYS_MAX).contains(&sort.expr.len()) {
                return Err(fail(format!("it sorts by {} keys", sort.expr.len())));
            }
            for key in &sort.expr {
                let Some(ExprType::Sort(key)) = &key.expr_type else {
                    return Err(fail("a key without a direction".into()));
                };
                check.check(key.expr.as_deref(), columns, Place::Column).map_err(fail)?;
            }
            Ok(Yields::Columns(columns))
        }
        Operator::GlobalLimit(limit) => {
            let name = "GlobalLimitExec";
            let yields = input(limit.input.as_deref(), name, check)?;
            if limit.skip != 0 {
                return Err((name, "an OFFSET counts rows of all partitions".into()));
            }
            unordered(name, &limit.required_ordering)?;
            Ok(yields)
        }
        Operator::LocalLimit(limit) => {
            let name = "LocalLimitExec";
            let yields = input(limit.input.as_deref(), name, check)?;
            unordered(name, &limit.required_ordering)?;
            Ok(yields)
        }
        Operator::Extension(leaf) => leaf_columns(leaf, limits, check).map_err(|reason| ("FragmentInput", reason)),
        other => {
            Err((name_of(other), "only filter, projection, partial aggregation, top-K and limit run at storage".into()))
        }
    }
}

fn unordered(name: &'static str, ordering: &[protobuf::PhysicalSortExprNode]) -> Checked {
    if ordering.is_empty() { Ok(()) } else { Err((name, "a limit over an order needs all partitions".into())) }
}

fn leaf_columns(
    leaf: &protobuf::PhysicalExtensionNode,
    limits: &Limits,
    check: &mut ExpressionCheck<'_>,
) -> Result<Yields, String> {
    if !leaf.inputs.is_empty() {
        return Err("it has inputs".into());
    }
    check_message(&leaf.node, limits.encoded_fields_max, &SCHEMA)?;
    let schema = protobuf::Schema::decode(leaf.node.as_slice())
        .map_err(|error| format!("a fragment's column list does not decode: {error}"))?;
    check.add_row_bytes(check_schema(&schema)?)?;
    Ok(Yields::Columns(schema.columns.len()))
}

fn aggregation(
    aggregate: &protobuf::AggregateExecNode,
    columns: usize,
    limits: &Limits,
    check: &mut ExpressionCheck<'_>,
) -> Result<(), String> {
    match protobuf::AggregateMode::try_from(aggregate.mode) {
        Ok(protobuf::AggregateMode::Partial) => {}
        Ok(mode) => return Err(format!("aggregation in mode {mode:?} needs all partitions")),
        Err(_) => return Err(format!("aggregation in mode {}", aggregate.mode)),
    }
    if aggregate.dynamic_filter.is_some() || aggregate.schema.is_some() {
        return Err("it brings a dynamic filter or a schema of its states".into());
    }
    let schema = aggregate.input_schema.as_ref().ok_or("the schema of its input is missing")?;
    check_schema(schema)?;
    if schema.columns.len() != columns {
        return Err(format!("its input has {columns} columns, it expects {}", schema.columns.len()));
    }

    let keys = aggregate.group_expr.len();
    let sets = if keys == 0 { aggregate.groups.len() } else { aggregate.groups.len().div_ceil(keys) };
    if keys > KEYS_MAX || sets > limits.grouping_sets_max.max(1) {
        return Err(format!("it has {keys} keys in {sets} grouping sets"));
    }
    let nulls = aggregate.null_expr.len();
    let is_whole = aggregate.group_expr_name.len() == keys
        && (nulls == keys || nulls == 0 && !aggregate.groups.contains(&true))
        && if keys == 0 { sets == 0 } else { sets > 0 && aggregate.groups.len() == keys * sets };
    if !is_whole {
        return Err("its groups, their names and their grouping sets do not fit together".into());
    }
    for key in aggregate.group_expr.iter().chain(&aggregate.null_expr) {
        check.check(Some(key), columns, Place::Column)?;
    }

    let calls = aggregate.aggr_expr.len();
    if aggregate.aggr_expr_name.len() != calls || aggregate.filter_expr.len() != calls {
        return Err("its functions, their names and their filters are not as many".into());
    }
    for filter in aggregate.filter_expr.iter().filter_map(|filter| filter.expr.as_ref()) {
        check.check(Some(filter), columns, Place::Operand)?;
    }
    for call in &aggregate.aggr_expr {
        let Some(ExprType::AggregateExpr(call)) = &call.expr_type else {
            return Err("a call that is no aggregate".into());
        };
        let Some(AggregateFunction::UserDefinedAggrFunction(function)) = &call.aggregate_function else {
            return Err("a call without a function".into());
        };
        if !is_aggregate(function) {
            let shown: String = function.chars().take(64).collect();
            return Err(format!("aggregate {} does not run at storage", shown.escape_debug()));
        }
        if call.fun_definition.as_ref().is_some_and(|definition| !definition.is_empty()) {
            return Err(format!("aggregate {function} brings a definition of its own"));
        }
        if !call.ordering_req.is_empty() {
            return Err("an aggregate with ORDER BY sorts what it reads".into());
        }
        // The third is a number of centroids, for which there would be room.
        if function.starts_with("approx_percentile") && call.expr.len() > 2 {
            return Err(format!("aggregate {function} with a size of its own"));
        }
        for argument in &call.expr {
            check.check(Some(argument), columns, Place::Column)?;
        }
    }
    Ok(())
}

/// The operator's name, as plans print it.
fn name_of(operator: &Operator) -> &'static str {
    match operator {
        Operator::ParquetScan(_) => "ParquetScan",
        Operator::CsvScan(_) => "CsvScan",
        Operator::JsonScan(_) => "JsonScan",
        Operator::AvroScan(_) => "AvroScan",
        Operator::ArrowScan(_) => "ArrowScan",
        Operator::MemoryScan(_) => "MemoryScan",
        Operator::JsonSink(_) | Operator::CsvSink(_) | Operator::ParquetSink(_) => "DataSinkExec",
        Operator::Window(_) => "WindowAggExec",
        Operator::HashJoin(_) => "HashJoinExec",
        Operator::SymmetricHashJoin(_) => "SymmetricHashJoinExec",
        Operator::NestedLoopJoin(_) => "NestedLoopJoinExec",
        Operator::CrossJoin(_) => "CrossJoinExec",
        Operator::SortMergeJoin(_) => "SortMergeJoinExec",
        Operator::Union(_) => "UnionExec",
        Operator::Interleave(_) => "InterleaveExec",
        Operator::Repartition(_) => "RepartitionExec",
        Operator::Unnest(_) => "UnnestExec",
        Operator::GenerateSeries(_) => "LazyMemoryExec",
        Operator::Explain(_) => "ExplainExec",
        Operator::Analyze(_) => "AnalyzeExec",
        Operator::AsyncFunc(_) => "AsyncFuncExec",
        Operator::ScalarSubquery(_) => "ScalarSubqueryExec",
        Operator::Empty(_) => "EmptyExec",
        Operator::PlaceholderRow(_) => "PlaceholderRowExec",
        Operator::SortPreservingMerge(_) => "SortPreservingMergeExec",
        Operator::CoalesceBatches(_) => "CoalesceBatchesExec",
        Operator::Merge(_) => "CoalescePartitionsExec",
        Operator::Cooperative(_) => "CooperativeExec",
        Operator::Buffer(_) => "BufferExec",
        Operator::Filter(_) => "FilterExec",
        Operator::Projection(_) => "ProjectionExec",
        Operator::Aggregate(_) => "AggregateExec",
        Operator::Sort(_) => "SortExec",
        Operator::GlobalLimit(_) => "GlobalLimitExec",
        Operator::LocalLimit(_) => "LocalLimitExec",
        Operator::Extension(_) => "FragmentInput",
    }
}
