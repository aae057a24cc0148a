//! Keys by which executions of fragments are remembered.

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, LikeExpr, Literal,
};
use datafusion::physical_plan::aggregates::AggregateExec;
use thermocline_pushdown::{BloomFilterExpr, Fragment};

/// A table and a fragment, once with its literals and once without: `x < 5 AND y LIKE 'a%'` is also
/// `x < ? AND y LIKE prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    table: u64,
    exact: u64,
    general: u64,
}

impl Shape {
    /// The shape of `fragment` over `table`.
    pub(crate) fn of(table: &str, fragment: &Fragment) -> Self {
        Self {
            table: Self::table_of(table),
            exact: hashed((table, fragment.to_string())),
            general: hashed((table, general(fragment))),
        }
    }

    /// The shape of the same fragment in other circumstances, which select otherwise.
    pub(crate) fn in_case_of(self, circumstances: impl Hash) -> Self {
        Self { exact: hashed((self.exact, &circumstances)), general: hashed((self.general, &circumstances)), ..self }
    }

    #[cfg(test)]
    pub(super) fn from_parts(exact: u64, general: u64) -> Self {
        Self { table: 0, exact, general }
    }

    #[cfg(test)]
    pub(super) fn of_table(table: &str, literal: u64) -> Self {
        Self { table: Self::table_of(table), exact: literal, general: literal }
    }

    /// Identifies a table.
    pub(crate) fn table_of(table: &str) -> u64 {
        hashed(table)
    }

    /// [`Shape::table_of`] its table.
    pub(crate) fn table(self) -> u64 {
        self.table
    }

    /// Identifies the table and the fragment with its literals.
    pub(crate) fn exact(self) -> u64 {
        self.exact
    }

    /// Identifies the table and the fragment without its literals; never 0, which means "no shape" on the wire.
    pub(crate) fn general(self) -> u64 {
        self.general.max(1)
    }
}

fn hashed(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// The fragment as text without literals: operators, columns, functions, kinds of comparisons.
fn general(fragment: &Fragment) -> String {
    let mut text = String::new();
    for operator in fragment.chain() {
        text.push_str(operator.name());
        if let Some(aggregate) = operator.downcast_ref::<AggregateExec>() {
            for call in aggregate.aggr_expr() {
                _ = write!(text, " {} {}", call.fun().name(), call.is_distinct());
            }
        }
        if let Some(fetch) = operator.fetch() {
            _ = write!(text, " fetch 2^{}", fetch.max(1).ilog2());
        }
        for field in operator.schema().fields() {
            _ = write!(text, " {}", field.data_type());
        }
        // The closure never fails.
        _ = operator.apply_expressions(&mut |expression| {
            text.push(' ');
            push_general(expression, &mut text);
            Ok(TreeNodeRecursion::Continue)
        });
        text.push('\n');
    }
    text
}

/// Appends `expression` without literals.
fn push_general(expression: &Arc<dyn PhysicalExpr>, text: &mut String) {
    // Long conjunctions lean to the left.
    let mut expression = expression;
    while let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        push_general(binary.right(), text);
        _ = write!(text, " {} ", binary.op());
        expression = binary.left();
    }
    if let Some(column) = expression.downcast_ref::<Column>() {
        text.push_str(column.name());
    } else if let Some(literal) = expression.downcast_ref::<Literal>() {
        text.push_str(if literal.value().is_null() { "NULL" } else { "?" });
    } else if let Some(list) = expression.downcast_ref::<InListExpr>() {
        push_general(list.expr(), text);
        _ = write!(text, " in {} 2^{}", !list.negated(), list.len().max(1).ilog2());
    } else if let Some(like) = expression.downcast_ref::<LikeExpr>() {
        push_general(like.expr(), text);
        _ = write!(text, " like {} {} ", !like.negated(), like.case_insensitive());
        match like.pattern().downcast_ref::<Literal>().and_then(|pattern| pattern.value().try_as_str().flatten()) {
            Some(pattern) => text.push_str(pattern_kind(pattern)),
            None => push_general(like.pattern(), text),
        }
    } else if expression.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
        text.push_str("filter made at run time");
    } else if expression.downcast_ref::<BloomFilterExpr>().is_some() {
        text.push_str("bloom");
    } else {
        let children = expression.children();
        let blanks = children.iter().map(|_| Arc::new(Column::new("_", 0)) as Arc<dyn PhysicalExpr>).collect();
        match Arc::clone(expression).with_new_children(blanks) {
            Ok(bare) => _ = write!(text, "{bare}("),
            Err(_) => text.push_str("function("),
        }
        for child in children {
            push_general(child, text);
            text.push(',');
        }
        text.push(')');
    }
}

