//! Bound expressions and their evaluation.
//!
//! An expression is bound once (by [`bind`](super::bind)) and evaluated many times. Evaluation distinguishes integers,
//! decimals and floats dynamically, because a parameter may be any of them; static types serve for checks, ranges of
//! integers, result columns, and the choice of indexes.

mod environment;
mod evaluate;
mod function;
mod integers;
mod like;

use std::cmp::Ordering;

use thermocline_types::{DataType, Operator, Result, Value};

pub use environment::Environment;
pub use evaluate::{Evaluated, Frame, Source};
pub(crate) use function::{Function, Signature};
pub(crate) use integers::IntegerExpr;
pub(crate) use like::Pattern;

/// Limit on tables of a statement.
pub(crate) const TABLES_MAX: usize = 4;

/// A bound expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Literal(Value),
    /// Position among the statement's parameters.
    Parameter(usize),
    /// A column of the table in this slot of the frame.
    Column {
        slot: usize,
        column: usize,
    },
    /// A value that an earlier stage computed: a group's key or an aggregate.
    Computed(usize),
    Compare(Comparison, Box<[Expr; 2]>),
    Arithmetic(Operator, Box<[Expr; 2]>),
    Negate(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// `IS NULL`.
    IsNull(Box<Expr>),
    /// `IS TRUE` or `IS FALSE`.
    Is(bool, Box<Expr>),
    /// `IS NOT DISTINCT FROM`: equal, or both NULL.
    Same(Box<[Expr; 2]>),
    /// Value, then list.
    In(Box<Expr>, Vec<Expr>),
    Like(Box<Like>),
    /// Conditions with their results, then ELSE.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Cast(Box<Expr>, DataType),
    Call(Function, Vec<Expr>),
}

/// `value LIKE pattern`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Like {
    pub value: Expr,
    /// As written; parsed at binding if it is a literal.
    pub pattern: Expr,
    pub parsed: Option<Pattern>,
    pub escape: Option<char>,
    /// `ILIKE`.
    pub ignore_case: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison with its sides exchanged.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    /// Whether the comparison holds for operands in this order.
    pub fn is(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }

    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Expr {
    /// Calls `visit` for this expression and all its parts, outer ones first.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::Literal(_) | Self::Parameter(_) | Self::Column { .. } | Self::Computed(_) => {}
            Self::Compare(_, sides) | Self::Arithmetic(_, sides) | Self::Same(sides) => {
                sides.iter().for_each(|side| side.walk(visit));
            }
            Self::Negate(inner)
            | Self::Not(inner)
            | Self::IsNull(inner)
            | Self::Is(_, inner)
            | Self::Cast(inner, _) => {
                inner.walk(visit);
            }
            Self::And(terms) | Self::Or(terms) | Self::Call(_, terms) => {
                terms.iter().for_each(|term| term.walk(visit));
            }
            Self::In(value, list) => {
                value.walk(visit);
                list.iter().for_each(|item| item.walk(visit));
            }
            Self::Like(like) => {
                like.value.walk(visit);
                like.pattern.walk(visit);
            }
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    condition.walk(visit);
                    result.walk(visit);
                }
                otherwise.walk(visit);
            }
        }
    }

    /// Slots of the frame that it reads, as bits.
    pub fn slots(&self) -> u32 {
        let mut slots = 0;
        self.walk(&mut |part| {
            if let Self::Column { slot, .. } = part {
                slots |= 1 << slot;
            }
        });
        slots
    }

    /// Whether repeated evaluation on the same inputs may give other values.
    pub fn is_volatile(&self) -> bool {
        let mut volatile = false;
        self.walk(&mut |part| volatile |= matches!(part, Self::Call(function, _) if function.is_volatile()));
        volatile
    }

    /// Whether it depends on parameters only, and so can be evaluated before there is a transaction.
    pub fn is_of_parameters(&self) -> bool {
        let mut timeless = true;
        self.walk(&mut |part| timeless &= !matches!(part, Self::Call(function, _) if function.is_of_time()));
        timeless && self.is_constant() && !self.is_volatile()
    }

    /// Whether it reads neither columns nor computed values.
    pub fn is_constant(&self) -> bool {
        let mut constant = true;
        self.walk(&mut |part| constant &= !matches!(part, Self::Column { .. } | Self::Computed(_)));
        constant
    }

    /// Calls `change` for this expression and, if that returns true, for its parts.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        if !change(self)? {
            return Ok(());
        }
        match self {
            Self::Literal(_) | Self::Parameter(_) | Self::Column { .. } | Self::Computed(_) => Ok(()),
            Self::Compare(_, sides) | Self::Arithmetic(_, sides) | Self::Same(sides) => {
                sides.iter_mut().try_for_each(|side| side.rewrite(change))
            }
            Self::Negate(inner)
            | Self::Not(inner)
            | Self::IsNull(inner)
            | Self::Is(_, inner)
            | Self::Cast(inner, _) => inner.rewrite(change),
            Self::And(terms) | Self::Or(terms) | Self::Call(_, terms) => {
                terms.iter_mut().try_for_each(|term| term.rewrite(change))
            }
            Self::In(value, list) => {
                value.rewrite(change)?;
                list.iter_mut().try_for_each(|item| item.rewrite(change))
            }
            Self::Like(like) => {
                like.value.rewrite(change)?;
                like.pattern.rewrite(change)
            }
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    condition.rewrite(change)?;
                    result.rewrite(change)?;
                }
                otherwise.rewrite(change)
            }
        }
    }
}
