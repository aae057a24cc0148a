//! Evaluation of expressions.

use std::cmp::Ordering;

use thermocline_tables::table::Row;
use thermocline_types::{Class, DataType, Error, Operator, Result, Value, ValueRef, cast, negate};

use super::function::{cased_bytes, make_text};
use super::{Comparison, Environment, Expr, Like, Pattern, TABLES_MAX};
use crate::rows::Rows;

/// Inputs of an expression.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// Rows of the tables, by slot.
    pub sources: [Source<'a>; TABLES_MAX],
    /// Parameters, with the types derived at binding.
    pub parameters: &'a [Value],
    /// Values computed by an earlier stage.
    pub computed: &'a [Value],
    /// Time, random numbers and budget.
    pub environment: &'a Environment,
}

/// A row in one of its representations.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// All NULL: an outer join found no match, or nothing was read yet.
    Nothing,
    Row(Row<'a>),
    /// A row that is about to be inserted.
    New(&'a [ValueRef<'a>]),
    /// A row with pending changes.
    Changed(Row<'a>, &'a [(usize, ValueRef<'a>)]),
}

impl<'a> Source<'a> {
    #[inline]
    pub fn value(self, column: usize) -> ValueRef<'a> {
        match self {
            Self::Row(row) => row.value(column),
            Self::Nothing => ValueRef::Null,
            Self::New(values) => values.get(column).copied().unwrap_or_default(),
            Self::Changed(row, changes) => {
                let change = changes.iter().rev().find(|(changed, _)| *changed == column);
                change.map_or_else(|| row.value(column), |(_, value)| *value)
            }
        }
    }
}

/// A value, borrowed where possible.
#[derive(Debug, Clone)]
pub enum Evaluated<'a> {
    Ref(ValueRef<'a>),
    Owned(Value),
}

impl Evaluated<'_> {
    #[inline]
    pub fn get(&self) -> ValueRef<'_> {
        match self {
            Self::Ref(value) => *value,
            Self::Owned(value) => value.as_ref(),
        }
    }

    /// The owned value; a copy is counted as a text of the row.
    pub fn into_value(self, environment: &Environment) -> Result<Value> {
        Ok(match self {
            Self::Ref(value) => {
                environment.text(value.heap_bytes())?;
                value.to_value()
            }
            Self::Owned(value) => value,
        })
    }
}

const UNKNOWN: Evaluated<'static> = Evaluated::Ref(ValueRef::Null);

fn truth<'a>(value: bool) -> Evaluated<'a> {
    Evaluated::Ref(ValueRef::Boolean(value))
}

impl<'a> Frame<'a> {
    /// A frame without rows.
    pub fn new(parameters: &'a [Value], environment: &'a Environment) -> Self {
        Self { sources: [Source::Nothing; TABLES_MAX], parameters, computed: &[], environment }
    }

    /// Puts a row into a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, source: Source<'a>) {
        if let Some(place) = self.sources.get_mut(slot) {
            *place = source;
        }
    }

    /// A column of the row in a slot.
    #[inline]
    fn column(&self, slot: usize, column: usize) -> ValueRef<'a> {
        self.sources.get(slot).map_or(ValueRef::Null, |source| source.value(column))
    }
}

impl Expr {
    /// Whether a condition is TRUE; FALSE and NULL are not.
    #[inline]
    pub fn holds(&self, frame: &Frame<'_>) -> Result<bool> {
        match self {
            Self::Compare(comparison, sides) => Ok(compare(*comparison, sides, frame)? == Some(true)),
            _ => Ok(matches!(self.evaluate(frame)?.get(), ValueRef::Boolean(true))),
        }
    }

    /// The value.
    #[inline]
    pub fn evaluate<'a>(&'a self, frame: &Frame<'a>) -> Result<Evaluated<'a>> {
        match self {
            Self::Parameter(position) => match frame.parameters.get(*position) {
                Some(value) => Ok(Evaluated::Ref(value.as_ref())),
                None => Err(missing(*position)),
            },
            Self::Column { slot, column } => Ok(Evaluated::Ref(frame.column(*slot, *column))),
            _ => self.evaluate_other(frame),
        }
    }

