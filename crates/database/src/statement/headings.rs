//! Column names of results as PostgreSQL gives them.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, SetExpr, Statement as Ast};
use thermocline_transactions::sql::output_name;

/// Displayed column names of a statement's rows.
///
/// The analytic engine names a column without an alias after its expression (`Int64(1)`, `sum(t.a + Int64(1))`), and
/// needs these names to distinguish columns. Clients see the names of the row engine and PostgreSQL: that of the column
/// or function, or `?column?`. They need not be unique.
///
/// ```text
/// SELECT 1, t.*, sum(a)      from the left up to what stands for many columns, from the right down to it
///        |  ^^^  |
/// ?column?  own  sum
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headings {
    /// Headings of the first columns; `None` keeps the name in the schema.
    first: Vec<Option<Box<str>>>,
    /// Headings of the last columns, likewise; `None` if `first` covers all columns.
    last: Option<Vec<Option<Box<str>>>>,
}

impl Default for Headings {
    /// All columns keep the names in the schema.
    fn default() -> Self {
        Self { first: vec![], last: Some(vec![]) }
    }
}

impl Headings {
    pub(crate) fn of(statement: &Ast) -> Self {
        match statement {
            Ast::Query(query) => select(query).map_or_else(Self::default, |select| Self::of_items(&select.projection)),
            _ => Self::default(),
        }
    }

    /// Those of select items, as of RETURNING.
    pub(crate) fn of_items(items: &[SelectItem]) -> Self {
        let place = items.iter().position(is_many).unwrap_or(items.len());
        let (first, rest) = items.split_at_checked(place).unwrap_or_default();
        let behind = rest.iter().rposition(is_many).map(|at| rest.get(at + 1..).unwrap_or_default());
        let names = |items: &[SelectItem]| items.iter().map(name).collect();
        Self { first: names(first), last: behind.map(names) }
    }

    /// The schema with these names, for display; unchanged if the number of columns does not match the text.
    pub fn of_schema(&self, schema: &SchemaRef) -> SchemaRef {
        let (width, last) = (schema.fields().len(), self.last.as_deref().unwrap_or_default());
        let named = self.first.len() + last.len();
        if named > width || named < width && self.last.is_none() {
            return Arc::clone(schema);
        }
        let between = std::iter::repeat_n(&None, width - named);
        let names = self.first.iter().chain(between).chain(last);
        let field = |(field, name): (&Arc<_>, &Option<Box<str>>)| match name {
            Some(name) => Arc::new(arrow::datatypes::Field::clone(field).with_name(&**name)),
            None => Arc::clone(field),
        };
        let fields: Vec<_> = schema.fields().iter().zip(names).map(field).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

/// The SELECT that determines column names: the first branch of a UNION.
pub(super) fn select(query: &Query) -> Option<&Select> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(inner) => body = inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left.as_ref(),
            _ => return None,
        }
    }
}

/// Whether an item expands to a number of columns that the text does not determine.
pub(super) fn is_many(item: &SelectItem) -> bool {
    match item {
        SelectItem::ExprWithAlias { .. } => false,
        // For a record it returns a column for each field.
        SelectItem::UnnamedExpr(Expr::Function(function)) => function.name.to_string().eq_ignore_ascii_case("unnest"),
        SelectItem::UnnamedExpr(_) => false,
        _ => true,
    }
}

fn name(item: &SelectItem) -> Option<Box<str>> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::super::statement::Statement;
    use super::*;

    /// The headings of a result with columns `c0`, `c1`, ...
    fn headings(sql: &str, width: usize) -> String {
        let fields: Vec<_> = (0..width).map(|i| Field::new(format!("c{i}"), DataType::Int32, true)).collect();
        let statement = Statement::parse(sql).unwrap().remove(0);
        let schema = statement.headings().of_schema(&Arc::new(Schema::new(fields)));
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn columns_are_headed_as_postgresql_does() {
        for (sql, expected) in [
            ("SELECT 1", "?column?"),
            ("SELECT 1, -1, a + 1, 'x' || s", "?column?,?column?,?column?,?column?"),
            ("SELECT count(*), sum(a + 1), Count(DISTINCT b)", "count,sum,count"),
            ("SELECT a, t.B, \"C\", a AS x, 1 one", "a,b,C,c3,c4"),
            ("SELECT a::text, CAST(sum(a) AS BIGINT), CASE WHEN true THEN 1 END, (a)", "a,sum,case,a"),
            ("SELECT sum(a) OVER (), extract(year FROM d)", "sum,extract"),
            ("WITH w AS (SELECT 1) (SELECT 2 UNION ALL SELECT a)", "?column?"),
            ("SELECT 1, *", "?column?,c1,c2"),
            ("SELECT *, 1, t.*, count(*)", "c0,c1,c2,c3,count"),
            ("SELECT *", "c0,c1"),
            ("SELECT unnest(s), 1", "c0,c1,?column?"),
            ("VALUES (1, 2)", "c0,c1"),
            ("SHOW TABLES", "c0"),
            ("EXPLAIN SELECT 1", "c0,c1"),
            ("CALL p(1)", "c0"),
        ] {
            let width = expected.split(',').count();
            assert_eq!(headings(sql, width), expected, "{sql}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_as_it_is() {
        assert_eq!(headings("SELECT 1", 2), "c0,c1");
        assert_eq!(headings("SELECT 1, 2", 1), "c0");
        assert_eq!(headings("SELECT 1, *, 2", 1), "c0");
        assert_eq!(headings("SELECT 1, *, 2", 2), "?column?,?column?");
    }
}
