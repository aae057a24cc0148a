//! Partitions whose few needed rows an index is expected to find.

use std::sync::Arc;

use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::Lookup;

use super::scan_plan::ScanPlan;
use crate::index::Indexes;

/// Rows of which at most one may be needed for the router to count on an index. Where more are needed,
/// loading columns that later queries find cached may serve better; a node that is asked decides for itself.
const ROWS_PER_FIND: f64 = 100.0;

/// The indexes that storage nodes may use for `scan`; `None` if there are none.
pub(super) fn indexes_of(scan: &ScanPlan) -> Option<Arc<Indexes>> {
    let indexes = &scan.query().resources().indexes;
    let some = scan.uses_indexes() && !indexes.of_table(scan.table_name()).is_empty();
    some.then(|| Arc::clone(indexes))
}

/// Tells for which partitions a storage node's index is expected to find few rows. These are worth
/// pushing whatever their format is and whatever room the cache has: next to nothing is read, and
/// next to nothing comes.
#[derive(Debug)]
pub(super) struct ByIndex<'a> {
    scan: &'a ScanPlan,
    indexes: Arc<Indexes>,
    lookups: Vec<Lookup>,
    /// Share of rows that the fragment's filter is expected to keep.
    selectivity: f64,
}

impl<'a> ByIndex<'a> {
    /// `None` if no index can help.
    pub(super) fn new(scan: &'a ScanPlan) -> Option<Self> {
        let indexes = indexes_of(scan)?;
        let defined = indexes.of_table(scan.table_name());
        let mut lookups = Lookup::of(scan.fragment().predicate()?);
        lookups.retain(|lookup| defined.iter().any(|index| index.column == lookup.column));
        if lookups.is_empty() {
            return None;
        }
        let expected = scan.expected();
        let observed = scan.query().resources().experience.observed(scan.shape(), expected, None);
        let selectivity = observed.selectivity.unwrap_or(expected.selectivity);
        Some(Self { scan, indexes, lookups, selectivity })
    }

    /// Whether to push the fragment over this partition.
    pub(super) fn pays(&self, object: &PlannedObject, partition: &Partition) -> bool {
        let share_of = |lookup: &Lookup| {
            let rows_per_value = self.indexes.rows_per_value(self.scan.table_name(), &lookup.column, object)?;
            let rows = lookup.points().map(|values| values as f64 * rows_per_value);
            let share = rows.map_or(1.0, |rows| rows / (partition.rows as f64).max(1.0));
            Some(share.min(self.selectivity))
        };
        self.scan.may_push(object) && self.lookups.iter().filter_map(share_of).any(|share| share * ROWS_PER_FIND <= 1.0)
    }
}
