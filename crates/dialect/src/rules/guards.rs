//! Evaluation order of AND, OR and CASE.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case, Cast, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::rewrite_expressions;

/// Makes terms that may fail depend on the terms before them, like the row engine and PostgreSQL:
///
/// ```text
///   n <> 0 AND 10 / n > 1         n <> 0 AND CASE (n <> 0) IS FALSE WHEN TRUE THEN FALSE ELSE 10 / n > 1 END
///   n = 0 OR 10 / n > 1           n = 0 OR CASE (n = 0) IS TRUE WHEN TRUE THEN TRUE ELSE 10 / n > 1 END
///   CASE WHEN a THEN b ELSE c     CASE a IS TRUE WHEN TRUE THEN b ELSE c, of truth values
/// ```
///
/// DataFusion evaluates the right side of AND for all rows unless only few need it, and rewrites a CASE of truth values
/// without a base to AND and OR.
#[derive(Debug)]
pub struct Guards;

/// Functions that fail for some arguments, and that users guard.
const FAILING: &[&str] = &[
    "sql_divide",
    "sql_remainder",
    "sql_raise",
    "sql_div",
    "sql_mod",
    "sql_power",
    "sql_sqrt",
    "sql_ln",
    "sql_log",
    "sql_log10",
    "sql_factorial",
    "sql_chr",
    "sql_decode",
];

impl AnalyzerRule for Guards {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            rewrite_expressions(node, |part, schema| {
                Ok(match part {
                    Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                        guarded_terms(part, *op, schema)
                    }
                    Expr::Case(case) => with_bases(case, schema),
                    _ => None,
                })
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "guards"
    }
}

/// Rewrites a chain of AND or OR; `None` if no term behind another may fail.
fn guarded_terms(chain: &Expr, op: Operator, schema: &DFSchema) -> Option<Expr> {
    let mut safe: Vec<Expr> = vec![];
    let mut guarded = vec![];
    let mut is_changed = false;
    for term in split_binary(chain, op) {
        if !may_fail(term, schema) {
            if !term.is_volatile() {
                safe.push(term.clone());
            }
            guarded.push(term.clone());
        } else if safe.is_empty() || is_guarded(term) {
            guarded.push(term.clone());
        } else {
            is_changed = true;
            guarded.push(behind(safe.clone(), op, term.clone())?);
        }
    }
    let whole = if op == Operator::And { conjunction(guarded) } else { disjunction(guarded) };
    whole.filter(|_| is_changed)
}

/// A term that is evaluated only if the terms before it do not decide.
fn behind(safe: Vec<Expr>, op: Operator, term: Expr) -> Option<Expr> {
    let (decided, outcome) = match op {
        Operator::And => (conjunction(safe)?.is_false(), false),
        _ => (disjunction(safe)?.is_true(), true),
    };
    Some(choice(decided, lit(outcome), term))
}

/// `CASE condition WHEN TRUE THEN then ELSE otherwise END`
fn choice(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    let branches = vec![(Box::new(lit(true)), Box::new(then))];
    Expr::Case(Case::new(Some(Box::new(condition)), branches, Some(Box::new(otherwise))))
}

/// Whether a term is what [`behind`] made.
fn is_guarded(term: &Expr) -> bool {
    let Expr::Case(Case { expr: Some(base), .. }) = term else { return false };
    matches!(base.as_ref(), Expr::IsFalse(_) | Expr::IsTrue(_))
}

/// Rewrites a CASE of truth values that may fail to nested CASEs with a base; `None` for others.
fn with_bases(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let Case { expr: None, when_then_expr, else_expr } = case else { return None };
    let results = || when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(else_expr.as_deref());
    let is_truth = results().any(|result| result.get_type(schema).is_ok_and(|of| of == DataType::Boolean));
    let conditions = || when_then_expr.iter().skip(1).map(|(when, _)| when.as_ref());
    if !is_truth || !results().chain(conditions()).any(|part| may_fail(part, schema)) {
        return None;
    }
    let otherwise = else_expr.as_deref().cloned().unwrap_or_else(|| lit(ScalarValue::Boolean(None)));
    Some(when_then_expr.iter().rev().fold(otherwise, |otherwise, (when, then)| {
        choice(when.as_ref().clone().is_true(), then.as_ref().clone(), otherwise)
    }))
}

/// Whether an expression may fail for some values of its columns.
fn may_fail(expression: &Expr, schema: &DFSchema) -> bool {
    let found = expression.exists(|part| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => !is_not_zero(right),
            Expr::Cast(Cast { expr, field }) => {
                expr.any_column_refs()
                    && expr.get_type(schema).is_ok_and(|of| of.is_string())
                    && !field.data_type().is_string()
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => match args.as_slice() {
                [_, divisor] if matches!(func.name(), "sql_divide" | "sql_remainder") => !is_not_zero(divisor),
                _ => FAILING.contains(&func.name()),
            },
            _ => false,
        })
    });
    found.unwrap_or(true)
}

/// Whether a divisor is a literal other than zero and NULL.
fn is_not_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Literal(value, _) => {
            !value.is_null() && ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero != *value)
        }
        _ => false,
    }
}
