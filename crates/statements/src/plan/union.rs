//! Access to several keys or ranges of one index: `IN` and `OR`.

use thermocline_tables::key::KeyColumn;
use thermocline_tables::schema::{IndexDefinition, IndexKind, TableDefinition};

use super::access::{Access, Bounds, Choice, KeyRange, OrderColumn, PartValues, direction, is_backward};
use super::terms::{Term, Terms, terms_of};
use crate::expression::{Comparison, Expr};

/// Limit on keys of a range from lists of several columns. A single list may have any length; a further list that would
/// exceed the limit is left to the filter, as are the columns behind it.
const PRODUCT_MAX: usize = 4096;

/// The best access of an index to the rows of several keys or ranges; `None` where the condition names only one.
///
/// ```text
/// a = 1 AND b IN (2, 3) AND c > 4     a = 1, b = 2, c > 4 | a = 1, b = 3, c > 4
/// a = 1 AND (b = 2 AND c = 3 OR b > 5)    a = 1, b = 2, c = 3 | a = 1, b > 5
/// ```
///
/// Of several ORs, one makes ranges and the others are filters.
pub(super) fn union(
    table: &TableDefinition,
    index: &IndexDefinition,
    conjuncts: &[Expr],
    terms: &Terms<'_>,
    (slot, known): (usize, u32),
    order: Option<&[OrderColumn]>,
) -> Option<Choice> {
    let index = Keys { index, columns: &table.key_columns(index) };
    let lists = index.range(terms).into_iter().collect();
    let mut best = index.choice(lists, None, terms, order);
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let Expr::Or(sides) = conjunct else { continue };
        let ranges = sides.iter().map(|side| {
            let of_side = Terms::of(terms_of(side), slot, known, Term::OfAlternative);
            let mut found = index.range(&terms.and(of_side))?;
            found.complete = (0..terms_of(side).len()).all(|term| found.used.contains(&Term::OfAlternative(term)));
            Some(found)
        });
        let Some(ranges) = ranges.collect::<Option<Vec<_>>>() else { continue };
        let next = index.choice(ranges, Some(position), terms, order);
        if next.as_ref().map(|choice| choice.score) > best.as_ref().map(|choice| choice.score) {
            best = next;
        }
    }
    best
}

struct Keys<'i> {
    index: &'i IndexDefinition,
    columns: &'i [KeyColumn],
}

/// A range of an index and the terms that it fulfils.
struct Found {
    range: KeyRange,
    used: Vec<Term>,
    score: u32,
    /// Whether `used` includes all terms of this side of the OR.
    complete: bool,
}

impl Keys<'_> {
    /// The range of these terms; `None` if the index cannot use them.
    fn range(&self, terms: &Terms<'_>) -> Option<Found> {
        let mut range = KeyRange { parts: Vec::new(), bounds: None };
        let mut used = Vec::new();
        let mut score = 0;
        for (key, column) in self.index.columns.iter().zip(self.columns) {
            let (values, term) =
                match (terms.equal(key.column), terms.lists.iter().find(|list| list.column == key.column)) {
                    (Some(equal), _) => (std::slice::from_ref(equal.value), equal.term),
                    (None, Some(list)) if range.keys() == 1 || range.keys() * list.values.len() <= PRODUCT_MAX => {
                        (list.values, list.term)
                    }
                    _ => break,
                };
            score += if values.len() == 1 { 100 } else { 80 };
            used.push(term);
            range.parts.push(PartValues { column: *column, values: values.to_vec() });
        }
        if let Some((key, column)) = self.index.columns.iter().zip(self.columns).nth(range.parts.len()) {
            let low = terms.bound(key.column, [Comparison::Greater, Comparison::GreaterOrEqual]);
            let high = terms.bound(key.column, [Comparison::Less, Comparison::LessOrEqual]);
            if self.index.kind == IndexKind::Hash {
                return None;
            }
            for limit in [low, high].into_iter().flatten() {
                score += 20;
                used.push(limit.term);
            }
            range.bounds = Bounds::of(*column, low, high);
        } else {
            score = if self.index.unique { 60_000 } else { 30_000 };
        }
        (score > 0).then_some(Found { range, used, score, complete: true })
    }

    /// The access path of these ranges, which are sides of the OR at `position` if there is one.
    fn choice(
        &self,
        ranges: Vec<Found>,
        position: Option<usize>,
        terms: &Terms<'_>,
        order: Option<&[OrderColumn]>,
    ) -> Option<Choice> {
        let score = ranges.iter().map(|found| found.score).min()?;
        if ranges.iter().map(|found| found.range.keys()).sum::<usize>() < 2 {
            return None;
        }
        let conjuncts = |found: &Found| {
            let used = found.used.iter().filter_map(|term| match term {
                Term::Conjunct(position) => Some(*position),
                Term::OfAlternative(_) => None,
            });
            used.collect::<Vec<_>>()
        };
        let mut used = ranges.first().map(conjuncts).unwrap_or_default();
        used.retain(|term| ranges.iter().all(|found| conjuncts(found).contains(term)));
        used.extend(position.filter(|_| ranges.iter().all(|found| found.complete)));
        let ranges: Vec<KeyRange> = ranges.into_iter().map(|found| found.range).collect();
        let (ordered, reverse) = match (order, self.index.kind) {
            (None | Some([]), _) => (true, false),
            (Some(_), IndexKind::Hash) => (false, false),
            (Some(order), IndexKind::Ordered) => {
                let found = direction((self.index, self.columns), alike(&ranges), terms, order);
                (found.is_some(), found.is_some_and(is_backward))
            }
        };
        let (index, kind) = (self.index.id, self.index.kind);
        let score = if order.is_some_and(|order| !order.is_empty()) && ordered { score + 10 } else { score };
        Some(Choice { access: Access::Union { index, kind, ranges, reverse }, used, score, ordered })
    }
}

/// Number of leading columns that have the same single value in all ranges.
fn alike(ranges: &[KeyRange]) -> usize {
    let Some((first, rest)) = ranges.split_first() else { return 0 };
    let mut parts = first.parts.iter().enumerate();
    let other = parts.position(|(place, part)| {
        part.values.len() > 1 || rest.iter().any(|range| range.parts.get(place).is_none_or(|other| other != part))
    });
    other.unwrap_or(first.parts.len())
}
