//! Names of tables and views that a query reads.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, Visit, Visitor};
use thermocline_syntax::folded;

/// Names of the tables and views that a query and its subqueries read, except names that WITH introduces. Takes time
/// linear in the size of the query.
pub fn tables_of(query: &Query) -> Vec<ObjectName> {
    let mut tables = Tables { scopes: vec![], found: vec![] };
    let _: ControlFlow<()> = query.visit(&mut tables);
    tables.found
}

struct Tables {
    /// Scopes of the visited query and the queries around it.
    scopes: Vec<Scope>,
    found: Vec<ObjectName>,
}

/// Names that the WITH of a query introduces.
struct Scope {
    /// Names in order, with their queries, which are compared by address.
    names: Vec<(String, *const Query)>,
    is_recursive: bool,
    /// Number of leading names that are visible at the current position.
    visible: usize,
    /// Number of names whose queries have been visited.
    visited: usize,
}

impl Scope {
    fn of(query: &Query) -> Self {
        let with = query.with.as_ref();
        let ctes = with.into_iter().flat_map(|with| &with.cte_tables);
        let names = ctes.map(|cte| (folded(&cte.alias.name), std::ptr::from_ref::<Query>(&cte.query))).collect();
        Self { names, is_recursive: with.is_some_and(|with| with.recursive), visible: 0, visited: 0 }
    }

    fn is_next(&self, query: &Query) -> bool {
        self.names.get(self.visited).is_some_and(|(_, next)| std::ptr::eq(*next, query))
    }
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(scope) = self.scopes.last_mut().filter(|scope| scope.is_next(query)) {
            scope.visible = scope.visited + usize::from(scope.is_recursive);
        }
        self.scopes.push(Scope::of(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        if let Some(scope) = self.scopes.last_mut().filter(|scope| scope.is_next(query)) {
            scope.visited += 1;
            scope.visible = scope.visited;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match relation.0.as_slice() {
            [name] => name.as_ident().map(folded),
            _ => None,
        };
        let is_named =
            |scope: &Scope| scope.names.iter().take(scope.visible).any(|(known, _)| Some(known) == name.as_ref());
        if !self.scopes.iter().any(is_named) {
            self.found.push(relation.clone());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement as Ast;

    use super::super::statement::Statement;
    use super::*;

    fn tables(sql: &str) -> String {
        let statement = Statement::parse(sql).unwrap().remove(0);
        let Some(Ast::Query(query)) = statement.ast() else { panic!("{sql}") };
        tables_of(query).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_of_with_are_no_tables_where_they_can_be_read() {
        for (sql, expected) in [
            ("SELECT 1", ""),
            ("SELECT * FROM a, public.b JOIN system.c ON true WHERE EXISTS (SELECT 1 FROM d)", "a public.b system.c d"),
            ("WITH a AS (SELECT * FROM b) SELECT * FROM a, A, \"A\"", "b \"A\""),
            ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b", "b"),
            ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
            ("WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT * FROM a", ""),
            ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) AS q, a", "a"),
            ("WITH a AS (WITH b AS (SELECT * FROM c) SELECT * FROM b) SELECT * FROM a, b", "c b"),
            ("SELECT * FROM x UNION SELECT * FROM y", "x y"),
        ] {
            assert_eq!(tables(sql), expected, "{sql}");
        }
    }

    #[test]
    fn nested_with_takes_linear_time() {
        let nested =
            (0..40).fold("SELECT 1".to_owned(), |below, n| format!("WITH c{n} AS ({below}) SELECT * FROM c{n}"));
        assert_eq!(tables(&nested), "");
    }
}
