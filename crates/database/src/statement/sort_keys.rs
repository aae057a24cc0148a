//! ORDER BY keys.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{Expr, Ident, OrderBy, OrderByKind, Query, SelectItem, SetExpr};
use thermocline_dialect::any_expression;
use thermocline_syntax::folded;

use super::column_names::name;
use super::templates::{derived, plain_query};

/// Moves sort keys to a subquery where DataFusion would resolve their names wrongly: in SQL, a plain name in ORDER BY
/// denotes a result column, and a name within an expression a table column. DataFusion takes both for result columns.
///
/// ```text
/// SELECT id, -h AS h FROM z ORDER BY h + 0, id LIMIT 2
///
/// SELECT * EXCLUDE ("order:1")
///   FROM (SELECT id, -h AS h, h + 0 AS "order:1" FROM z) AS sorted ORDER BY "order:1", id LIMIT 2
/// ```
pub fn separate_sort_keys(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let aliases: HashSet<String> = select.projection.iter().filter_map(computed).collect();
    if select.distinct.is_some() || !order.iter().any(|part| is_confused(&part.expr, &aliases)) {
        return;
    }
    let outputs: HashSet<String> = select.projection.iter().filter_map(name).collect();
    let mut keys = vec![];
    for part in order.iter_mut() {
        let is_of_result = match &part.expr {
            Expr::Identifier(name) => outputs.contains(&folded(name)),
            Expr::Value(_) => true,
            _ => false,
        };
        if !is_of_result {
            let key = Ident::with_quote('"', format!("order:{}", keys.len() + 1));
            let expr = std::mem::replace(&mut part.expr, Expr::Identifier(key.clone()));
            select.projection.push(SelectItem::ExprWithAlias { expr, alias: key.clone() });
            keys.push(key.to_string());
        }
    }
    let around = format!("SELECT * EXCLUDE ({}) FROM (SELECT 1) AS sorted", keys.join(", "));
    if let Ok(mut around) = plain_query(&around)
        && let Some(inner) = derived(&mut around)
    {
        std::mem::swap(&mut inner.body, &mut query.body);
        query.body = around.body;
    }
}

/// The alias of an item, unless the item is a column of the same name.
fn computed(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let alias = folded(alias);
    match expr {
        Expr::Identifier(column) if folded(column) == alias => None,
        Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|column| folded(column) == alias) => None,
        _ => Some(alias),
    }
}

/// Whether a sort key is an expression that contains the name of a computed column.
fn is_confused(key: &Expr, computed: &HashSet<String>) -> bool {
    if matches!(key, Expr::Identifier(_)) {
        return false;
    }
    any_expression(key, |part| {
        let column = match part {
            Expr::Identifier(column) => Some(column),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        column.is_some_and(|column| computed.contains(&folded(column)))
    })
}
