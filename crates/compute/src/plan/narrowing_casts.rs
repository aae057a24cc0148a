//! The rule that lets comparisons see what a cast made.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::as_computed;

use super::expressions::{compares, with_expressions};

/// Puts [`as_computed`] around casts that lose something, where they are compared.
///
/// DataFusion compares what was cast with the literal instead, which it brings into that type. That is
/// the same only if each value has a result of its own, in the same order: not where a cast rounds, cuts
/// to a coarser unit, or makes NULL of what does not fit.
#[derive(Debug)]
pub(crate) struct NarrowingCasts {
    as_computed: Arc<ScalarUDF>,
}

impl NarrowingCasts {
    pub(crate) fn new() -> Self {
        Self { as_computed: as_computed() }
    }

    /// `side` of a comparison with its narrowing cast kept; `None` if it has none. A cast that coercion
    /// put around it is unwrapped first, so that is looked through.
    fn kept(&self, side: &Expr, schema: &DFSchema) -> Option<Expr> {
        let (of, to) = match side {
            Expr::Cast(cast) => (cast.expr.as_ref(), cast.field.data_type()),
            Expr::TryCast(cast) => (cast.expr.as_ref(), cast.field.data_type()),
            _ => return None,
        };
        if narrows(&of.get_type(schema).ok()?, to) {
            let function = Arc::clone(&self.as_computed);
            return Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![side.clone()])));
        }
        let of = Box::new(self.kept(of, schema)?);
        Some(match side {
            Expr::TryCast(cast) => Expr::TryCast(TryCast { expr: of, ..cast.clone() }),
            Expr::Cast(cast) => Expr::Cast(Cast { expr: of, ..cast.clone() }),
            _ => return None,
        })
    }

    fn compared(&self, expression: &Expr, schema: &DFSchema) -> Option<Expr> {
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
                let kept = (self.kept(left, schema), self.kept(right, schema));
                matches!(kept, (Some(_), _) | (_, Some(_))).then(|| {
                    let left = kept.0.map_or_else(|| left.clone(), Box::new);
                    let right = kept.1.map_or_else(|| right.clone(), Box::new);
                    Expr::BinaryExpr(BinaryExpr::new(left, *op, right))
                })
            }
            Expr::InList(InList { expr, list, negated }) => {
                let kept = self.kept(expr, schema)?;
                Some(Expr::InList(InList::new(Box::new(kept), list.clone(), *negated)))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let kept = self.kept(expr, schema)?;
                Some(Expr::Between(Between::new(Box::new(kept), *negated, low.clone(), high.clone())))
            }
            _ => None,
        }
    }
}

impl AnalyzerRule for NarrowingCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        with_expressions(plan, |expression, schema| self.compared(expression, schema))
    }

    fn name(&self) -> &str {
        "narrowing_casts"
    }
}

/// Digits before the point, and after it, of a type's numbers; `None` for other types.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            (i16::from(*precision) - i16::from(*scale), i16::from((*scale).max(0)))
        }
        _ => return None,
    })
}

/// Whether a cast between types whose comparisons DataFusion unwraps loses anything.
fn narrows(from: &DataType, to: &DataType) -> bool {
    if from == to {
        return false;
    }
    if let (true, true) = (from.is_integer(), to.is_integer()) {
        let bytes = |data_type: &DataType| data_type.primitive_width().unwrap_or(0);
        return match (from.is_signed_integer(), to.is_signed_integer()) {
            (true, false) => true,
            (false, true) => bytes(from) >= bytes(to),
            _ => bytes(from) > bytes(to),
        };
    }
    if let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (from, to) {
        return from > to;
    }
    match (digits(from), digits(to)) {
        (Some((whole, fraction)), Some((whole_to, fraction_to))) => whole > whole_to || fraction > fraction_to,
        _ => false,
    }
}
