//! Literals of unknown type beside moments, in a session whose time zone is not UTC.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, Cast, InList, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::UTC;

use super::expressions::with_expressions;
use super::temporal_literals::has_nanoseconds;

/// Functions that choose among their arguments, or compare them.
const CHOICES: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Reads a literal of unknown type that is compared with, or chosen among, values of TIMESTAMP WITH TIME ZONE as one in
/// the session's time zone: in BETWEEN, IN, CASE and functions such as `coalesce`. Such values have a zone of their own,
/// which is that of their object, and type coercion would take the literal to be in it.
#[derive(Debug)]
pub struct ZonedLiterals;

impl AnalyzerRule for ZonedLiterals {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match config.execution.time_zone.as_deref() {
            Some(zone) if zone != UTC => with_expressions(plan, |expression, schema| zoned(expression, schema, zone)),
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "zoned_literals"
    }
}

fn zoned(expression: &Expr, schema: &DFSchema, zone: &str) -> Option<Expr> {
    let zoned = |sides: &[&Expr]| alike(sides, schema, zone);
    match expression {
        Expr::Between(Between { expr, low, high, negated }) => {
            let [expr, low, high] = <[Expr; 3]>::try_from(zoned(&[expr, low, high])?).ok()?;
            Some(Expr::Between(Between::new(expr.into(), *negated, low.into(), high.into())))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut sides = zoned(&[expr.as_ref()].into_iter().chain(list).collect::<Vec<_>>())?.into_iter();
            Some(Expr::InList(InList::new(sides.next()?.into(), sides.collect(), *negated)))
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (whens, thens): (Vec<&Expr>, Vec<&Expr>) =
                when_then_expr.iter().map(|(when, then)| (when.as_ref(), then.as_ref())).unzip();
            let bases: Vec<&Expr> = expr.as_deref().into_iter().chain(whens).collect();
            let results: Vec<&Expr> = thens.into_iter().chain(else_expr.as_deref()).collect();
            let (new_bases, new_results) = (expr.as_ref().and_then(|_| zoned(&bases)), zoned(&results));
            if new_bases.is_none() && new_results.is_none() {
                return None;
            }
            let owned = |sides: Vec<&Expr>| sides.into_iter().cloned().collect();
            let mut bases = new_bases.unwrap_or_else(|| owned(bases)).into_iter().map(Box::new);
            let mut results = new_results.unwrap_or_else(|| owned(results)).into_iter().map(Box::new);
            let base = expr.as_ref().and_then(|_| bases.next());
            let whens = bases.zip(results.by_ref().take(when_then_expr.len())).collect();
            Some(Expr::Case(Case::new(base, whens, results.next())))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if CHOICES.contains(&func.name()) => {
            let args = zoned(&args.iter().collect::<Vec<_>>())?;
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args)))
        }
        _ => None,
    }
}

/// The expressions, with the session's zone for literals of unknown type if another one is a moment; `None` if nothing
/// changes.
fn alike(sides: &[&Expr], schema: &DFSchema, zone: &str) -> Option<Vec<Expr>> {
    let is_moment = |side: &&Expr| matches!(side.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
    if !sides.iter().any(is_moment) || !sides.iter().any(|side| text_of(side).is_some()) {
        return None;
    }
    let read = |side: &&Expr| match text_of(side) {
        None => (*side).clone(),
        Some(text) => {
            // Nanoseconds end in 2262; they are for who writes them.
            let unit = if has_nanoseconds(text) { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            let to = Field::new("", DataType::Timestamp(unit, Some(zone.into())), true);
            Expr::Cast(Cast::new_from_field(Box::new((*side).clone()), to.into()))
        }
    };
    Some(sides.iter().map(read).collect())
}

/// The text of a literal of unknown type.
fn text_of(side: &Expr) -> Option<&str> {
    match side {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}
