//! Searches in syntax trees.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, visit_expressions};

/// Whether any expression in a part of a statement, including subqueries, satisfies `is`.
pub fn any_expression(of: &impl Visit, is: impl Fn(&Expr) -> bool) -> bool {
    let found = visit_expressions(of, |part| match is(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}
