//! The rule that refuses what DataFusion would bring to one type and SQL does not.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::external;
use thermocline_types::{Class, DataType};

use super::expressions::rewrite_expressions;
use super::operators::{Operand, check_comparable, operand};

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
            check_comparable(left, right, op, schema)?;
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            check_comparable(expr, low, ">=", schema)?;
            check_comparable(expr, high, "<=", schema)?;
        }
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().try_for_each(|item| check_comparable(expr, item, "=", schema))?;
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, .. }) => {
            when_then_expr.iter().try_for_each(|(when, _)| check_comparable(base, when, "=", schema))?;
        }
        Expr::Like(Like { expr, pattern, .. }) => {
            for side in [expr, pattern] {
                if let Operand::Of(of @ DataType::Bytea) = operand(side, schema) {
                    return unsupported(&format!("LIKE of {of}"));
                }
            }
        }
        Expr::SimilarTo(_) => return unsupported("SIMILAR TO, in place of ~ with a regular expression,"),
        Expr::ScalarFunction(ScalarFunction { func, args }) => return function(func, args, schema),
        _ => {}
    }
    Ok(None)
}

fn function(func: &Arc<ScalarUDF>, args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let text = |position: usize| match args.get(position) {
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) => Some(text.as_str()),
        _ => None,
    };
    match func.name() {
        "to_char" if text(1).is_some_and(|format| !format.contains('%')) => {
            unsupported("to_char with a format in letters, in place of strftime's such as '%Y-%m-%d',")
        }
        // With the padding that PostgreSQL writes.
        "encode" if text(1) == Some("base64") => {
            let args = args.iter().take(1).cloned().chain([lit("base64pad")]).collect();
            Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args))))
        }
        name if TEXT_FUNCTIONS.contains(&name) => {
            let Some(first) = args.first() else { return Ok(None) };
            let refused = match (operand(first, schema), first.get_type(schema)) {
                (Operand::Of(of), _) if !of.is_text() => of.to_string(),
                (Operand::Other, Ok(of)) if of.is_numeric() => of.to_string(),
                _ => return Ok(None),
            };
            Err(external(Class::UndefinedFunction.error(format_args!("function {name}({refused}) does not exist"))))
        }
        _ => Ok(None),
    }
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(external(Class::Unsupported.error(format_args!("{what} is not supported"))))
}
