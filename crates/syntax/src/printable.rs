//! Trees whose printed text is read as the same tree.
//!
//! sqlparser prints some trees as texts of others: `- -1` as the comment `--1`, and a literal with two quotes or `\'` in
//! it with fewer quotes. Here they get forms whose text is read as the same tree.

use std::ops::ControlFlow;

use sqlparser::ast::{DollarQuotedString, Expr, UnaryOperator, Value, VisitMut, visit_expressions_mut};

/// Replaces the parts of a tree whose printed text would be read as another tree.
pub fn make_printable(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        match expr {
            Expr::Value(value) => {
                if let Value::SingleQuotedString(text) = &mut value.value
                    && (text.contains("''") || text.contains(r"\'"))
                {
                    value.value = dollar_quoted(std::mem::take(text));
                }
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } if of.to_string().starts_with('-') => {
                let inner = std::mem::replace(of, Box::new(Expr::value(Value::Null)));
                **of = Expr::Nested(inner);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

fn dollar_quoted(value: String) -> Value {
    let mut tag = "q".to_owned();
    while value.contains(&format!("${tag}$")) {
        tag.push('q');
    }
    Value::DollarQuotedString(DollarQuotedString { value, tag: Some(tag) })
}
