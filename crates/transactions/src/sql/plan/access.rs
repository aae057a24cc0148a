//! Which index finds the rows of a table.

use crate::schema::{IndexDefinition, IndexId, IndexKind, TableDefinition};
use crate::sql::expression::{Comparison, Expr};
use crate::types::key::KeyColumn;

/// How a step finds rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// Every row in the order of tuple ids.
    Scan,
    /// Rows with one whole key; at most one if the index is unique.
    Key { index: IndexId, parts: Vec<KeyPart>, unique: bool, kind: IndexKind },
    /// Rows whose key begins with `parts` and goes on between bounds, in the order of the index.
    Range { index: IndexId, parts: Vec<KeyPart>, bounds: Option<Bounds>, reverse: bool },
}

impl Access {
    /// The key of a row in a hash index. Only such look-ups are read ahead: their keys lie anywhere, while those of
    /// an ordered index share most of their way.
    pub fn hashed_key(&self) -> Option<(IndexId, &[KeyPart])> {
        match self {
            Self::Key { index, parts, unique: true, kind: IndexKind::Hash } => Some((*index, parts)),
            _ => None,
        }
    }
}

/// A column of a key and the value it must have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyPart {
    pub column: KeyColumn,
    pub value: Expr,
}

/// Between which values a column must be; with either bound NULL is not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    pub column: KeyColumn,
    /// The value, and whether it is itself within.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
}

/// A column that rows are wanted in the order of; NULL where PostgreSQL puts it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderColumn {
    pub column: usize,
    pub descending: bool,
}

/// A way to find rows, compared by its score.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub access: Access,
    /// Which conjuncts it makes true, by position.
    pub used: Vec<usize>,
    /// Larger is better; 0 is a scan.
    pub score: u32,
    /// Whether rows come in the wanted order.
    pub ordered: bool,
}

/// `column comparison value` in a conjunct, with a value that is known before the table is read.
struct Sarg<'c> {
    conjunct: usize,
    column: usize,
    comparison: Comparison,
    value: &'c Expr,
}

/// The best access path of the table in `slot`, given conjuncts and the slots that are known before.
pub(super) fn choose(
    table: &TableDefinition,
    slot: usize,
    conjuncts: &[Expr],
    known: u32,
    order: Option<&[OrderColumn]>,
) -> Choice {
    let sargs: Vec<Sarg<'_>> =
        conjuncts.iter().enumerate().filter_map(|(position, conjunct)| sarg(position, conjunct, slot, known)).collect();
    let wanted = order.unwrap_or_default();
    let scan = Choice { access: Access::Scan, used: Vec::new(), score: 0, ordered: wanted.is_empty() };
    let choices = table.indexes.iter().filter_map(|index| of_index(table, index, &sargs, order));
    // The first of equals: the primary key before others.
    choices.fold(scan, |best, next| if next.score > best.score { next } else { best })
}

fn sarg(position: usize, conjunct: &Expr, slot: usize, known: u32) -> Option<Sarg<'_>> {
    let Expr::Compare(comparison, sides) = conjunct else { return None };
    let [left, right] = &**sides;
    let one_way = |side: &Expr, value: &Expr| match side {
        Expr::Column { slot: of, column } if *of == slot && value.slots() & !known == 0 && !value.is_volatile() => {
            Some(*column)
        }
        _ => None,
    };
    if *comparison == Comparison::NotEqual {
        return None;
    }
    if let Some(column) = one_way(left, right) {
        return Some(Sarg { conjunct: position, column, comparison: *comparison, value: right });
    }
    let column = one_way(right, left)?;
    Some(Sarg { conjunct: position, column, comparison: comparison.mirrored(), value: left })
}

fn of_index(
    table: &TableDefinition,
    index: &IndexDefinition,
    sargs: &[Sarg<'_>],
    order: Option<&[OrderColumn]>,
) -> Option<Choice> {
    let key_columns = table.key_columns(index);
    let mut parts = Vec::new();
    let mut used = Vec::new();
    for (key, column) in index.columns.iter().zip(&key_columns) {
        let equal = sargs.iter().find(|sarg| sarg.column == key.column && sarg.comparison == Comparison::Equal);
        let Some(equal) = equal else { break };
        parts.push(KeyPart { column: *column, value: equal.value.clone() });
        used.push(equal.conjunct);
    }
    let equal = parts.len();
    let whole = equal == index.columns.len();
    if whole {
        let score = if index.unique { 100_000 } else { 50_000 };
        let ordered = index.unique || order.unwrap_or_default().is_empty();
        let (index, unique, kind) = (index.id, index.unique, index.kind);
        // The columns behind a whole key of an ordered index are none, so it is no order either.
        return Some(Choice { access: Access::Key { index, parts, unique, kind }, used, score, ordered });
    }
    if index.kind == IndexKind::Hash {
        return None;
    }
    let next = index.columns.get(equal)?;
    let bound = |comparisons: [Comparison; 2]| {
        sargs.iter().find(|sarg| sarg.column == next.column && comparisons.contains(&sarg.comparison))
    };
    let low = bound([Comparison::Greater, Comparison::GreaterOrEqual]);
    let high = bound([Comparison::Less, Comparison::LessOrEqual]);
    let limits = [low, high].into_iter().flatten().count();
    used.extend([low, high].into_iter().flatten().map(|sarg| sarg.conjunct));
    let bounds = (limits > 0).then(|| {
        let value = |sarg: Option<&Sarg<'_>>| {
            sarg.map(|sarg| {
                let inclusive = matches!(sarg.comparison, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
                (sarg.value.clone(), inclusive)
            })
        };
        Some(Bounds { column: *key_columns.get(equal)?, low: value(low), high: value(high) })
    });
    let direction = order.and_then(|order| direction(index, equal, sargs, order));
    let wanted = order.is_some_and(|order| !order.is_empty());
    let mut score = u32::try_from(equal * 100 + limits * 20).unwrap_or(u32::MAX);
    if wanted && direction.is_some() {
        score += 10;
    }
    if score == 0 {
        return None;
    }
    Some(Choice {
        access: Access::Range {
            index: index.id,
            parts,
            bounds: bounds.flatten(),
            reverse: direction == Some(Direction::Backward),
        },
        used,
        score,
        ordered: !wanted || direction.is_some(),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// In which direction the index behind its first `equal` columns gives the wanted order, if it does.
fn direction(index: &IndexDefinition, equal: usize, sargs: &[Sarg<'_>], order: &[OrderColumn]) -> Option<Direction> {
    let constant =
        |column: usize| sargs.iter().any(|sarg| sarg.column == column && sarg.comparison == Comparison::Equal);
    let mut keys = index.columns.iter().skip(equal);
    let mut found = None;
    for wanted in order.iter().filter(|wanted| !constant(wanted.column)) {
        let Some(key) = keys.next() else {
            // Behind a whole unique key there is nothing left to order.
            return found.filter(|_| index.unique);
        };
        if key.column != wanted.column {
            return None;
        }
        let needed = if key.descending == wanted.descending { Direction::Forward } else { Direction::Backward };
        if found.is_some_and(|found| found != needed) {
            return None;
        }
        found = Some(needed);
    }
    found.or(Some(Direction::Forward))
}
