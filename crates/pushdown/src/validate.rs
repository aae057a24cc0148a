//! Local and bounded: what a storage node agrees to run (Enhancing Computation Pushdown
//! section 4.1, design 5.2).
//!
//! *Local*: the fragment reads one object and talks to nobody. *Bounded*: its work and memory
//! are linear in the bytes read. Filter, projection, partial aggregation, top-K with a bounded K
//! and limit are both; everything else is refused by name before any data is touched.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::{FragmentError, FragmentInputExec};

/// Bounds on one fragment. A compute node stops absorbing operators at them; a storage node
/// refuses what passes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest K of a top-K; the heap holds K rows.
    pub top_k_max: usize,
    /// Operators above the input.
    pub operators_max: usize,
    /// Nesting of one expression, from its root to its deepest leaf.
    pub expression_depth_max: usize,
    /// Encoded bytes of a fragment.
    pub encoded_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            top_k_max: 1_000_000,
            operators_max: 32,
            // The protobuf decoder stops at 100 nested messages and an expression costs two a level.
            expression_depth_max: 32,
            encoded_bytes_max: 4 << 20,
        }
    }
}

/// Checks a whole fragment, from its root down to its input.
///
/// # Errors
/// [`FragmentError::Refused`] with the operator's name and the reason.
pub fn check_plan(root: &Arc<dyn ExecutionPlan>, limits: &Limits) -> Result<(), FragmentError> {
    let mut node = root;
    for _ in 0..=limits.operators_max {
        if node.downcast_ref::<FragmentInputExec>().is_some() {
            return Ok(());
        }
        check_operator(node.as_ref(), limits)?;
        match node.children().as_slice() {
            [child] => node = *child,
            children => {
                return Err(refused(node.as_ref(), format!("it has {} inputs, a fragment is a chain", children.len())));
            }
        }
    }
    Err(refused(node.as_ref(), format!("the fragment has more than {} operators", limits.operators_max)))
}

/// Checks one operator, leaving its input aside.
///
/// # Errors
/// [`FragmentError::Refused`] with the operator's name and the reason.
pub fn check_operator(node: &dyn ExecutionPlan, limits: &Limits) -> Result<(), FragmentError> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        if !matches!(aggregate.mode(), AggregateMode::Partial) {
            return Err(refused(node, format!("aggregation in mode {:?} needs all partitions", aggregate.mode())));
        }
        if aggregate.aggr_expr().iter().any(|call| !call.order_bys().is_empty()) {
            return Err(refused(node, "an aggregate with ORDER BY sorts what it reads".into()));
        }
    } else if let Some(sort) = node.downcast_ref::<SortExec>() {
        match sort.fetch() {
            Some(k) if k <= limits.top_k_max => {}
            Some(k) => return Err(refused(node, format!("a top-K of {k} passes the limit of {}", limits.top_k_max))),
            None => return Err(refused(node, "a sort without a limit is not bounded".into())),
        }
    } else if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        if limit.skip() != 0 {
            return Err(refused(node, "an OFFSET counts rows of all partitions".into()));
        }
    } else if node.downcast_ref::<FilterExec>().is_none()
        && node.downcast_ref::<ProjectionExec>().is_none()
        && node.downcast_ref::<LocalLimitExec>().is_none()
    {
        return Err(refused(
            node,
            "only filter, projection, partial aggregation, top-K and limit run at storage".into(),
        ));
    }

    let mut problem = None;
    node.apply_expressions(&mut |expression| {
        problem = expression_problem(expression, limits);
        Ok(if problem.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match problem {
        Some(reason) => Err(refused(node, reason)),
        None => Ok(()),
    }
}

/// Why an expression may not run at storage; `None` if it may.
fn expression_problem(expression: &Arc<dyn PhysicalExpr>, limits: &Limits) -> Option<String> {
    if depth(expression, limits.expression_depth_max) > limits.expression_depth_max {
        return Some(format!("an expression is nested deeper than {} levels", limits.expression_depth_max));
    }
    let mut problem = None;
    let walked = expression.apply(|node| {
        if let Some(function) = node.downcast_ref::<ScalarFunctionExpr>()
            && function.fun().signature().volatility == Volatility::Volatile
        {
            problem = Some(format!("function {} is volatile", function.name()));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.err().map(|error| error.to_string()).or(problem)
}

/// Levels of `expression`, counted no further than one past `limit`.
fn depth(expression: &Arc<dyn PhysicalExpr>, limit: usize) -> usize {
    let below = if limit == 0 {
        0
    } else {
        expression.children().into_iter().map(|child| depth(child, limit - 1)).max().unwrap_or(0)
    };
    below + 1
}

fn refused(node: &dyn ExecutionPlan, reason: String) -> FragmentError {
    FragmentError::Refused { operator: node.name().to_owned(), reason }
}