/// Kind of a LIKE pattern, without its text.
fn pattern_kind(pattern: &str) -> &'static str {
    let inner = pattern.trim_matches('%');
    match (pattern.starts_with('%'), pattern.ends_with('%')) {
        _ if inner.contains(['%', '_']) => "pattern",
        (true, true) => "infix",
        (true, false) => "suffix",
        (false, true) => "prefix",
        (false, false) => "whole",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::Expr;
    use datafusion::prelude::{SessionContext, cast, col, lit, substr, when};

    use super::*;

    fn shape(table: &str, predicate: Expr) -> Shape {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Int64, true),
            Field::new("t", DataType::Utf8View, true),
        ]));
        let context = SessionContext::new();
        let named = DFSchema::try_from(schema.as_ref().clone()).unwrap();
        let predicate = context.create_physical_expr(predicate, &named).unwrap();
        Shape::of(table, &Fragment::filtered(schema, &predicate, vec![0]).unwrap())
    }

    fn of(predicate: Expr) -> Shape {
        shape("t", predicate)
    }

    #[test]
    fn other_literals_are_of_one_shape_and_other_comparisons_are_not() {
        let view = |text: &str| lit(datafusion::common::ScalarValue::Utf8View(Some(text.into())));
        let like = |pattern: &str| col("t").like(view(pattern));
        let list = |values: std::ops::Range<i64>| col("a").in_list(values.map(lit).collect(), false);
        let case = |value: i64| when(col("a").gt(lit(value)), lit(true)).otherwise(lit(false)).unwrap();
        let start = |value: i64| substr(cast(col("t"), DataType::Utf8View), lit(value)).eq(view("x"));
        // Each line is a shape of its own; what is on one line is not.
        let lines = [
            vec![col("a").lt(lit(5_i64)), col("a").lt(lit(5000_i64))],
            vec![col("a").gt(lit(5_i64)), col("a").gt(lit(6_i64))],
            vec![col("b").lt(lit(5_i64)), col("b").lt(lit(6_i64))],
            vec![
                col("a").lt(lit(5_i64)).and(col("b").gt(lit(1_i64))),
                col("a").lt(lit(7_i64)).and(col("b").gt(lit(2_i64))),
            ],
            vec![like("a%"), like("bcd%")],
            vec![like("%a"), like("%bcd")],
            vec![like("%a%"), like("%bcd%")],
            vec![like("%a%b%"), like("%c%d%")],
            vec![list(0..10), list(5..15)],
            vec![list(0..1000), list(5..1005)],
            vec![case(1), case(2)],
            vec![start(1), start(2)],
            vec![col("a").is_null(), col("a").is_null()],
        ];
        let mut seen: Vec<u64> = vec![];
        for line in lines {
            let shapes: Vec<Shape> = line.iter().cloned().map(of).collect();
            let general = shapes.first().unwrap().general();
            assert!(shapes.iter().all(|shape| shape.general() == general), "{line:?}");
            assert!(!seen.contains(&general), "{line:?}");
            seen.push(general);
            if line.first() != line.last() {
                assert_ne!(shapes.first().unwrap().exact(), shapes.last().unwrap().exact(), "{line:?}");
            }
        }
        let a = col("a").lt(lit(5_i64));
        assert_ne!(shape("t", a.clone()).general(), shape("u", a.clone()).general());
        assert_ne!(of(a.clone()).in_case_of("bloom").general(), of(a).general());
    }
}
