//! Exact averages of decimals.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Projection, Window, WindowFunctionDefinition, cast,
};
use datafusion::optimizer::AnalyzerRule;

/// Rule for plain DataFusion, the reference that benchmarks compare with; runs before type coercion.
#[derive(Debug)]
pub struct Averages {
    sum: Arc<AggregateUDF>,
}

impl Averages {
    /// Computes averages with the `sum` of the context.
    pub fn new(sum: Arc<AggregateUDF>) -> Self {
        Self { sum }
    }
}

impl AnalyzerRule for Averages {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| with_quotients(node.recompute_schema()?, &self.sum)).data()
    }

    fn name(&self) -> &str {
        "averages"
    }
}

/// Replaces averages of decimals by the quotient, in doubles, of `sum` and count, which are exact. DataFusion's
/// averages have four more digits than the values, and truncate the rest.
///
/// # Errors
/// If the operator rejects its new functions.
pub(super) fn with_quotients(node: LogicalPlan, sum: &Arc<AggregateUDF>) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Aggregate(aggregate) => {
            let Some(parts) = parts(&aggregate.aggr_expr, aggregate.input.schema(), sum) else {
                return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
            };
            let (input, keys) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
            let summed = Aggregate::try_new(input, keys, parts.functions.clone())?;
            quotients(LogicalPlan::Aggregate(summed), &aggregate.schema, parts)
        }
        LogicalPlan::Window(window) => {
            let Some(parts) = parts(&window.window_expr, window.input.schema(), sum) else {
                return Ok(Transformed::no(LogicalPlan::Window(window)));
            };
            let summed = Window::try_new(parts.functions.clone(), Arc::clone(&window.input))?;
            quotients(LogicalPlan::Window(summed), &window.schema, parts)
        }
        node => Ok(Transformed::no(node)),
    }
}

/// Functions computed in place of an operator's functions.
struct Parts {
    functions: Vec<Expr>,
    /// For each function of the operator, the positions of its parts: one, or a sum and a count.
    places: Vec<(usize, Option<usize>)>,
}

/// The parts of the functions; `None` if none is an average of decimals.
fn parts(functions: &[Expr], schema: &DFSchema, sum: &Arc<AggregateUDF>) -> Option<Parts> {
    let mut parts = Parts { functions: vec![], places: vec![] };
    let mut has_averages = false;
    for function in functions {
        let place = match sum_and_count(function, schema, sum) {
            Some([sum, count]) => {
                has_averages = true;
                (parts.place(sum), Some(parts.place(count)))
            }
            None => (parts.place(function.clone()), None),
        };
        parts.places.push(place);
    }
    has_averages.then_some(parts)
}

impl Parts {
    /// The position of a function, which is computed once for all its uses.
    fn place(&mut self, function: Expr) -> usize {
        self.functions.iter().position(|other| *other == function).unwrap_or_else(|| {
            self.functions.push(function);
            self.functions.len() - 1
        })
    }
}

/// Sum and count, over the same rows, for an average of decimals.
fn sum_and_count(function: &Expr, schema: &DFSchema, sum: &Arc<AggregateUDF>) -> Option<[Expr; 2]> {
    let is_average = |name: &str, args: &[Expr]| match args {
        [value] => name == "avg" && value.get_type(schema).is_ok_and(|of| of.is_decimal()),
        _ => false,
    };
    match function.clone().unalias() {
        Expr::AggregateFunction(average) if is_average(average.func.name(), &average.params.args) => {
            let of = |func: Arc<AggregateUDF>| {
                Expr::AggregateFunction(AggregateFunction { func, params: average.params.clone() })
            };
            Some([of(Arc::clone(sum)), of(count_udaf())])
        }
        Expr::WindowFunction(average) if is_average(average.fun.name(), &average.params.args) => {
            let of = |function: Arc<AggregateUDF>| {
                let fun = WindowFunctionDefinition::AggregateUDF(function);
                Expr::from(WindowFunction { fun, params: average.params.clone() })
            };
            Some([of(Arc::clone(sum)), of(count_udaf())])
        }
        _ => None,
    }
}

/// Restores the columns that the operator had before its averages were split.
fn quotients(node: LogicalPlan, schema: &DFSchema, parts: Parts) -> Result<Transformed<LogicalPlan>> {
    let kept = schema.fields().len() - parts.places.len();
    let computed = node.schema().columns();
    let column = |position: usize| computed.get(position).cloned().map(Expr::Column).unwrap_or_default();
    // Omits the internal column of grouping sets, which `grouping` refers to and which is not resolved yet.
    let named = schema.iter().enumerate().filter(|(_, (_, field))| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = named.map(|(position, (qualifier, field))| {
        let place = position.checked_sub(kept).and_then(|function| parts.places.get(function));
        match place {
            None => column(position),
            Some((function, None)) => column(kept + function),
            Some((sum, Some(count))) => {
                let double = |place: &usize| cast(column(kept + place), DataType::Float64);
                (double(sum) / double(count)).alias_qualified(qualifier.cloned(), field.name())
            }
        }
    });
    let columns = columns.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?)))
}
