//! Canonical form of floats: readers yield it, and computed values are converted to it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, Operator, Projection, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{CANONICAL_FLOAT, FLOAT_KEY, FLOAT_OF_KEY, float_functions};

use super::expressions::{columns_of, map_named};

/// Wraps every computed float in `canonical_float` where anything but arithmetic uses it: a comparison, a function, an
/// aggregate, or the consumer of the operator's rows. `min` and `max` of floats are computed on their keys.
///
/// Arithmetic uses results of arithmetic directly, as in IEEE 754.
#[derive(Debug)]
pub struct FloatOrder {
    canonical: Arc<ScalarUDF>,
    key: Arc<ScalarUDF>,
    of_key: Arc<ScalarUDF>,
}

impl FloatOrder {
    /// Makes the rule; `None` if a function that it needs does not exist.
    pub fn new() -> Option<Self> {
        let functions = float_functions();
        let function = |name: &str| functions.iter().find(|function| function.name() == name).cloned();
        Some(Self { canonical: function(CANONICAL_FLOAT)?, key: function(FLOAT_KEY)?, of_key: function(FLOAT_OF_KEY)? })
    }
}

impl AnalyzerRule for FloatOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| self.node(node)).data()
    }

    fn name(&self) -> &str {
        "float_order"
    }
}

impl FloatOrder {
    fn node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = columns_of(&node);
        let node = map_named(node, |expression| self.settled(expression, &schema))?;
        let changed = node.transformed;
        let node = if changed { node.data.recompute_schema()? } else { node.data };
        match node {
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, changed),
            LogicalPlan::Window(window) => {
                let computed = window.input.schema().fields().len();
                let of = |position: usize| {
                    let function = window.window_expr.get(position.checked_sub(computed)?)?;
                    match function.clone().unalias() {
                        Expr::WindowFunction(function) => Some(function.fun.name().to_owned()),
                        _ => None,
                    }
                };
                let kept: Vec<bool> = (0..window.schema.fields().len())
                    .map(|position| of(position).is_none_or(|name| yields_an_argument(&name)))
                    .collect();
                self.with_results(LogicalPlan::Window(window), changed, |position, _| {
                    let kept = kept.get(position).copied().unwrap_or(true);
                    (!kept).then_some(&self.canonical)
                })
            }
            node => Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) }),
        }
    }

    /// An aggregate with results in canonical form.
    fn aggregate(&self, mut aggregate: Aggregate, changed: bool) -> Result<Transformed<LogicalPlan>> {
        let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let input = Arc::clone(aggregate.input.schema());
        let mut results: Vec<Option<&Arc<ScalarUDF>>> = vec![None; groups];
        let mut keyed = false;
        for expression in &mut aggregate.aggr_expr {
            let name = NamePreserver::new_for_projection().save(expression);
            let Expr::AggregateFunction(mut function) = expression.clone().unalias() else {
                results.push(None);
                continue;
            };
            let types = function.params.args.iter().filter_map(|argument| argument.get_type(&input).ok());
            let types: Vec<DataType> = types.filter(DataType::is_floating).collect();
            let result = match function.func.name() {
                // Aggregates of other types do not return NaN or -0.0.
                _ if types.is_empty() => None,
                "min" | "max" if !types.contains(&DataType::Float16) => {
                    function.params.args = function.params.args.into_iter().map(|of| call(&self.key, of)).collect();
                    *expression = name.restore(Expr::AggregateFunction(function));
                    keyed = true;
                    Some(&self.of_key)
                }
                name if yields_an_argument(name) => None,
                _ => Some(&self.canonical),
            };
            results.push(result);
        }
        let types: Vec<DataType> = aggregate.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let node = LogicalPlan::Aggregate(aggregate);
        let node = if keyed { node.recompute_schema()? } else { node };
        self.with_results(node, changed || keyed, |position, _| {
            let is_float = types.get(position).is_some_and(DataType::is_floating);
            results.get(position).copied().flatten().filter(|_| is_float)
        })
    }

    /// Applies functions to some columns of `node`, which keep their names.
    fn with_results<'a>(
        &'a self,
        node: LogicalPlan,
        changed: bool,
        function_of: impl Fn(usize, &DataType) -> Option<&'a Arc<ScalarUDF>>,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut applied = false;
        let columns: Vec<Expr> = node
            .schema()
            .iter()
            .enumerate()
            .map(|(position, (qualifier, field))| {
                let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                match function_of(position, field.data_type()) {
                    Some(function) if function.name() != CANONICAL_FLOAT || field.data_type().is_floating() => {
                        applied = true;
                        call(function, column).alias_qualified(qualifier.cloned(), field.name())
                    }
                    _ => column,
                }
            })
            .collect();
        if !applied {
            return Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) });
        }
        // A builder would reject equal names, as of a column and its cast in GROUP BY.
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?)))
    }

    /// The expression with all floats in canonical form, including its value.
    fn settled(&self, expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let inside = expression.transform_up(|expression| match expression {
            Expr::Literal(value, metadata) => Ok(match canonical_literal(&value) {
                Some(canonical) => Transformed::yes(Expr::Literal(canonical, metadata)),
                None => Transformed::no(Expr::Literal(value, metadata)),
            }),
            // Grouping sets name the columns of the operator.
            Expr::GroupingSet(_) => Ok(Transformed::no(expression)),
            _ if is_arithmetic(&expression) => Ok(Transformed::no(expression)),
            _ => expression.map_children(|child| self.wrapped(child, schema)),
        })?;
        inside.transform_data(|expression| self.wrapped(expression, schema))
    }

    fn wrapped(&self, expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if !computes(&expression) || !expression.get_type(schema).is_ok_and(|data_type| data_type.is_floating()) {
            return Ok(Transformed::no(expression));
        }
        if let Expr::Cast(cast) = &expression
            && let (Ok(from), Ok(to)) = (cast.expr.get_type(schema), expression.get_type(schema))
            && (from.is_integer() || from.is_decimal() || (from, to) == (DataType::Float32, DataType::Float64))
        {
            return Ok(Transformed::no(expression));
        }
        Ok(Transformed::yes(call(&self.canonical, expression)))
    }
}

