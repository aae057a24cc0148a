//! Questions that are asked of syntax trees in many places.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, visit_expressions};

/// Whether an expression anywhere in a part of a statement, subqueries included, is one that `is` looks for.
pub fn any_expression(of: &impl Visit, is: impl Fn(&Expr) -> bool) -> bool {
    let found = visit_expressions(of, |part| match is(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}
