//! What a condition says of the columns of one table, for choosing an index.

use crate::expression::{Comparison, Expr};

/// Conditions on columns of one table that hold together: the terms of an AND.
#[derive(Clone)]
pub(super) struct Terms<'c> {
    pub comparisons: Vec<Sarg<'c>>,
    pub lists: Vec<List<'c>>,
}

/// `column comparison value`, with a value that is known before the table is read.
#[derive(Clone, Copy)]
pub(super) struct Sarg<'c> {
    /// The term that says so.
    pub term: Term,
    pub column: usize,
    pub comparison: Comparison,
    pub value: &'c Expr,
}

/// `column IN (values)`, with values that are known before the table is read.
#[derive(Clone, Copy)]
pub(super) struct List<'c> {
    pub term: Term,
    pub column: usize,
    pub values: &'c [Expr],
}

/// Which term of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    /// One of those that AND joins at the top, by position.
    Conjunct(usize),
    /// One of an alternative: a side of the OR that is read.
    OfAlternative(usize),
}

impl<'c> Terms<'c> {
    /// What the terms of an AND say of the table in `slot`; `known` are the slots whose rows are there before. `name`
    /// makes the term of a position.
    pub fn of(conjuncts: &'c [Expr], slot: usize, known: u32, name: impl Fn(usize) -> Term) -> Self {
        let mut terms = Self { comparisons: Vec::new(), lists: Vec::new() };
        for (position, conjunct) in conjuncts.iter().enumerate() {
            terms.add(conjunct, slot, known, name(position));
        }
        terms
    }

    fn add(&mut self, conjunct: &'c Expr, slot: usize, known: u32, term: Term) {
        let column = |side: &Expr| match side {
            Expr::Column { slot: of, column } if *of == slot => Some(*column),
            _ => None,
        };
        let is_known = |value: &Expr| value.slots() & !known == 0 && !value.is_volatile();
        match conjunct {
            Expr::Compare(comparison, sides) if *comparison != Comparison::NotEqual => {
                let [left, right] = &**sides;
                if let Some(column) = column(left).filter(|_| is_known(right)) {
                    self.comparisons.push(Sarg { term, column, comparison: *comparison, value: right });
                } else if let Some(column) = column(right).filter(|_| is_known(left)) {
                    self.comparisons.push(Sarg { term, column, comparison: comparison.mirrored(), value: left });
                }
            }
            Expr::In(value, list) if list.iter().all(is_known) => {
                if let Some(column) = column(value) {
                    self.lists.push(List { term, column, values: list });
                }
            }
            _ => {}
        }
    }

    /// The same and what an alternative says.
    pub fn and(&self, alternative: Self) -> Self {
        let mut both = alternative;
        both.comparisons.extend_from_slice(&self.comparisons);
        both.lists.extend_from_slice(&self.lists);
        both
    }

    /// The equation of a column.
    pub fn equal(&self, column: usize) -> Option<&Sarg<'c>> {
        self.comparisons.iter().find(|sarg| sarg.column == column && sarg.comparison == Comparison::Equal)
    }

    /// The first comparison of a column that is one of these two.
    pub fn bound(&self, column: usize, comparisons: [Comparison; 2]) -> Option<&Sarg<'c>> {
        self.comparisons.iter().find(|sarg| sarg.column == column && comparisons.contains(&sarg.comparison))
    }
}

/// The terms that AND joins at the top of one side of an OR, without copying them.
pub fn terms_of(alternative: &Expr) -> &[Expr] {
    match alternative {
        Expr::And(terms) => terms,
        other => std::slice::from_ref(other),
    }
}
