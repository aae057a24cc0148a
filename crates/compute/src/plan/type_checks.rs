//! The rule that refuses what DataFusion would bring to one type and SQL does not.

use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{bytes_of_characters, characters_of_bytes, external};
use thermocline_types::{Class, DataType};

use super::expressions::rewrite_expressions;
use super::operators::{Operand, alike, check_comparable, operand, settled};

/// Refuses comparisons of text with what is not text, and functions of text with other arguments: DataFusion would make
/// text of them. Refuses, too, what means something else to DataFusion, as formats of `to_char` in PostgreSQL's letters.
/// LIKE and `overlay` of bytes become those of characters. It comes before types are coerced.
#[derive(Debug)]
pub(crate) struct TypeChecks;

/// Functions whose first argument is text.
const TEXT_FUNCTIONS: &[&str] = &[
    "ascii",
    "btrim",
    "decode",
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
            let sides = [left.as_ref().clone(), right.as_ref().clone()];
            let [left, right] = alike(sides, schema)?.map(Box::new);
            return Ok(Some(Expr::BinaryExpr(BinaryExpr::new(left, *op, right))));
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
        Expr::Like(Like { negated, expr, pattern, escape_char, case_insensitive }) => {
            let sides = [expr.as_ref(), pattern.as_ref()].map(|side| operand(side, schema));
            let is_bytes = |side: &Operand| matches!(side, Operand::Of(DataType::Bytea));
            if sides.iter().any(is_bytes) {
                let is_other = |side: &Operand| !is_bytes(side) && !matches!(side, Operand::Unknown);
                if *case_insensitive || sides.iter().any(is_other) {
                    let operator = if *case_insensitive { "ILIKE" } else { "LIKE" };
                    let message = format!("operator does not exist: {expr} {operator} {pattern}");
                    return Err(external(Class::UndefinedFunction.error(message)));
                }
                let [expr, pattern] = [expr, pattern].map(|side| characters(side, schema));
                return Ok(Some(Expr::Like(Like::new(*negated, expr?.into(), pattern?.into(), *escape_char, false))));
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
        "encode" | "sha224" | "sha256" | "sha384" | "sha512" => {
            match args.first().map(|first| operand(first, schema)) {
                Some(Operand::Of(of)) if of.is_text() => Err(undefined(func.name(), &of.to_string())),
                // With the padding that PostgreSQL writes.
                _ if func.name() == "encode" && text(1) == Some("base64") => {
                    let args = args.iter().take(1).cloned().chain([lit("base64pad")]).collect();
                    Ok(Some(call(func, args)))
                }
                _ => Ok(None),
            }
        }
        "coalesce" => check_alike(args, schema).map(|()| None),
        "overlay"
            if args.first().is_some_and(|first| matches!(operand(first, schema), Operand::Of(DataType::Bytea))) =>
        {
            let args = args.iter().map(|argument| match operand(argument, schema) {
                Operand::Of(DataType::Bytea) | Operand::Unknown => characters(argument, schema),
                _ => Ok(argument.clone()),
            });
            Ok(Some(bytes_of_characters(call(func, args.collect::<Result<_>>()?))))
        }
        name if TEXT_FUNCTIONS.contains(&name) => {
            let Some(first) = args.first() else { return Ok(None) };
            let refused = match (operand(first, schema), first.get_type(schema)) {
                (Operand::Of(of), _) if !of.is_text() => of.to_string(),
                (Operand::Other, Ok(of)) if of.is_numeric() => of.to_string(),
                // DataFusion's is a BIGINT.
                _ if name == "regexp_count" => return Ok(Some(cast(call(func, args.to_vec()), ArrowType::Int32))),
                _ => return Ok(None),
            };
            Err(undefined(name, &refused))
        }
        _ => Ok(None),
    }
}

/// An error unless the arguments of `coalesce` are of types that SQL brings to one.
fn check_alike(args: &[Expr], schema: &DFSchema) -> Result<()> {
    let mut types = args.iter().filter_map(|argument| match operand(argument, schema) {
        Operand::Of(of) => Some(of),
        Operand::Unknown | Operand::Other => None,
    });
    let Some(first) = types.next() else { return Ok(()) };
    match types.find(|of| !of.compares_to(first)) {
        Some(other) => {
            let message = format!("COALESCE types {first} and {other} cannot be matched");
            Err(external(Class::TypeMismatch.error(message)))
        }
        None => Ok(()),
    }
}

/// Bytes, which a literal of unknown type stands for, as text of a character for each.
fn characters(of: &Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(match operand(of, schema) {
        Operand::Unknown => characters_of_bytes(settled(of, None, DataType::Bytea)?),
        _ => characters_of_bytes(of.clone()),
    })
}

fn call(func: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args))
}

fn undefined(function: &str, argument: &str) -> DataFusionError {
    external(Class::UndefinedFunction.error(format_args!("function {function}({argument}) does not exist")))
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(external(Class::Unsupported.error(format_args!("{what} is not supported"))))
}
