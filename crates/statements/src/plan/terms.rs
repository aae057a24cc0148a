//! Index-usable terms of a condition.

use crate::expression::{Comparison, Expr};

/// Index-usable terms of an AND over columns of one table.
#[derive(Clone)]
pub(super) struct Terms<'c> {
    pub comparisons: Vec<Sarg<'c>>,
    pub lists: Vec<List<'c>>,
}

/// `column comparison value`, with a value that is known before the table is read.
#[derive(Clone, Copy)]
pub(super) struct Sarg<'c> {
    /// Origin of the comparison.
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

/// Reference to a term of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    /// A top-level conjunct, by position.
    Conjunct(usize),
    /// A term of the side of an OR that is being considered, by position.
    OfAlternative(usize),
}

impl<'c> Terms<'c> {
    /// Extracts the terms for the table in `slot` from conjuncts; `known` are the slots whose rows are known. `name`
    /// makes the [`Term`] of a position.
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

    /// These terms together with those of an alternative.
    pub fn and(&self, alternative: Self) -> Self {
        let mut both = alternative;
        both.comparisons.extend_from_slice(&self.comparisons);
        both.lists.extend_from_slice(&self.lists);
        both
    }

    /// The equality comparison of a column.
    pub fn equal(&self, column: usize) -> Option<&Sarg<'c>> {
        self.comparisons.iter().find(|sarg| sarg.column == column && sarg.comparison == Comparison::Equal)
    }

    /// The first comparison of a column with one of these two operators.
    pub fn bound(&self, column: usize, comparisons: [Comparison; 2]) -> Option<&Sarg<'c>> {
        self.comparisons.iter().find(|sarg| sarg.column == column && comparisons.contains(&sarg.comparison))
    }
}

/// The top-level conjuncts of one side of an OR.
pub fn terms_of(alternative: &Expr) -> &[Expr] {
    match alternative {
        Expr::And(terms) => terms,
        other => std::slice::from_ref(other),
    }
}
