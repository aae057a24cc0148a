//! Rows of bulk loads, hidden until their load ends.

use thermocline_machine::ids::LoadId;

use super::budget::{Budget, Full, Growth};
use super::tuple_ids::{TupleId, TupleIds};
use crate::schema::TableId;

/// A bulk load and the table that it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableLoad {
    /// The table.
    pub table: TableId,
    /// The load.
    pub load: LoadId,
}

/// Rows of one table and partition that bulk loads have inserted, hidden until their load ends.
///
/// ```text
///             hide             release (one row, undo or take back)
///  new row ----------> hidden -------------------------------------> gone
///                        |
///                        +-- end: all rows of the load at once ----> like any other row
/// ```
///
/// Invariant: hidden ids are taken ids of the table, each of one load.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    loads: Vec<(LoadId, TupleIds)>,
    /// The load that is inserting a row; `None` if no load is.
    pub inserting: Option<LoadId>,
}

impl Loads {
    /// Whether there are no loads, which is nearly always so.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Whether a row is hidden.
    #[inline]
    pub fn hide(&self, id: TupleId) -> bool {
        self.loads.iter().any(|(_, ids)| ids.contains(id))
    }

    /// Whether a row is hidden from the current insertion.
    pub fn hide_from_inserting(&self, id: TupleId) -> bool {
        self.loads.iter().any(|(load, ids)| Some(*load) != self.inserting && ids.contains(id))
    }

    /// Each load with its hidden rows.
    pub fn iter(&self) -> impl Iterator<Item = (LoadId, &TupleIds)> {
        self.loads.iter().map(|(load, ids)| (*load, ids))
    }

    /// Number of hidden rows.
    pub fn rows(&self) -> usize {
        self.loads.iter().map(|(_, ids)| ids.live()).sum()
    }

    /// Bytes of the bitmaps.
    pub fn bytes(&self) -> usize {
        self.loads.iter().map(|(_, ids)| ids.bytes()).sum()
    }

    /// Hides a row of a load.
    pub fn add(&mut self, load: LoadId, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let at = self.loads.iter().position(|(known, _)| *known == load).unwrap_or_else(|| {
            self.loads.push((load, TupleIds::new()));
            self.loads.len() - 1
        });
        self.loads.get_mut(at).map_or(Ok(()), |(_, ids)| ids.take(id, budget, growth).map(|_| ()))
    }

    /// Removes a row that is gone.
    #[inline]
    pub fn release(&mut self, id: TupleId) {
        if !self.loads.is_empty() {
            for (_, ids) in &mut self.loads {
                ids.release(id);
            }
        }
    }

    /// The first hidden row of a load at or after an id.
    pub fn next(&self, load: LoadId, from: TupleId) -> Option<TupleId> {
        self.loads.iter().find(|(known, _)| *known == load).and_then(|(_, ids)| ids.next(from))
    }

    /// Makes the rows of a load visible.
    pub fn end(&mut self, load: LoadId, budget: &Budget) {
        self.loads.retain(|(known, ids)| {
            let keep = *known != load;
            if !keep {
                budget.resize(ids.bytes(), 0);
            }
            keep
        });
    }
}
