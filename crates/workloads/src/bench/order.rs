//! The order of rows that a query requires.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, OrderByKind, Statement as SqlStatement, Value};
use thermocline_dialect::parse;

use super::results::Row;

/// The output columns that a query sorts its rows by.
///
/// Rows that are equal in all of them may come in any order. So two results are equal if their runs of such rows are
/// equal, one after the other, each as a multiset.
#[derive(Debug)]
pub(super) struct SortKeys(Vec<usize>);

impl SortKeys {
    /// The keys of the outermost ORDER BY of `sql`, whose output has these `columns`, up to the first key that is not
    /// one of them. None without ORDER BY.
    pub(super) fn of(sql: &str, columns: &[&str]) -> Self {
        let Some(Statement::Statement(statement)) =
            parse(sql).ok().and_then(|statements| statements.into_iter().next())
        else {
            return Self(vec![]);
        };
        let SqlStatement::Query(query) = *statement else { return Self(vec![]) };
        Self(match query.order_by.map(|order| order.kind) {
            Some(OrderByKind::Expressions(keys)) => keys.iter().map_while(|key| position(&key.expr, columns)).collect(),
            Some(OrderByKind::All(_)) => (0..columns.len()).collect(),
            None => vec![],
        })
    }

    /// The runs of rows that are equal in all keys; all rows are one run without a key.
    pub(super) fn runs<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = &'a [Row]> {
        rows.chunk_by(|one, next| self.0.iter().all(|key| one.get(*key) == next.get(*key)))
    }
}

/// Position of a key among the columns: by name or by ordinal.
fn position(key: &Expr, columns: &[&str]) -> Option<usize> {
    let name = match key {
        Expr::Identifier(name) => &name.value,
        Expr::CompoundIdentifier(parts) => &parts.last()?.value,
        Expr::Value(value) => {
            let Value::Number(ordinal, _) = &value.value else { return None };
            return ordinal.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < columns.len());
        }
        _ => return None,
    };
    columns.iter().position(|column| column.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    const NONE: [usize; 0] = [];

    #[test]
    fn keys_are_names_aliases_and_ordinals() {
        let keys = |sql| SortKeys::of(sql, &["a", "b", "c"]).0;
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY B DESC, t.a"), [1, 0]);
        assert_eq!(keys("SELECT a, x AS b, c FROM t ORDER BY 3, b LIMIT 2"), [2, 1]);
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY a, x, b"), [0], "what follows is not known");
        assert_eq!(keys("SELECT a, b, c FROM t ORDER BY a + b"), NONE);
        assert_eq!(keys("SELECT a, b, c FROM (SELECT * FROM t ORDER BY a)"), NONE);
        assert_eq!(keys("WITH v AS (SELECT * FROM t) SELECT a, b, c FROM v ORDER BY c"), [2]);
        assert_eq!(keys("CREATE TABLE t (a INT)"), NONE);
    }

    #[test]
    fn every_standard_query_that_sorts_has_keys() {
        for workload in [Workload::SSB, Workload::TPCH] {
            for (name, sql) in workload.queries {
                let sql = sql.to_ascii_lowercase();
                let Some((_, keys)) = sql.rsplit_once("order by") else { continue };
                let names = keys.split("limit").next().unwrap().trim().trim_end_matches(';').split(',');
                let names: Vec<&str> = names.map(|key| key.split_whitespace().next().unwrap()).collect();
                assert_eq!(SortKeys::of(&sql, &names).0.len(), names.len(), "{name} of {}", workload.name);
            }
        }
    }
}
