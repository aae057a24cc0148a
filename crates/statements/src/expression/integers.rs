//! Compiled expressions over integers.

use thermocline_tables::table::{HeapSize, IntegerPlace, Layout, allocated};
use thermocline_types::{Operator, Value};

use super::{Comparison, Expr};

/// An expression whose columns, constants and results are integers; columns are places in the image of a row.
///
/// ```text
/// CASE WHEN a >= $1 THEN a - $1 ELSE 0 END
///     -> case [place of a >= parameter 1: place of a - parameter 1], constant 0
/// ```
///
/// Its value is `None` if a value is not an integer, such as NULL or a decimal parameter, or if there is an error; then
/// the original expression is evaluated. Both use the same operators and comparisons.
#[derive(Debug, Clone)]
pub(crate) struct IntegerExpr(Node);

#[derive(Debug, Clone)]
enum Node {
    Leaf(Leaf),
    /// The most frequent operation: on two leaves, with a result checked against the range of a type.
    Simple(Operator, [Leaf; 2], Bounds),
    /// An operation with a result checked against the range of a type.
    Apply(Operator, Box<[Node; 2]>, Bounds),
    /// A value checked against the range of a type.
    Within(Box<Node>, Bounds),
    /// Branches, then ELSE.
    Case(Box<[Branch]>, Box<Node>),
}

/// A value that needs no computation.
#[derive(Debug, Clone, Copy)]
enum Leaf {
    Column(IntegerPlace),
    Parameter(usize),
    Constant(i64),
}

/// Range of an integer type.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: i64,
    largest: i64,
}

#[derive(Debug, Clone)]
struct Branch {
    comparison: Comparison,
    sides: [Node; 2],
    result: Node,
}

/// Limit on the nesting of nodes.
const DEPTH_MAX: usize = 8;

impl IntegerExpr {
    /// Compiles an expression over the table in slot 0, whose rows have this layout; `None` if it involves other types,
    /// or is too complex.
    pub fn new(expr: &Expr, layout: &Layout) -> Option<Self> {
        node(expr, layout, 0).map(Self)
    }

    /// The value for a row of this image.
    #[inline]
    pub fn value(&self, image: &[u8], parameters: &[Value]) -> Option<i64> {
        self.0.value(image, parameters)
    }
}

impl Bounds {
    const ALL: Self = Self { least: i64::MIN, largest: i64::MAX };

    #[inline]
    fn hold(self, number: i64) -> Option<i64> {
        (self.least <= number && number <= self.largest).then_some(number)
    }

    /// Intersection of two ranges.
    fn and(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), largest: self.largest.min(other.largest) }
    }
}

impl Leaf {
    #[inline(always)]
    fn value(self, image: &[u8], parameters: &[Value]) -> Option<i64> {
        match self {
            Self::Column(place) => place.get(image),
            Self::Parameter(position) => match parameters.get(position)? {
                Value::Int(number) => Some(*number),
                _ => None,
            },
            Self::Constant(number) => Some(number),
        }
    }
}

impl Node {
    #[inline]
    fn value(&self, image: &[u8], parameters: &[Value]) -> Option<i64> {
        match self {
            Self::Leaf(leaf) => leaf.value(image, parameters),
            Self::Simple(operator, [left, right], bounds) => {
                let (left, right) = (left.value(image, parameters)?, right.value(image, parameters)?);
                bounds.hold(operator.checked_integers(left, right)?)
            }
            _ => self.computed(image, parameters),
        }
    }

    #[inline(never)]
    fn computed(&self, image: &[u8], parameters: &[Value]) -> Option<i64> {
        match self {
            Self::Leaf(_) | Self::Simple(..) => self.value(image, parameters),
            Self::Apply(operator, sides, bounds) => {
                let [left, right] = &**sides;
                let (left, right) = (left.value(image, parameters)?, right.value(image, parameters)?);
                bounds.hold(operator.checked_integers(left, right)?)
            }
            Self::Within(inner, bounds) => bounds.hold(inner.value(image, parameters)?),
            Self::Case(branches, otherwise) => {
                for Branch { comparison, sides: [left, right], result } in branches {
                    let order = left.value(image, parameters)?.cmp(&right.value(image, parameters)?);
                    if comparison.is(order) {
                        return result.value(image, parameters);
                    }
                }
                otherwise.value(image, parameters)
            }
        }
    }
}

impl HeapSize for IntegerExpr {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl HeapSize for Node {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Leaf(_) | Self::Simple(..) => 0,
            Self::Apply(_, sides, _) => {
                allocated(size_of_val(&**sides)) + sides.iter().map(Self::heap_bytes).sum::<usize>()
            }
            Self::Within(inner, _) => allocated(size_of::<Self>()) + inner.heap_bytes(),
            Self::Case(branches, otherwise) => {
                let of =
                    |branch: &Branch| branch.sides.iter().chain([&branch.result]).map(Self::heap_bytes).sum::<usize>();
                let branches = allocated(size_of_val(&**branches)) + branches.iter().map(of).sum::<usize>();
                branches + allocated(size_of::<Self>()) + otherwise.heap_bytes()
            }
        }
    }
}

