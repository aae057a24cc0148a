//! The rule that lets comparisons see what a cast made.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use thermocline_catalog::narrows;
use thermocline_dialect::rules::{compares, with_expressions};
use thermocline_pushdown::as_computed;

/// Puts [`as_computed`] around casts that lose something, where they are compared.
///
/// DataFusion compares what was cast with the literal instead, which it brings into that type. That is
/// the same only if each value has a result of its own, in the same order: not where a cast rounds, cuts
/// to a coarser unit, or makes NULL of what does not fit.
#[derive(Debug)]
pub(crate) struct NarrowingCasts;

/// `side` of a comparison with its narrowing cast kept; `None` if it has none. A cast that coercion
/// put around it is unwrapped first, so that is looked through.
fn kept(side: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (of, to) = match side {
        Expr::Cast(cast) => (cast.expr.as_ref(), cast.field.data_type()),
        Expr::TryCast(cast) => (cast.expr.as_ref(), cast.field.data_type()),
        _ => return None,
    };
    if narrows(&of.get_type(schema).ok()?, to) {
        return Some(Expr::ScalarFunction(ScalarFunction::new_udf(as_computed(), vec![side.clone()])));
    }
    let of = Box::new(kept(of, schema)?);
    Some(match side {
        Expr::TryCast(cast) => Expr::TryCast(TryCast { expr: of, ..cast.clone() }),
        Expr::Cast(cast) => Expr::Cast(Cast { expr: of, ..cast.clone() }),
        _ => return None,
    })
}

fn compared(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            let sides = (kept(left, schema), kept(right, schema));
            matches!(sides, (Some(_), _) | (_, Some(_))).then(|| {
                let left = sides.0.map_or_else(|| left.clone(), Box::new);
                let right = sides.1.map_or_else(|| right.clone(), Box::new);
                Expr::BinaryExpr(BinaryExpr::new(left, *op, right))
            })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let expr = kept(expr, schema)?;
            Some(Expr::InList(InList::new(Box::new(expr), list.clone(), *negated)))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let expr = kept(expr, schema)?;
            Some(Expr::Between(Between::new(Box::new(expr), *negated, low.clone(), high.clone())))
        }
        _ => None,
    }
}

impl AnalyzerRule for NarrowingCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, compared)
    }

    fn name(&self) -> &str {
        "narrowing_casts"
    }
}
