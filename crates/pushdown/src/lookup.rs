//! What a predicate says of single columns, in terms that an index can look up (PushdownDB
//! section III-A).

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::split_disjunction;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

/// Values of one column, one of which a row must have to pass a predicate.
///
/// It says no more than that: rows with such a value need not pass, so whoever looks them up still
/// applies the predicate. NULL passes none of these comparisons and is in no range.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Name of the column.
    pub column: String,
    /// The values; none if no row can pass. Ranges may overlap.
    pub ranges: Vec<ValueRange>,
}

/// Values between two bounds, none of which is NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueRange {
    /// No value is smaller.
    pub low: Bound<ScalarValue>,
    /// No value is larger.
    pub high: Bound<ScalarValue>,
}

impl Lookup {
    /// What `predicate` demands of columns: from its terms joined by AND at the top, those that
    /// compare one column with literals by `=`, `<`, `<=`, `>`, `>=`, `IN`, or an OR of these. One
    /// lookup per column.
    pub fn of(predicate: &Arc<dyn PhysicalExpr>) -> Vec<Lookup> {
        let mut lookups: Vec<Lookup> = vec![];
        for term in split_conjunction(predicate) {
            let Some(found) = lookup(term) else { continue };
            match lookups.iter_mut().find(|known| known.column == found.column) {
                Some(known) => known.narrow(found.ranges),
                None => lookups.push(found),
            }
        }
        lookups
    }

    /// How many values there are, if they are listed rather than between bounds.
    pub fn points(&self) -> Option<usize> {
        self.ranges.iter().all(ValueRange::is_point).then_some(self.ranges.len())
    }

    /// Keeps the values that are in `others`, too. If neither is a single range, keeps one of the two,
    /// which is right as well: an empty one, or listed values, of two lists the shorter one.
    fn narrow(&mut self, others: Vec<ValueRange>) {
        let (many, one) = match (self.ranges.as_slice(), others.as_slice()) {
            (_, [one]) => (std::mem::take(&mut self.ranges), one.clone()),
            ([one], _) => (others, one.clone()),
            _ => {
                let fewer = others.iter().all(ValueRange::is_point)
                    && (self.points().is_none() || others.len() < self.ranges.len());
                if fewer || others.is_empty() {
                    self.ranges = others;
                }
                return;
            }
        };
        self.ranges = many.into_iter().filter_map(|range| range.intersection(&one)).collect();
    }
}

impl ValueRange {
    fn point(value: ScalarValue) -> Self {
        Self { low: Bound::Included(value.clone()), high: Bound::Included(value) }
    }

    fn is_point(&self) -> bool {
        matches!((&self.low, &self.high), (Bound::Included(low), Bound::Included(high)) if low == high)
    }

    /// The values in both; `None` if there can be none.
    fn intersection(self, other: &Self) -> Option<Self> {
        let low = tighter(self.low, &other.low, Ordering::Greater);
        let high = tighter(self.high, &other.high, Ordering::Less);
        let empty = match (&low, &high) {
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
            _ => false,
        };
        (!empty).then_some(Self { low, high })
    }
}

/// Of two bounds the one that leaves less, which for low bounds is the greater.
fn tighter(a: Bound<ScalarValue>, b: &Bound<ScalarValue>, wanted: Ordering) -> Bound<ScalarValue> {
    let (Bound::Included(left) | Bound::Excluded(left), Bound::Included(right) | Bound::Excluded(right)) = (&a, b)
    else {
        return if matches!(a, Bound::Unbounded) { b.clone() } else { a };
    };
    match right.partial_cmp(left) {
        Some(order) if order == wanted => b.clone(),
        Some(Ordering::Equal) if matches!(b, Bound::Excluded(_)) => b.clone(),
        _ => a,
    }
}

