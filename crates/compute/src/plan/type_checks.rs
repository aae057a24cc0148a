//! The rule that refuses what DataFusion would bring to one type and SQL does not.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_types::{Class, DataType};

use super::expressions::rewrite_expressions;
use super::operators::{Operand, operand};

/// Refuses comparisons of text with what is not text, and functions of text with other arguments: DataFusion would make
/// text of them. Refuses, too, what means something else to DataFusion: formats of `to_char` in PostgreSQL's letters,
/// and LIKE of bytes. It comes before types are coerced.
#[derive(Debug)]
pub(crate) struct TypeChecks;

/// Functions whose first argument is text.
const TEXT_FUNCTIONS: &[&str] = &[
    "ascii",
    "btrim",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "overlay",
    "regexp_count",
    "regexp_like",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "translate",
    "trim",
    "upper",
];

impl AnalyzerRule for TypeChecks {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| rewrite_expressions(node, checked)).data()
    }

    fn name(&self) -> &str {
        "type_checks"
    }
}

/// What stands in the place of an expression; `None` for itself.
fn checked(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) =>
        {
            comparable(left, right, &op.to_string(), schema)?;
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            comparable(expr, low, ">=", schema)?;
            comparable(expr, high, "<=", schema)?;
        }
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().try_for_each(|item| comparable(expr, item, "=", schema))?;
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, .. }) => {
            when_then_expr.iter().try_for_each(|(when, _)| comparable(base, when, "=", schema))?;
        }
        Expr::Like(Like { expr, pattern, .. }) => {
            for side in [expr, pattern] {
                if let Operand::Of(of @ DataType::Bytea) = operand(side, schema) {
                    return unsupported(&format!("LIKE of {of}"));
                }
            }
        }
        Expr::SimilarTo(_) => return unsupported("SIMILAR TO, in place of ~ with a regular expression,"),
        Expr::ScalarFunction(ScalarFunction { func, args }) => return function(func.name(), func, args, schema),
        _ => {}
    }
    Ok(None)
}

fn function(
    name: &str,
    func: &std::sync::Arc<datafusion::logical_expr::ScalarUDF>,
    args: &[Expr],
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let text = |position: usize| match args.get(position) {
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) => Some(text.as_str()),
        _ => None,
    };
    match name {
        "to_char" if text(1).is_some_and(|format| !format.contains('%')) => {
            unsupported("to_char with a format in letters, in place of strftime's such as '%Y-%m-%d',")
        }
        // With the padding that PostgreSQL writes.
        "encode" if text(1) == Some("base64") => {
            let args = args.iter().take(1).cloned().chain([lit("base64pad")]).collect();
            Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(std::sync::Arc::clone(func), args))))
        }
        name if TEXT_FUNCTIONS.contains(&name) => match args.first().map(|first| (first, operand(first, schema))) {
            Some((_, Operand::Of(of))) if !of.is_text() => {
                let error = Class::UndefinedFunction.error(format_args!("function {name}({of}) does not exist"));
                Err(DataFusionError::External(Box::new(error)))
            }
            Some((first, Operand::Other)) if first.get_type(schema).is_ok_and(|of| of.is_numeric()) => {
                let of = first.get_type(schema).unwrap_or(ArrowType::Null);
                let error = Class::UndefinedFunction.error(format_args!("function {name}({of}) does not exist"));
                Err(DataFusionError::External(Box::new(error)))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn comparable(left: &Expr, right: &Expr, symbol: &str, schema: &DFSchema) -> Result<()> {
    match (operand(left, schema), operand(right, schema)) {
        (Operand::Of(one), Operand::Of(other)) if !one.compares_to(other) => {
            let error = Class::UndefinedFunction.error(format_args!("operator does not exist: {one} {symbol} {other}"));
            Err(DataFusionError::External(Box::new(error)))
        }
        _ => Ok(()),
    }
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(DataFusionError::External(Box::new(Class::Unsupported.error(format_args!("{what} is not supported")))))
}
