//! Keys of ORDER BY.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement as Ast, TableFactor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use thermocline_dialect::{any_expression, folded};

use super::column_names::name;

/// Computes the sort keys of a query beside its select list where their names would mean its columns: by itself a name
/// in ORDER BY is that of a column of the result, and in an expression that of a column of a table. To DataFusion it is
/// the result's in both.
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
    let Some((mut around, mut inner)) = template() else { return };
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
            keys.push(ObjectName::from(key));
        }
    }
    if let Some(SelectItem::Wildcard(options)) = around.projection.first_mut() {
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(keys));
    }
    std::mem::swap(&mut inner.body, &mut query.body);
    if let Some(from) = around.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        *subquery = inner;
        *query.body = SetExpr::Select(around);
    }
}

/// The name of a column that is not one of a table with the same name.
fn computed(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let alias = folded(alias);
    match expr {
        Expr::Identifier(column) if folded(column) == alias => None,
        Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|column| folded(column) == alias) => None,
        _ => Some(alias),
    }
}

/// Whether a sort key has a name within it that is a computed column's, too.
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

/// A query around another one.
fn template() -> Option<(Box<Select>, Box<Query>)> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT * FROM (SELECT 1) AS sorted").ok()?.pop()?;
    let Ast::Query(query) = parsed else { return None };
    let SetExpr::Select(select) = *query.body else { return None };
    let inner = match &select.from.first()?.relation {
        TableFactor::Derived { subquery, .. } => subquery.clone(),
        _ => return None,
    };
    Some((select, inner))
}
