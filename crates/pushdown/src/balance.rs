//! Long chains of AND and OR as balanced trees.
//!
//! A parser makes `a OR b OR c ...` into a tree that leans to the left and is as deep as it has
//! terms. Protobuf, DataFusion's own recursion and a storage node's stack all want it flat. Both
//! operators are associative, also where terms are NULL, so any shape with the same terms in the
//! same order is as good.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

/// Chains of so many terms stay as they are: terms of a short one are evaluated one by one, each
/// over what is left by those before it.
const CHAIN_MAX: usize = 16;
/// Deeper expressions than this are left as they are; they do not travel.
const DEPTH_MAX: usize = 256;

/// The expression with every chain of more than 16 ANDs or ORs as a balanced tree.
///
/// # Errors
/// If an expression cannot be copied.
pub fn balanced(expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(rebuilt(expression, DEPTH_MAX)?.unwrap_or_else(|| Arc::clone(expression)))
}

/// Levels of `expression` once it is balanced, counted no further than one past `limit`.
pub(crate) fn balanced_depth(expression: &Arc<dyn PhysicalExpr>, limit: usize) -> usize {
    if limit == 0 {
        return 1;
    }
    match chain_of(expression) {
        Some((_, terms)) => {
            let own = if terms.len() > CHAIN_MAX { levels(terms.len()) } else { terms.len() - 1 };
            let left = limit.saturating_sub(own);
            own + terms.into_iter().map(|term| balanced_depth(term, left)).max().unwrap_or(0)
        }
        None => 1 + expression.children().into_iter().map(|child| balanced_depth(child, limit - 1)).max().unwrap_or(0),
    }
}

/// Levels of a balanced tree above its terms.
fn levels(terms: usize) -> usize {
    terms.next_power_of_two().trailing_zeros() as usize
}

/// `None` if nothing in it has to change.
fn rebuilt(expression: &Arc<dyn PhysicalExpr>, depth: usize) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(None) };
    if let Some((operator, terms)) = chain_of(expression)
        && terms.len() > CHAIN_MAX
    {
        let terms = terms.into_iter().map(|term| Ok(rebuilt(term, depth)?.unwrap_or_else(|| Arc::clone(term))));
        return Ok(Some(tree(operator, &terms.collect::<Result<Vec<_>>>()?)));
    }
    let children = expression.children();
    let mut changed = false;
    let mut copies = Vec::with_capacity(children.len());
    for child in children {
        let copy = rebuilt(child, depth)?;
        changed |= copy.is_some();
        copies.push(copy.unwrap_or_else(|| Arc::clone(child)));
    }
    if changed { Arc::clone(expression).with_new_children(copies).map(Some) } else { Ok(None) }
}

/// The terms that `expression` joins by AND or by OR, in order; `None` if it joins none.
fn chain_of(expression: &Arc<dyn PhysicalExpr>) -> Option<(Operator, Vec<&Arc<dyn PhysicalExpr>>)> {
    let operator = *expression.downcast_ref::<BinaryExpr>()?.op();
    if !matches!(operator, Operator::And | Operator::Or) {
        return None;
    }
    let mut terms = vec![];
    let mut open = vec![expression];
    while let Some(node) = open.pop() {
        match node.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == operator => open.extend([binary.right(), binary.left()]),
            _ => terms.push(node),
        }
    }
    Some((operator, terms))
}

fn tree(operator: Operator, terms: &[Arc<dyn PhysicalExpr>]) -> Arc<dyn PhysicalExpr> {
    match terms {
        [term] => Arc::clone(term),
        _ => {
            let (left, right) = terms.split_at(terms.len().div_ceil(2));
            Arc::new(BinaryExpr::new(tree(operator, left), operator, tree(operator, right)))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{NotExpr, col, lit};

    use super::*;

    fn term(value: i64) -> Arc<dyn PhysicalExpr> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        Arc::new(BinaryExpr::new(col("a", &schema).unwrap(), Operator::Gt, lit(value)))
    }

    fn chain(operator: Operator, terms: i64) -> Arc<dyn PhysicalExpr> {
        (0..terms)
            .map(term)
            .reduce(|left, right| Arc::new(BinaryExpr::new(left, operator, right)) as Arc<dyn PhysicalExpr>)
            .unwrap()
    }

    fn terms(expression: &Arc<dyn PhysicalExpr>) -> Vec<String> {
        chain_of(expression).unwrap().1.iter().map(|term| term.to_string()).collect()
    }

    fn depth(expression: &Arc<dyn PhysicalExpr>) -> usize {
        1 + expression.children().into_iter().map(depth).max().unwrap_or(0)
    }

    #[test]
    fn long_chains_become_flat_and_keep_their_terms_in_order() {
        for count in [17, 40, 63, 64, 65, 1000] {
            for operator in [Operator::And, Operator::Or] {
                let long = chain(operator, count);
                let flat = balanced(&long).unwrap();
                assert_eq!(terms(&flat), terms(&long));
                assert_eq!(depth(&flat), levels(count as usize) + 2, "{count} terms");
                assert_eq!(balanced_depth(&long, 100), depth(&flat));
                assert_eq!(balanced_depth(&flat, 100), depth(&flat));
            }
        }
    }

    #[test]
    fn chains_within_other_expressions_become_flat_too() {
        let inner: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(chain(Operator::Or, 100)));
        let outer: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(inner, Operator::And, term(7)));
        let flat = balanced(&outer).unwrap();
        assert_eq!(depth(&flat), levels(100) + 4);
        assert_eq!(balanced_depth(&outer, 100), depth(&flat));
    }

    #[test]
    fn short_chains_stay_as_they_are() {
        let short = chain(Operator::And, 16);
        assert!(Arc::ptr_eq(&balanced(&short).unwrap(), &short));
        assert_eq!(balanced_depth(&short, 100), depth(&short));
    }
}
