//! Expressions over integers as steps.

use super::{Comparison, Expr};
use crate::engine::Weigh;
use crate::table::{Row, allocated};
use crate::types::{DataType, Operator, Value};

/// An expression whose columns, constants and results are integers, as steps over a stack.
///
/// ```text
/// CASE WHEN a >= $1 THEN a - $1 ELSE 0 END
///     -> column a, parameter 1, unless >= go to 5, column a - parameter 1, go to end, constant 0
/// ```
///
/// It says nothing where there is another value on the way, such as NULL or a parameter that is a decimal, or an
/// error: then the expression itself is evaluated. What operators and comparisons give is theirs to say in both.
#[derive(Debug, Clone)]
pub(crate) struct IntegerSteps(Box<[Step]>);

#[derive(Debug, Clone, Copy)]
enum Step {
    Column(usize),
    Parameter(usize),
    Constant(i64),
    /// Of the two numbers on top.
    Apply(Operator),
    /// Of a column and a parameter or a constant, checked to be of the type: what most assignments are.
    Change(usize, Operator, Operand, DataType),
    /// The number on top is of the type.
    Check(DataType),
    /// Takes the two numbers on top, and goes to a step unless they compare like this.
    Unless(Comparison, usize),
    GoTo(usize),
}

/// The right side of a change.
#[derive(Debug, Clone, Copy)]
enum Operand {
    Parameter(usize),
    Constant(i64),
}

impl Weigh for IntegerSteps {
    fn heap_bytes(&self) -> usize {
        allocated(size_of_val(&*self.0))
    }
}

/// How deep the stack may be.
const DEPTH_MAX: usize = 8;

impl IntegerSteps {
    /// The steps of an expression over the table in slot 0; `None` if it is of anything but integers.
    pub fn new(expr: &Expr, is_integer: &dyn Fn(usize) -> bool) -> Option<Self> {
        let mut steps = Vec::new();
        push(expr, is_integer, 1, &mut steps)?;
        Some(Self(steps.into()))
    }

    /// The value for a row.
    #[inline]
    pub fn value(&self, row: Row<'_>, parameters: &[Value]) -> Option<i64> {
        let mut stack = [0; DEPTH_MAX];
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(step) = self.0.get(at) {
            at += 1;
            let number = match step {
                Step::Column(column) => row.integer(*column)?,
                Step::Parameter(position) => match parameters.get(*position)? {
                    Value::Int(number) => *number,
                    _ => return None,
                },
                Step::Constant(number) => *number,
                Step::Change(column, operator, operand, data_type) => {
                    let right = match operand {
                        Operand::Constant(number) => *number,
                        Operand::Parameter(position) => match parameters.get(*position)? {
                            Value::Int(number) => *number,
                            _ => return None,
                        },
                    };
                    let number = operator.integers(row.integer(*column)?, right).ok()?;
                    if !data_type.holds(number) {
                        return None;
                    }
                    number
                }
                Step::Check(data_type) => {
                    let number = *stack.get(depth.checked_sub(1)?)?;
                    if data_type.holds(number) {
                        continue;
                    }
                    return None;
                }
                Step::GoTo(step) => {
                    at = *step;
                    continue;
                }
                Step::Apply(_) | Step::Unless(..) => {
                    depth = depth.checked_sub(2)?;
                    let [left, right] = *stack.get(depth..)?.first_chunk()?;
                    match step {
                        Step::Apply(operator) => operator.integers(left, right).ok()?,
                        Step::Unless(comparison, step) => {
                            if !comparison.is(left.cmp(&right)) {
                                at = *step;
                            }
                            continue;
                        }
                        _ => return None,
                    }
                }
            };
            *stack.get_mut(depth)? = number;
            depth += 1;
        }
        stack.first().copied()
    }
}

