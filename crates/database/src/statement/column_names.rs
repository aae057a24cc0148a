//! PostgreSQL's default column names for references.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::sql::parser::{CopyToSource, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    CreateView, Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement as Ast,
    TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions, visit_expressions,
};
use thermocline_syntax::folded;
use thermocline_transactions::sql::output_name;
use thermocline_types::Class;

use super::headings::{is_many, select};
use super::sort_keys::separate_sort_keys;
use crate::bridge::external;

/// Gives columns without an alias PostgreSQL's names where this statement, or a later one, can refer to them. The
/// analytic engine names them after their expressions.
///
/// ```text
/// SELECT count FROM (SELECT count(*) FROM t) q     derived tables, WITH, views, files of COPY: all columns
/// SELECT count(*) FROM t GROUP BY a ORDER BY count   ORDER BY: those that it names
/// ```
///
/// Columns with equal names become `count:1` and `count:2`; neither is `count`, which would be ambiguous.
pub fn name_columns(statement: &mut Parsed) {
    match statement {
        Parsed::Explain(explain) => name_columns(&mut explain.statement),
        Parsed::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                name_all(&mut query.body, Naming::All);
                let _: ControlFlow<()> = query.visit(&mut Names);
            }
        }
        Parsed::Statement(ast) => {
            if let Ast::CreateView(view) = ast.as_mut()
                && view.columns.is_empty()
            {
                name_all(&mut view.query.body, Naming::View);
            }
            let _: ControlFlow<()> = ast.visit(&mut Names);
        }
        _ => {}
    }
}

/// Checks that the columns of a view have distinct names.
///
/// # Errors
/// 42701 if two are equal.
pub fn check_view(view: &CreateView) -> Result<()> {
    let items = select(&view.query).map(|select| select.projection.as_slice()).unwrap_or_default();
    let mut seen = HashSet::new();
    match items.iter().filter_map(name).find(|name| view.columns.is_empty() && !seen.insert(name.clone())) {
        Some(name) => {
            Err(external(Class::DuplicateColumn.error(format_args!("column \"{name}\" specified more than once"))))
        }
        None => Ok(()),
    }
}

/// Columns to name.
#[derive(Clone, Copy)]
enum Naming<'a> {
    All,
    /// All, except columns with equal names: see [`check_view`].
    View,
    /// Columns that ORDER BY refers to.
    Ordered(&'a HashSet<String>),
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        select_all(&mut query.body);
        separate_sort_keys(query);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if cte.alias.columns.is_empty() {
                name_all(&mut cte.query.body, Naming::All);
            }
        }
        let ordered = query.order_by.as_ref().map(names_of).unwrap_or_default();
        if !ordered.is_empty()
            && let Some(select) = first_select(&mut query.body)
        {
            name_items(select, Naming::Ordered(&ordered));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = factor
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            name_all(&mut subquery.body, Naming::All);
        }
        ControlFlow::Continue(())
    }
}

/// Turns `FROM t`, which has no columns in DataFusion, into `SELECT * FROM t`.
fn select_all(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        SetExpr::SetOperation { left, right, .. } => {
            select_all(left);
            select_all(right);
        }
        _ => {}
    }
}

/// Keys of ORDER BY that are plain names.
fn names_of(order: &OrderBy) -> HashSet<String> {
    let OrderByKind::Expressions(parts) = &order.kind else { return HashSet::new() };
    let name = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(folded(name)),
        _ => None,
    };
    parts.iter().filter_map(|part| name(&part.expr)).collect()
}

/// The SELECT that determines column names: the first branch of a UNION.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn name_all(body: &mut SetExpr, naming: Naming<'_>) {
    match body {
        SetExpr::Select(select) => name_items(select, naming),
        SetExpr::Query(query) => name_all(&mut query.body, naming),
        SetExpr::SetOperation { left, right, .. } => {
            name_all(left, naming);
            name_all(right, naming);
        }
        _ => {}
    }
}

fn name_items(select: &mut Select, naming: Naming<'_>) {
    let names: Vec<Option<String>> = select.projection.iter().map(name).collect();
    let mut counts = HashMap::<&str, usize>::new();
    for name in names.iter().flatten() {
        *counts.entry(name).or_default() += 1;
    }
    let is_complete = !select.projection.iter().any(is_many);
    let mentioned = mentioned(select);
    for (number, (item, name)) in select.projection.iter_mut().zip(&names).enumerate() {
        let Some(name) = name else { continue };
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else { continue };
        let has_alias = matches!(item, SelectItem::ExprWithAlias { .. });
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_one_of_several = counts.get(name.as_str()).is_some_and(|count| *count > 1);
        let alias = match naming {
            Naming::Ordered(wanted) if is_one_of_several || !wanted.contains(name) => continue,
            // The name of an item beside `*` might be that of one of its columns, which is unlikely for functions.
            _ if !is_complete && !matches!(expr, Expr::Function(_)) => continue,
            _ if is_many(item) || mentioned.contains(name) => continue,
            Naming::All if is_one_of_several && is_complete => format!("{name}:{}", number + 1),
            _ if has_alias || is_column || is_one_of_several => continue,
            _ => name.clone(),
        };
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
    }
}

