//! What is asked of syntax trees in many places.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Visit, visit_expressions};
use datafusion::sql::sqlparser::tokenizer::Word;

/// A name as it is looked up.
pub fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// A word of a statement as a name is looked up.
pub fn folded_word(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() }
}

/// Whether an expression anywhere in a part of a statement, subqueries included, is one that `is` looks for.
pub fn any_expression(of: &impl Visit, is: impl Fn(&Expr) -> bool) -> bool {
    let found = visit_expressions(of, |part| match is(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}