    /// The value, if it is an integer that needs no evaluation; otherwise `None`.
    #[inline]
    pub fn integer(&self, frame: &Frame<'_>) -> Option<i64> {
        match self {
            Self::Parameter(position) => match frame.parameters.get(*position) {
                Some(Value::Int(number)) => Some(*number),
                _ => None,
            },
            Self::Column { slot, column } => match frame.sources.get(*slot)? {
                Source::Row(row) => row.integer(*column),
                _ => None,
            },
            Self::Literal(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// Appends the value to a row of a result.
    #[inline]
    pub fn push_to(&self, frame: &Frame<'_>, rows: &mut Rows) -> Result<()> {
        match self {
            Self::Column { slot, column } => match frame.sources.get(*slot) {
                Some(Source::Row(row)) => rows.push_column(*row, *column, frame.environment.memory()),
                _ => rows.push_within(frame.column(*slot, *column), frame.environment.memory()),
            },
            _ => rows.push_within(self.evaluate(frame)?.get(), frame.environment.memory()),
        }
    }

    /// [`Self::evaluate`] for all but parameters and columns, the most frequent expressions.
    fn evaluate_other<'a>(&'a self, frame: &Frame<'a>) -> Result<Evaluated<'a>> {
        Ok(match self {
            Self::Column { .. } | Self::Parameter(_) => return self.evaluate(frame),
            Self::Literal(value) => Evaluated::Ref(value.as_ref()),
            Self::Computed(position) => {
                Evaluated::Ref(frame.computed.get(*position).map_or(ValueRef::Null, Value::as_ref))
            }
            Self::Compare(comparison, sides) => compare(*comparison, sides, frame)?.map_or(UNKNOWN, truth),
            Self::Arithmetic(operator, sides) => {
                let [left, right] = &**sides;
                let (left, right) = (left.evaluate(frame)?, right.evaluate(frame)?);
                if *operator == Operator::Concatenate {
                    make_text(frame.environment, left.get().text_bytes_max() + right.get().text_bytes_max())?;
                } else if let ValueRef::Jsonb(document) = left.get() {
                    make_text(frame.environment, document.len())?;
                }
                Evaluated::Owned(operator.apply(left.get(), right.get())?)
            }
            Self::Negate(inner) => Evaluated::Owned(negate(inner.evaluate(frame)?.get())?),
            Self::And(terms) => all(terms, frame, false)?,
            Self::Or(terms) => all(terms, frame, true)?,
            Self::Not(inner) => match inner.evaluate(frame)?.get() {
                ValueRef::Boolean(value) => truth(!value),
                _ => UNKNOWN,
            },
            Self::IsNull(inner) => truth(inner.evaluate(frame)?.get().is_null()),
            Self::Is(expected, inner) => {
                truth(matches!(inner.evaluate(frame)?.get(), ValueRef::Boolean(value) if value == *expected))
            }
            Self::Same(sides) => {
                let [left, right] = &**sides;
                truth(left.evaluate(frame)?.get() == right.evaluate(frame)?.get())
            }
            Self::In(value, list) => in_list(value, list, frame)?,
            Self::Like(like) => matches_pattern(like, frame)?,
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    if condition.holds(frame)? {
                        return result.evaluate(frame);
                    }
                }
                return otherwise.evaluate(frame);
            }
            Self::Cast(inner, to) => {
                let inner = inner.evaluate(frame)?;
                frame.environment.text(inner.get().text_bytes_max())?;
                let value = cast(inner.get(), *to)?;
                if let Value::Jsonb(document) = &value {
                    // Its length was not known before.
                    frame.environment.text(document.len())?;
                }
                Evaluated::Owned(value)
            }
            Self::Call(function, arguments) => function.call(arguments, frame)?,
        })
    }
}

#[cold]
fn missing(position: usize) -> Error {
    Class::UndefinedParameter.error(format_args!("there is no parameter ${}", position + 1))
}

#[inline]
fn compare(comparison: Comparison, sides: &[Expr; 2], frame: &Frame<'_>) -> Result<Option<bool>> {
    let [left, right] = sides;
    let (left, right) = (left.evaluate(frame)?, right.evaluate(frame)?);
    let (left, right) = (left.get(), right.get());
    Ok(match left.compare(right) {
        Some(order) => Some(comparison.is(order)),
        None if left.is_null() || right.is_null() => None,
        None => return Err(incomparable(left, right)),
    })
}

/// The error for operands that do not compare: a parameter of another kind than binding expected.
fn incomparable(left: ValueRef<'_>, right: ValueRef<'_>) -> Error {
    let name = |value: ValueRef<'_>| value.data_type().unwrap_or(DataType::Text);
    Class::UndefinedFunction.error(format_args!("{} and {} do not compare", name(left), name(right)))
}

/// AND with `decisive` FALSE, OR with TRUE: the decisive value if any term has it, NULL if any is NULL.
fn all<'a>(terms: &[Expr], frame: &Frame<'_>, decisive: bool) -> Result<Evaluated<'a>> {
    let mut unknown = false;
    for term in terms {
        match term.evaluate(frame)?.get() {
            ValueRef::Boolean(value) if value == decisive => return Ok(truth(decisive)),
            ValueRef::Boolean(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { UNKNOWN } else { truth(!decisive) })
}

fn in_list<'a>(value: &Expr, list: &[Expr], frame: &Frame<'_>) -> Result<Evaluated<'a>> {
    let value = value.evaluate(frame)?;
    let value = value.get();
    if value.is_null() {
        return Ok(UNKNOWN);
    }
    let mut unknown = false;
    for item in list {
        let item = item.evaluate(frame)?;
        match value.compare(item.get()) {
            Some(Ordering::Equal) => return Ok(truth(true)),
            Some(_) => {}
            None if item.get().is_null() => unknown = true,
            None => return Err(incomparable(value, item.get())),
        }
    }
    Ok(if unknown { UNKNOWN } else { truth(false) })
}

fn matches_pattern<'a>(like: &Like, frame: &Frame<'_>) -> Result<Evaluated<'a>> {
    let value = like.value.evaluate(frame)?;
    let ValueRef::Text(text) = value.get() else { return Ok(UNKNOWN) };
    let lower;
    let text = if like.ignore_case {
        make_text(frame.environment, cased_bytes(text))?;
        lower = text.to_lowercase();
        lower.as_str()
    } else {
        text
    };
    if let Some(parsed) = &like.parsed {
        return Ok(truth(parsed.matches(text)));
    }
    match like.pattern.evaluate(frame)?.get() {
        ValueRef::Text(pattern) => {
            frame.environment.text(Pattern::bytes_of(pattern))?;
            Ok(truth(Pattern::parse(pattern, like.escape, like.ignore_case)?.matches(text)))
        }
        _ => Ok(UNKNOWN),
    }
}