/// The name of an item of a select list that is a single column.
pub(super) fn name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr).into_string()),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// Names in clauses where SQL resolves them to table columns, but DataFusion to aliases first.
fn mentioned(select: &Select) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut note = |part: &Expr| {
        if let Expr::Identifier(name) = part {
            names.insert(folded(name));
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions(&select.having, &mut note);
    let _ = visit_expressions(&select.qualify, &mut note);
    let _ = visit_expressions(&select.distinct, &mut note);
    names
}

#[cfg(test)]
mod tests {
    use super::super::statement::Statement;
    use super::*;

    #[test]
    fn columns_of_inner_queries_are_called_as_in_postgresql() {
        for (sql, expected) in [
            ("SELECT count FROM (SELECT count(*), max(a) AS m FROM t) q", r#"count(*) AS "count", max(a) AS m"#),
            ("WITH w AS (SELECT a::text, b + 1 FROM t) SELECT a FROM w", r#"a::TEXT AS "a", b + 1 AS "?column?""#),
            ("SELECT * FROM (SELECT 1, 2) q", r#"SELECT 1 AS "?column?:1", 2 AS "?column?:2""#),
            ("SELECT * FROM (SELECT a, t.a, b FROM t) q", r#"SELECT a AS "a:1", t.a AS "a:2", b FROM"#),
            (
                "SELECT * FROM (SELECT *, count(*) OVER (), a::text FROM t) q",
                r#"count(*) OVER () AS "count", a::TEXT FROM"#,
            ),
            ("CREATE VIEW v AS SELECT sum(a) FROM t", r#"sum(a) AS "sum""#),
            ("EXPLAIN SELECT 1 UNION FROM t", "UNION SELECT * FROM t"),
            ("COPY (SELECT sum(a) FROM t) TO 'x.parquet'", r#"sum(a) AS "sum""#),
            ("EXPLAIN SELECT 1 FROM (SELECT sum(a) FROM t) q", r#"sum(a) AS "sum""#),
            ("SELECT count(*) FROM t GROUP BY b ORDER BY count DESC", r#"count(*) AS "count" FROM"#),
            ("SELECT a::text FROM t ORDER BY a", r#"a::TEXT AS "a" FROM"#),
            (
                "SELECT sum(a) FROM t UNION ALL SELECT 1 ORDER BY sum",
                r#"sum(a) AS "sum" FROM t UNION ALL SELECT 1 ORDER"#,
            ),
        ] {
            let statement = Statement::parse(sql).unwrap().remove(0);
            let text = statement.into_analytic().unwrap().unwrap().to_string();
            assert!(text.contains(expected), "{sql}: {text}");
        }
    }

    #[test]
    fn a_view_has_columns_of_different_names() {
        let check = |sql: &str| match Statement::parse(sql).unwrap()[0].ast() {
            Some(Ast::CreateView(view)) => check_view(view),
            other => panic!("{other:?}"),
        };
        for sql in ["CREATE VIEW v AS SELECT 1 AS a, 2 AS a", "CREATE VIEW v AS SELECT count(*), count(a) FROM t"] {
            let error = check(sql).unwrap_err();
            assert_eq!(crate::Error::from(error).sqlstate(), "42701");
        }
        for sql in ["CREATE VIEW v (a, b) AS SELECT 1 AS a, 2 AS a", "CREATE VIEW v AS SELECT count(*), a FROM t"] {
            check(sql).unwrap();
        }
    }

    #[test]
    fn what_has_a_name_or_could_mean_another_stays() {
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT count(*), count(a) FROM t ORDER BY count",
            "SELECT * FROM (SELECT sum(a) FROM t GROUP BY sum HAVING sum > 1) AS q",
            "SELECT * FROM (SELECT sum(a) FROM t) AS q (x)",
            "WITH w (x) AS (SELECT sum(a) FROM t) SELECT x FROM w",
            "CREATE VIEW v (x) AS SELECT sum(a) FROM t",
            "SELECT EXISTS (SELECT 1), (SELECT max(a) FROM t)",
            "SELECT * FROM (SELECT a, b AS c FROM t) AS q",
        ] {
            let statement = Statement::parse(sql).unwrap().remove(0);
            assert_eq!(statement.into_analytic().unwrap().unwrap().to_string(), sql);
        }
    }
}
