//! Cost estimate of queries.

use thermocline_tables::partition::Scope;
use thermocline_types::Result;

use super::Select;
use crate::plan::{Access, Needs, Routing};

/// Rows in memory that take as long to read as an evicted one.
const EVICTED_COST: u64 = 10;

impl Select {
    /// Estimates the rows that the query reads: the rows of its first table if it reads all of them, and 0 if an index
    /// or a LIMIT restricts them. Rows found by an index or a join are not estimated; they count when they are read.
    ///
    /// The unit of cost is a row, because the query occupies its partition while it reads: about 0.1 µs for a row that
    /// is filtered, and up to 1 µs for a row that is grouped. Reading an evicted row takes as long as some others.
    pub fn rows_estimated(&self, scope: &Scope<'_>) -> Result<u64> {
        let Some(step) = self.steps.first() else { return Ok(0) };
        let reads_all = match &step.access {
            Access::Scan => true,
            Access::Range { parts, bounds, .. } => parts.is_empty() && bounds.is_none(),
            Access::Key { .. } | Access::Union { .. } => false,
        };
        // In index order, each partition reads no more rows than the limit, unless there is a filter.
        let limited =
            self.limit.is_some() && self.keeps_rows() && self.ordered && self.steps.len() == 1 && step.on.is_empty();
        let first_only = self.group.as_ref().is_some_and(|group| group.first_only);
        if !reads_all || limited || first_only {
            return Ok(0);
        }
        let (mut rows, mut seen, mut count) = (0_u64, 0_u64, 1_u64);
        for partition in scope.members() {
            let table = partition.table(step.table.id)?;
            rows += table.rows() as u64;
            if step.needs == Needs::Row {
                rows += EVICTED_COST * table.evicted_rows() as u64;
            }
            seen += 1;
            count = partition.count().into();
        }
        let wanted = match &self.routing {
            Routing::All => count,
            Routing::Several(keys) => count.min(keys.len() as u64),
            Routing::Any | Routing::One(_) | Routing::OneOfOuter(_) => 1,
        };
        // EXPLAIN sees one partition and extrapolates to the others.
        Ok((rows / seen.max(1)).saturating_mul(wanted))
    }
}
