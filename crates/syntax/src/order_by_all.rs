//! `ORDER BY ALL`, DuckDB's order by all columns from left to right.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};

/// Replaces `ORDER BY ALL` by the positions of the columns, in queries that list their columns.
pub fn order_by_positions(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Positions);
}

struct Positions;

impl VisitorMut for Positions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(OrderBy { kind, .. }) = &mut query.order_by
            && let OrderByKind::All(options) = kind
            && let Some(columns) = columns_of(&query.body)
        {
            let position = |position: usize| OrderByExpr {
                expr: Expr::value(Value::Number(position.to_string(), false)),
                options: *options,
                with_fill: None,
            };
            *kind = OrderByKind::Expressions((1..=columns).map(position).collect());
        }
        ControlFlow::Continue(())
    }
}

/// The number of columns of a query; `None` if it has wildcards.
fn columns_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => columns_of(&query.body),
        SetExpr::SetOperation { left, right, .. } => columns_of(left).or_else(|| columns_of(right)),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}