fn call(function: &Arc<ScalarUDF>, argument: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![argument]))
}

/// A literal in canonical form; `None` if it is already.
fn canonical_literal(value: &ScalarValue) -> Option<ScalarValue> {
    // Adding 0.0 turns -0.0 into 0.0.
    match value {
        ScalarValue::Float64(Some(value)) if value.is_nan() => Some(ScalarValue::from(f64::NAN)),
        ScalarValue::Float64(Some(value)) if *value == 0.0 => Some(ScalarValue::from(value + 0.0)),
        ScalarValue::Float32(Some(value)) if value.is_nan() => Some(ScalarValue::from(f32::NAN)),
        ScalarValue::Float32(Some(value)) if *value == 0.0 => Some(ScalarValue::from(value + 0.0)),
        _ => None,
    }
}

fn is_arithmetic(expression: &Expr) -> bool {
    match expression {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
        ),
        _ => false,
    }
}

/// Whether the value may not be canonical although the inputs are.
fn computes(expression: &Expr) -> bool {
    match expression {
        Expr::Cast(_) | Expr::TryCast(_) | Expr::Placeholder(_) | Expr::HigherOrderFunction(_) => true,
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            name != CANONICAL_FLOAT && name != FLOAT_OF_KEY && !yields_an_argument(name)
        }
        _ => is_arithmetic(expression),
    }
}

/// Whether the function of this name returns one of its arguments.
fn yields_an_argument(function: &str) -> bool {
    matches!(
        function,
        "min"
            | "max"
            | "first_value"
            | "last_value"
            | "nth_value"
            | "lag"
            | "lead"
            | "any_value"
            | "abs"
            | "coalesce"
            | "nullif"
            | "nvl"
            | "nvl2"
            | "greatest"
            | "least"
            | "get_field"
            | "array_element"
    )
}