/// Look-up of one term; `None` if it is of another kind.
fn lookup(term: &Arc<dyn PhysicalExpr>) -> Option<Lookup> {
    if let Some(list) = term.downcast_ref::<InListExpr>() {
        let column = column(list.expr())?;
        if list.negated() {
            return None;
        }
        let values = list.list().iter().map(literal).collect::<Option<Vec<_>>>()?;
        let ranges = values.into_iter().filter(|value| !value.is_null()).map(ValueRange::point).collect();
        return Some(Lookup { column, ranges });
    }
    let binary = term.downcast_ref::<BinaryExpr>()?;
    if *binary.op() == Operator::Or {
        let mut alternatives = split_disjunction(term).into_iter().map(lookup);
        let mut all = alternatives.next()??;
        for alternative in alternatives {
            let alternative = alternative?;
            if alternative.column != all.column {
                return None;
            }
            all.ranges.extend(alternative.ranges);
        }
        return Some(all);
    }
    let (column, operator, value) = match (column(binary.left()), column(binary.right())) {
        (Some(column), None) => (column, *binary.op(), literal(binary.right())?),
        (None, Some(column)) => (column, binary.op().swap()?, literal(binary.left())?),
        _ => return None,
    };
    let (low, high) = match operator {
        Operator::Eq => (Bound::Included(value.clone()), Bound::Included(value.clone())),
        Operator::Lt => (Bound::Unbounded, Bound::Excluded(value.clone())),
        Operator::LtEq => (Bound::Unbounded, Bound::Included(value.clone())),
        Operator::Gt => (Bound::Excluded(value.clone()), Bound::Unbounded),
        Operator::GtEq => (Bound::Included(value.clone()), Bound::Unbounded),
        _ => return None,
    };
    // A comparison with NULL is true for no row.
    let ranges = if value.is_null() { vec![] } else { vec![ValueRange { low, high }] };
    Some(Lookup { column, ranges })
}

fn column(expression: &Arc<dyn PhysicalExpr>) -> Option<String> {
    expression.downcast_ref::<Column>().map(|column| column.name().to_owned())
}

fn literal(expression: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    expression.downcast_ref::<Literal>().map(|literal| literal.value().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::prelude::{Expr, SessionContext, col, lit};

    /// As DataFusion itself makes the expression.
    fn lookups(predicate: Expr) -> Vec<Lookup> {
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = DFSchema::try_from(Schema::new(vec![field("a"), field("b")])).unwrap();
        let predicate = SessionContext::new().create_physical_expr(predicate, &schema).unwrap();
        Lookup::of(&predicate)
    }

    fn range(low: Bound<i64>, high: Bound<i64>) -> ValueRange {
        ValueRange { low: low.map(ScalarValue::from), high: high.map(ScalarValue::from) }
    }

    fn point(value: i64) -> ValueRange {
        ValueRange::point(value.into())
    }

    #[test]
    fn comparisons_lists_and_ranges() {
        let found = lookups(col("a").eq(lit(3_i64)).and(col("b").gt(lit(5_i64))));
        assert_eq!(found[0], Lookup { column: "a".into(), ranges: vec![point(3)] });
        assert_eq!(found[0].points(), Some(1));
        assert_eq!(found[1].ranges, [range(Bound::Excluded(5), Bound::Unbounded)]);
        assert_eq!(found[1].points(), None);

        let between = lookups(col("a").between(lit(1_i64), lit(9_i64)).and(lit(9_i64).gt(col("a"))));
        assert_eq!(between[0].ranges, [range(Bound::Included(1), Bound::Excluded(9))]);

        let few = col("a").in_list(vec![lit(1_i64), lit(2_i64)], false);
        let many = col("a").in_list((0..50_i64).map(lit).collect(), false);
        assert_eq!(lookups(few.clone())[0].ranges, [point(1), point(2)]);
        assert_eq!(lookups(many.clone())[0].points(), Some(50));
        assert_eq!(lookups(many.clone().and(few))[0].ranges, [point(1), point(2)]);
        assert_eq!(lookups(many.and(col("a").lt(lit(2_i64))))[0].ranges, [point(0), point(1)]);
    }

    #[test]
    fn nothing_passes() {
        let null = lit(ScalarValue::Int64(None));
        let none = lookups(col("a").gt(lit(5_i64)).and(col("a").lt(lit(5_i64))));
        assert!(none[0].ranges.is_empty());
        let listed = lookups(col("a").in_list((0..9_i64).map(lit).chain([null.clone()]).collect(), false));
        assert_eq!(listed[0].points(), Some(9));
        assert!(lookups(col("a").eq(null)).iter().all(|lookup| lookup.ranges.is_empty()));
    }

    #[test]
    fn what_an_index_cannot_look_up() {
        let one = || lit(1_i64);
        for predicate in [
            col("a").not_eq(one()),
            col("a").eq(col("b")),
            (col("a") + one()).eq(one()),
            col("a").eq(one()).or(col("b").eq(one())),
            col("a").in_list((0..9_i64).map(lit).collect(), true),
            col("a").is_null(),
            Expr::Not(Box::new(col("a").eq(one()))),
        ] {
            assert!(lookups(predicate.clone()).is_empty(), "{predicate}");
        }
        // The other term still holds.
        assert_eq!(lookups(col("a").not_eq(one()).and(col("b").eq(one()))).len(), 1);
    }
}