fn node(expr: &Expr, layout: &Layout, depth: usize) -> Option<Node> {
    if depth > DEPTH_MAX {
        return None;
    }
    let inner = |expr: &Expr| node(expr, layout, depth + 1);
    Some(match expr {
        Expr::Parameter(position) => Node::Leaf(Leaf::Parameter(*position)),
        Expr::Literal(Value::Int(number)) => Node::Leaf(Leaf::Constant(*number)),
        Expr::Column { slot: 0, column } => Node::Leaf(Leaf::Column(layout.integer_place(*column)?)),
        Expr::Arithmetic(operator, sides) => {
            let [left, right] = &**sides;
            match [inner(left)?, inner(right)?] {
                [Node::Leaf(left), Node::Leaf(right)] => Node::Simple(*operator, [left, right], Bounds::ALL),
                sides => Node::Apply(*operator, Box::new(sides), Bounds::ALL),
            }
        }
        Expr::Cast(value, to) => {
            let (least, largest) = to.integer_bounds()?;
            let bounds = Bounds { least, largest };
            match inner(value)? {
                Node::Simple(operator, sides, inner) => Node::Simple(operator, sides, bounds.and(inner)),
                Node::Apply(operator, sides, inner) => Node::Apply(operator, sides, bounds.and(inner)),
                other => Node::Within(Box::new(other), bounds),
            }
        }
        Expr::Case(branches, otherwise) => {
            let branch = |(condition, result): &(Expr, Expr)| {
                let Expr::Compare(comparison, sides) = condition else { return None };
                let [left, right] = &**sides;
                Some(Branch { comparison: *comparison, sides: [inner(left)?, inner(right)?], result: inner(result)? })
            };
            let branches: Option<Box<[Branch]>> = branches.iter().map(branch).collect();
            Node::Case(branches?, Box::new(inner(otherwise)?))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thermocline_tables::schema::Schema;
    use thermocline_tables::table::{Budget, Table, Undo};
    use thermocline_types::ValueRef;

    use super::*;
    use crate::expression::{Environment, Frame, Source};
    use crate::{Binder, define, parse_expression};

    /// The compiled expression gives the value of the expression, or `None`.
    #[test]
    fn compiled_or_evaluated_the_value_is_the_same() {
        let sql =
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b SMALLINT, c BIGINT NOT NULL, d DECIMAL(5, 2)) PARTITION BY (a)";
        let (schema, _) = define(&Schema::default(), sql).unwrap();
        let definition = Arc::clone(schema.table("t").unwrap());
        let mut table = Table::new(Arc::clone(&definition), Arc::new(Budget::unlimited()), 1).unwrap();
        let mut undo = Undo::new(1 << 20);
        for (a, b, c) in [(1, Some(2), 3), (-7, None, i64::MAX), (i64::from(i32::MAX), Some(i64::from(i16::MAX)), -1)] {
            let b = b.map_or(ValueRef::Null, ValueRef::Int);
            table.insert(&[ValueRef::Int(a), b, ValueRef::Int(c), ValueRef::Null], &mut undo).unwrap();
        }
        let layout = Layout::new(&definition).unwrap();
        let (mut compared, mut given) = (0, 0);
        for (text, integral) in [
            ("a + 1", true),
            ("b * b - a", true),
            ("c + a * 2", true),
            ("a / (b - 2)", true),
            ("a % 3 + c", true),
            ("CASE WHEN a >= 2 + 1 THEN a - 2 ELSE a - 2 + 91 END", true),
            ("CASE WHEN b > a THEN 1 WHEN a = c THEN CASE WHEN a < 0 THEN 2 ELSE 3 END ELSE c END", true),
            ("(CASE WHEN a > 1 THEN c ELSE a END) + 1", true),
            ("(CASE WHEN a > 1 THEN a ELSE b END) * 2", true),
            ("CASE WHEN b IS NULL THEN 1 ELSE 2 END", false),
            ("a + d", false),
            ("abs(a)", false),
            ("1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + a))))))))", false),
        ] {
            let mut binder = Binder::new(&schema, &[]);
            binder.add_table("t".into(), Arc::clone(&definition)).unwrap();
            let expr = binder.expression(&parse_expression(text).unwrap()).unwrap().expr;
            let compiled = IntegerExpr::new(&expr, &layout);
            assert_eq!(compiled.is_some(), integral, "{text}");
            let Some(compiled) = compiled else { continue };
            let environment = Environment::new(0, 0, 0);
            for id in table.scan() {
                let row = table.row(id).unwrap();
                let mut frame = Frame::new(&[], &environment);
                frame.set(0, Source::Row(row));
                let value = expr.evaluate(&frame).map(|value| value.get().to_value());
                compared += 1;
                if let Some(number) = compiled.value(row.image(), &[]) {
                    given += 1;
                    assert_eq!(value.unwrap(), Value::Int(number), "{text}");
                } else {
                    assert!(value.is_err() || value.unwrap().is_null() || text.contains("b"), "{text}");
                }
            }
        }
        assert!(given > compared / 2, "{given} of {compared}");
    }

    #[test]
    fn a_parameter_of_another_kind_is_left_to_the_expression() {
        let expr = Expr::Arithmetic(Operator::Add, Box::new([Expr::Parameter(0), Expr::Literal(Value::Int(1))]));
        let (schema, _) =
            define(&Schema::default(), "CREATE TABLE t (a INTEGER PRIMARY KEY) PARTITION BY (a)").unwrap();
        let definition = Arc::clone(schema.table("t").unwrap());
        let compiled = IntegerExpr::new(&expr, &Layout::new(&definition).unwrap()).unwrap();
        let mut table = Table::new(definition, Arc::new(Budget::unlimited()), 1).unwrap();
        let id = table.insert(&[ValueRef::Int(1)], &mut Undo::new(1 << 20)).unwrap();
        let row = table.row(id).unwrap();
        assert_eq!(compiled.value(row.image(), &[Value::Int(4)]), Some(5));
        assert_eq!(compiled.value(row.image(), &[Value::Float(4.0)]), None);
        assert_eq!(compiled.value(row.image(), &[Value::Null]), None);
        assert_eq!(compiled.value(row.image(), &[Value::Int(i64::MAX)]), None);
        assert_eq!(compiled.value(row.image(), &[]), None);
    }
}