/// Appends the steps that put the value on a stack, which is then `depth` deep.
fn push(expr: &Expr, is_integer: &dyn Fn(usize) -> bool, depth: usize, steps: &mut Vec<Step>) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    match expr {
        Expr::Parameter(position) => steps.push(Step::Parameter(*position)),
        Expr::Literal(Value::Int(number)) => steps.push(Step::Constant(*number)),
        Expr::Column { slot: 0, column } if is_integer(*column) => steps.push(Step::Column(*column)),
        Expr::Arithmetic(operator, sides) => match change(expr, is_integer, DataType::BigInt) {
            Some(change) => steps.push(change),
            None => {
                let [left, right] = &**sides;
                push(left, is_integer, depth, steps)?;
                push(right, is_integer, depth + 1, steps)?;
                steps.push(Step::Apply(*operator));
            }
        },
        Expr::Cast(inner, to) if to.is_integer() => match change(inner, is_integer, *to) {
            Some(change) => steps.push(change),
            None => {
                push(inner, is_integer, depth, steps)?;
                steps.push(Step::Check(*to));
            }
        },
        Expr::Case(branches, otherwise) => {
            let mut ends = Vec::with_capacity(branches.len());
            for (condition, result) in branches {
                let Expr::Compare(comparison, sides) = condition else { return None };
                let [left, right] = &**sides;
                push(left, is_integer, depth, steps)?;
                push(right, is_integer, depth + 1, steps)?;
                let unless = steps.len();
                steps.push(Step::GoTo(0));
                push(result, is_integer, depth, steps)?;
                ends.push(steps.len());
                steps.push(Step::GoTo(0));
                let next = steps.len();
                *steps.get_mut(unless)? = Step::Unless(*comparison, next);
            }
            push(otherwise, is_integer, depth, steps)?;
            let end = steps.len();
            for place in ends {
                *steps.get_mut(place)? = Step::GoTo(end);
            }
        }
        _ => return None,
    }
    Some(())
}

/// A column and a parameter or a constant in one step.
fn change(expr: &Expr, is_integer: &dyn Fn(usize) -> bool, of: DataType) -> Option<Step> {
    let Expr::Arithmetic(operator, sides) = expr else { return None };
    let [Expr::Column { slot: 0, column }, right] = &**sides else { return None };
    let operand = match right {
        Expr::Parameter(position) => Operand::Parameter(*position),
        Expr::Literal(Value::Int(number)) => Operand::Constant(*number),
        _ => return None,
    };
    is_integer(*column).then_some(Step::Change(*column, *operator, operand, of))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schema::Schema;
    use crate::sql::expression::{Environment, Frame, Source};
    use crate::sql::{Binder, parse_expression};
    use crate::table::{Budget, Table, Undo};
    use crate::types::ValueRef;

    /// The steps give what the expression gives, or nothing.
    #[test]
    fn steps_and_expressions_agree() {
        let sql =
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b SMALLINT, c BIGINT NOT NULL, d DECIMAL(5, 2)) PARTITION BY (a)";
        let (schema, _) = Schema::default().define(sql).unwrap();
        let definition = Arc::clone(schema.table("t").unwrap());
        let mut table = Table::new(Arc::clone(&definition), Arc::new(Budget::unlimited()), 1).unwrap();
        let mut undo = Undo::new(1 << 20);
        for (a, b, c) in [(1, Some(2), 3), (-7, None, i64::MAX), (i64::from(i32::MAX), Some(i64::from(i16::MAX)), -1)] {
            let b = b.map_or(ValueRef::Null, ValueRef::Int);
            table.insert(&[ValueRef::Int(a), b, ValueRef::Int(c), ValueRef::Null], &mut undo).unwrap();
        }
        let is_integer = |column: usize| definition.columns[column].data_type.is_integer();
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
            let steps = IntegerSteps::new(&expr, &is_integer);
            assert_eq!(steps.is_some(), integral, "{text}");
            let Some(steps) = steps else { continue };
            let environment = Environment::new(0, 0, 0);
            for id in table.scan() {
                let row = table.row(id).unwrap();
                let mut frame = Frame::new(&[], &environment);
                frame.set(0, Source::Row(row));
                let value = expr.evaluate(&frame).map(|value| value.get().to_value());
                compared += 1;
                if let Some(number) = steps.value(row, &[]) {
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
        let steps = IntegerSteps::new(&expr, &|_| false).unwrap();
        let (schema, _) = Schema::default().define("CREATE TABLE t (a INTEGER PRIMARY KEY) PARTITION BY (a)").unwrap();
        let definition = Arc::clone(schema.table("t").unwrap());
        let mut table = Table::new(definition, Arc::new(Budget::unlimited()), 1).unwrap();
        let id = table.insert(&[ValueRef::Int(1)], &mut Undo::new(1 << 20)).unwrap();
        let row = table.row(id).unwrap();
        assert_eq!(steps.value(row, &[Value::Int(4)]), Some(5));
        assert_eq!(steps.value(row, &[Value::Float(4.0)]), None);
        assert_eq!(steps.value(row, &[Value::Null]), None);
        assert_eq!(steps.value(row, &[Value::Int(i64::MAX)]), None);
        assert_eq!(steps.value(row, &[]), None);
    }
}
