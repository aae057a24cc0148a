//! Decoded plans.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Volatility;
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::Limits;
use crate::balance::balanced_depth;
use crate::{FragmentError, FragmentInputExec, OperatorKind};

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
        check_aggregate(aggregate).map_err(|error| refused(node, error.strip_backtrace()))?;
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
    } else if OperatorKind::of(node).is_none() {
        return Err(refused(
            node,
            "only filter, projection, partial aggregation, top-K and limit run at storage".into(),
        ));
    }

    let input = node.children().first().map_or_else(|| node.schema(), |input| input.schema());
    let mut problem = None;
    node.apply_expressions(&mut |expression| {
        problem = expression_problem(expression, &input, limits);
        Ok(if problem.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match problem {
        Some(reason) => Err(refused(node, reason)),
        None => Ok(()),
    }
}

/// Why an expression over `input` may not run at storage; `None` if it may.
fn expression_problem(expression: &Arc<dyn PhysicalExpr>, input: &Schema, limits: &Limits) -> Option<String> {
    if balanced_depth(expression, limits.expression_depth_max) > limits.expression_depth_max {
        return Some(format!("an expression is nested deeper than {} levels", limits.expression_depth_max));
    }
    let mut problem = None;
    let walked = expression.apply(|node| {
        if let Some(function) = node.downcast_ref::<ScalarFunctionExpr>() {
            if function.fun().signature().volatility == Volatility::Volatile {
                problem = Some(format!("function {} is volatile", function.name()));
                return Ok(TreeNodeRecursion::Stop);
            }
            check_call(function, input)?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.err().map(|error| error.strip_backtrace()).or(problem)
}

/// Whether a function gets and gives the types that its signature says. A function takes its caller's
/// word for both, and panics where that is wrong.
fn check_call(call: &ScalarFunctionExpr, input: &Schema) -> Result<()> {
    let arguments: Vec<FieldRef> =
        call.args().iter().map(|argument| argument.return_field(input)).collect::<Result<_>>()?;
    check_arguments(&arguments, call.fun())?;
    let own = ScalarFunctionExpr::try_new(
        Arc::new(call.fun().clone()),
        call.args().to_vec(),
        input,
        Arc::new(call.config_options().clone()),
    )?;
    if own.return_type() == call.return_type() {
        return Ok(());
    }
    plan_err!("function {} yields {}, not {}", call.name(), own.return_type(), call.return_type())
}

/// Whether the accumulators of an aggregate get the types that they were made for.
fn check_aggregate(aggregate: &AggregateExec) -> Result<()> {
    let (expected, input) = (aggregate.input_schema(), aggregate.input().schema());
    let types = |schema: &Schema| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    if types(&expected) != types(&input) {
        return plan_err!("an aggregate expects other columns than its input has");
    }
    for call in aggregate.aggr_expr() {
        let arguments: Vec<FieldRef> =
            call.expressions().iter().map(|argument| argument.return_field(&input)).collect::<Result<_>>()?;
        check_arguments(&arguments, call.fun())?;
    }
    Ok(())
}

/// Whether no argument would have to be cast.
fn check_arguments<F: UDFCoercionExt>(arguments: &[FieldRef], function: &F) -> Result<()> {
    let wanted = fields_with_udf(arguments, function)?;
    for (argument, wanted) in arguments.iter().zip(&wanted) {
        if argument.data_type() != wanted.data_type() {
            return plan_err!(
                "function {} takes {}, not {}",
                function.name(),
                wanted.data_type(),
                argument.data_type()
            );
        }
    }
    Ok(())
}

fn refused(node: &dyn ExecutionPlan, reason: String) -> FragmentError {
    FragmentError::Refused { operator: node.name().to_owned(), reason }
}
