//! Choice of the access path of a table.

use thermocline_tables::key::KeyColumn;
use thermocline_tables::schema::{IndexDefinition, IndexId, IndexKind, TableDefinition};

use super::terms::{Sarg, Term, Terms};
use super::union::union;
use crate::expression::{Comparison, Expr};

/// How a step finds rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// Every row in the order of tuple ids.
    Scan,
    /// Rows with one complete key; at most one if the index is unique.
    Key { index: IndexId, parts: Vec<KeyPart>, unique: bool, kind: IndexKind },
    /// Rows whose key begins with `parts` and goes on between bounds, in the order of the index.
    Range { index: IndexId, parts: Vec<KeyPart>, bounds: Option<Bounds>, reverse: bool },
    /// Rows of several keys or ranges of one index, each row once, in the order of the index; of a hash index, complete
    /// keys in the order of their bytes.
    Union { index: IndexId, kind: IndexKind, ranges: Vec<KeyRange>, reverse: bool },
}

impl Access {
    /// The key of a unique look-up in a hash index. Only these are read ahead: their keys are scattered, while descents
    /// of an ordered index share most of their path.
    pub fn hashed_key(&self) -> Option<(IndexId, &[KeyPart])> {
        match self {
            Self::Key { index, parts, unique: true, kind: IndexKind::Hash } => Some((*index, parts)),
            _ => None,
        }
    }
}

/// A key column and its required value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyPart {
    pub column: KeyColumn,
    pub value: Expr,
}

/// A key column and its permitted values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartValues {
    pub column: KeyColumn,
    pub values: Vec<Expr>,
}

/// Keys that begin with one value of each part and go on between bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyRange {
    pub parts: Vec<PartValues>,
    pub bounds: Option<Bounds>,
}

impl KeyRange {
    /// Number of key prefixes.
    pub fn keys(&self) -> usize {
        self.parts.iter().map(|part| part.values.len()).fold(1, usize::saturating_mul)
    }
}

/// Range of a column; either bound excludes NULL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    pub column: KeyColumn,
    /// The limit, and whether it is inclusive.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
}

impl Bounds {
    /// Makes bounds from the comparisons of a column; `None` if there are none.
    pub(super) fn of(column: KeyColumn, low: Option<&Sarg<'_>>, high: Option<&Sarg<'_>>) -> Option<Self> {
        let limit = |sarg: &Sarg<'_>| {
            let inclusive = matches!(sarg.comparison, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
            (sarg.value.clone(), inclusive)
        };
        (low.is_some() || high.is_some()).then(|| Self { column, low: low.map(limit), high: high.map(limit) })
    }
}

/// A column of the wanted order, with NULLs where PostgreSQL puts them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderColumn {
    pub column: usize,
    pub descending: bool,
}

/// A candidate access path, compared by its score.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub access: Access,
    /// Positions of the conjuncts that it fulfils.
    pub used: Vec<usize>,
    /// Larger is better; a scan has 0.
    pub score: u32,
    /// Whether rows come in the wanted order.
    pub ordered: bool,
}

/// The best access path of the table in `slot`, given the conjuncts and the slots whose rows are known.
pub(super) fn choose(
    table: &TableDefinition,
    slot: usize,
    conjuncts: &[Expr],
    known: u32,
    order: Option<&[OrderColumn]>,
) -> Choice {
    let terms = Terms::of(conjuncts, slot, known, Term::Conjunct);
    let wanted = order.unwrap_or_default();
    let scan = Choice { access: Access::Scan, used: Vec::new(), score: 0, ordered: wanted.is_empty() };
    // No unions with volatile conditions: they would be evaluated a different number of times.
    let unions = !conjuncts.iter().any(Expr::is_volatile);
    let choices = table.indexes.iter().flat_map(|index| {
        let union = unions.then(|| union(table, index, conjuncts, &terms, (slot, known), order));
        [of_index(table, index, &terms, order), union.flatten()]
    });
    // The first of equals wins: the primary key before others.
    choices.flatten().fold(scan, |best, next| if next.score > best.score { next } else { best })
}

fn of_index(
    table: &TableDefinition,
    index: &IndexDefinition,
    terms: &Terms<'_>,
    order: Option<&[OrderColumn]>,
) -> Option<Choice> {
    let key_columns = table.key_columns(index);
    let mut parts = Vec::new();
    let mut used = Vec::new();
    for (key, column) in index.columns.iter().zip(&key_columns) {
        let Some(equal) = terms.equal(key.column) else { break };
        parts.push(KeyPart { column: *column, value: equal.value.clone() });
        used.push(equal.term);
    }
    let equal = parts.len();
    let whole = equal == index.columns.len();
    if whole {
        let score = if index.unique { 100_000 } else { 50_000 };
        let ordered = index.unique || order.unwrap_or_default().is_empty();
        let (index, unique, kind) = (index.id, index.unique, index.kind);
        // A complete key leaves no columns that could give an order.
        let used = positions(&used);
        return Some(Choice { access: Access::Key { index, parts, unique, kind }, used, score, ordered });
    }
    if index.kind == IndexKind::Hash {
        return None;
    }
    let next = index.columns.get(equal)?;
    let low = terms.bound(next.column, [Comparison::Greater, Comparison::GreaterOrEqual]);
    let high = terms.bound(next.column, [Comparison::Less, Comparison::LessOrEqual]);
    let limits = [low, high].into_iter().flatten().count();
    used.extend([low, high].into_iter().flatten().map(|sarg| sarg.term));
    let bounds = Bounds::of(*key_columns.get(equal)?, low, high);
    let direction = order.and_then(|order| direction((index, &key_columns), equal, terms, order));
    let wanted = order.is_some_and(|order| !order.is_empty());
    let mut score = u32::try_from(equal * 100 + limits * 20).unwrap_or(u32::MAX);
    if wanted && direction.is_some() {
        score += 10;
    }
    if score == 0 {
        return None;
    }
    Some(Choice {
        access: Access::Range { index: index.id, parts, bounds, reverse: direction.is_some_and(is_backward) },
        used: positions(&used),
        score,
        ordered: !wanted || direction.is_some(),
    })
}

fn positions(terms: &[Term]) -> Vec<usize> {
    let position = |term: &Term| match term {
        Term::Conjunct(position) => Some(*position),
        Term::OfAlternative(_) => None,
    };
    terms.iter().filter_map(position).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

pub(super) fn is_backward(direction: Direction) -> bool {
    direction == Direction::Backward
}

/// The direction in which the index, behind its first `equal` columns, gives the wanted order; `None` if it does not.
pub(super) fn direction(
    (index, key_columns): (&IndexDefinition, &[KeyColumn]),
    equal: usize,
    terms: &Terms<'_>,
    order: &[OrderColumn],
) -> Option<Direction> {
    let constant = |column: usize| terms.equal(column).is_some();
    let mut keys = index.columns.iter().skip(equal);
    let mut found = None;
    for wanted in order.iter().filter(|wanted| !constant(wanted.column)) {
        let Some(key) = keys.next() else {
            // A complete unique key leaves nothing to order, unless several rows share it because of a NULL.
            let distinct = index.unique && !key_columns.iter().skip(equal).any(|column| column.nullable);
            return found.filter(|_| distinct);
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
