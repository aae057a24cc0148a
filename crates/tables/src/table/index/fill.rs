//! Filling of an empty index with all keys of a table at once.

use thermocline_types::Result;

use super::{Body, Index, OrderedSet, TupleId};
use crate::table::budget::{Budget, Full, Growth};
use crate::table::index::runs::Runs;
use crate::table::row::Row;

/// Result of filling an index: a key that violates its uniqueness, or `None`.
type Filled = Result<Option<Vec<u8>>, Full>;

impl Index {
    /// Enters all rows of a table, about `count` of them, into an empty index. `row` returns a row by its id.
    ///
    /// Keys of an ordered index are sorted first, and those of a hash index grouped by their place, so that entering a
    /// key does not wait for memory; meanwhile the keys exist twice.
    ///
    /// # Errors
    /// If `row` fails, or a key is too long.
    pub fn fill<'r>(
        &mut self,
        ids: impl Iterator<Item = TupleId>,
        count: usize,
        row: &mut dyn FnMut(TupleId) -> Result<Row<'r>>,
        budget: &Budget,
    ) -> Result<Filled> {
        // The new body is made from the definition.
        let mut body = std::mem::replace(&mut self.body, Body::Ordered(OrderedSet::new()));
        let filled = self.fill_body(&mut body, ids, count, row, budget);
        self.body = body;
        match filled? {
            Ok(Unfilled::None) => Ok(Ok(None)),
            Ok(Unfilled::Key(key)) => Ok(Ok(Some(key))),
            Ok(Unfilled::Rows(ids)) => self.enter_each(&ids, row, budget),
            Err(full) => Ok(Err(full)),
        }
    }

    fn fill_body<'r>(
        &self,
        body: &mut Body,
        mut ids: impl Iterator<Item = TupleId>,
        count: usize,
        row: &mut dyn FnMut(TupleId) -> Result<Row<'r>>,
        budget: &Budget,
    ) -> Result<Result<Unfilled, Full>> {
        let mut key = Vec::new();
        match body {
            Body::Hash { map, .. } => {
                let again = map.fill(count, budget, &mut |push| {
                    ids.try_for_each(|id| {
                        self.key(row(id)?, &mut key)?;
                        push(&key, id.0);
                        Ok(())
                    })
                })?;
                Ok(again.map(|again| match again.is_empty() {
                    true => Unfilled::None,
                    false => Unfilled::Rows(again.into_iter().map(TupleId).collect()),
                }))
            }
            Body::Ordered(set) => {
                let mut runs = Runs::new();
                ids.try_for_each(|id| {
                    let distinct = self.key(row(id)?, &mut key)?;
                    let key_bytes = key.len();
                    key.extend_from_slice(&id.0.to_be_bytes());
                    runs.push(&key, if distinct { key_bytes } else { key.len() });
                    Ok::<_, thermocline_types::Error>(())
                })?;
                let mut repeated = None;
                let merged = runs.merge(|entry, distinct| {
                    if repeated.is_none() && !set.insert(entry, distinct, budget, Growth::Forced)? {
                        repeated = entry.get(..distinct).map(<[u8]>::to_vec);
                    }
                    Ok(())
                });
                Ok(merged.map(|()| repeated.map_or(Unfilled::None, Unfilled::Key)))
            }
        }
    }

    /// Enters rows one by one.
    fn enter_each<'r>(
        &mut self,
        ids: &[TupleId],
        row: &mut dyn FnMut(TupleId) -> Result<Row<'r>>,
        budget: &Budget,
    ) -> Result<Filled> {
        let mut key = Vec::new();
        for id in ids {
            let distinct = self.key(row(*id)?, &mut key)?;
            match self.insert(&mut key, distinct, *id, budget, Growth::Forced) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(Some(key))),
                Err(full) => return Ok(Err(full)),
            }
        }
        Ok(Ok(None))
    }
}

/// Failure to enter the keys together.
enum Unfilled {
    None,
    /// A key shared with an earlier row.
    Key(Vec<u8>),
    /// Rows whose keys earlier rows have.
    Rows(Vec<TupleId>),
}
