//! Window order by types without distances in DataFusion.

use arrow::datatypes::{DataType as ArrowType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, Result};
use datafusion::functions::encoding::encode;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{UUID_WIDTH, interval_length, is_jsonb, jsonb_key, sql_cast};

use super::expressions::rewrite_expressions;

/// Orders window rows by the digits of UUIDs, bytes and JSONB keys, and by the lengths of intervals, which have the
/// same order as the values. For the values themselves, type coercion would reject RANGE frames, which are the default.
#[derive(Debug)]
pub struct WindowOrder;

impl AnalyzerRule for WindowOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| rewrite_expressions(node, |part, schema| Ok(ordered(part, schema))))
            .data()
    }

    fn name(&self) -> &str {
        "window_order"
    }
}

fn ordered(part: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::WindowFunction(function) = part else { return None };
    let WindowFunction { fun, params } = function.as_ref();
    let mut params = params.clone();
    let mut is_changed = false;
    for sort in &mut params.order_by {
        if let Some(key) = key(&sort.expr, schema) {
            sort.expr = key;
            is_changed = true;
        }
    }
    is_changed.then(|| Expr::WindowFunction(Box::new(WindowFunction { fun: fun.clone(), params })))
}

fn key(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    let digits = |bytes: Expr| encode().call(vec![bytes, lit("hex")]);
    Some(match of.get_type(schema).ok()? {
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => digits(of.clone()),
        // The text of a UUID consists of its digits.
        ArrowType::FixedSizeBinary(UUID_WIDTH) => sql_cast(of.clone(), &ArrowType::Utf8View).ok()?,
        ArrowType::FixedSizeBinary(_) => digits(cast(of.clone(), ArrowType::Binary)),
        ArrowType::Interval(IntervalUnit::MonthDayNano) => interval_length(of.clone()),
        of_documents if is_jsonb(&of_documents) => digits(jsonb_key(of.clone())),
        _ => return None,
    })
}
