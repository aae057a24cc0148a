//! What a query costs.

use thermocline_tables::partition::Scope;
use thermocline_types::Result;

use super::Select;
use crate::plan::{Access, Routing};

impl Select {
    /// How many rows the query reads, as far as that is known before it runs: those of its first table if all of them
    /// are read, and 0 where an index or a LIMIT says which. How many an index finds, and a join, is seen when they
    /// are read.
    ///
    /// The unit of cost is a row, because a partition is held for as long as rows are read: about a tenth of a
    /// microsecond for one that is filtered, and up to one for one that is grouped.
    pub fn rows_estimated(&self, scope: &Scope<'_>) -> Result<u64> {
        let Some(step) = self.steps.first() else { return Ok(0) };
        let reads_all = match &step.access {
            Access::Scan => true,
            Access::Range { parts, bounds, .. } => parts.is_empty() && bounds.is_none(),
            Access::Key { .. } | Access::Union { .. } => false,
        };
        // In the order of an index each partition gives no more than the limit; a filter may want any number for that.
        let limited =
            self.limit.is_some() && self.keeps_rows() && self.ordered && self.steps.len() == 1 && step.on.is_empty();
        let first_only = self.group.as_ref().is_some_and(|group| group.first_only);
        if !reads_all || limited || first_only {
            return Ok(0);
        }
        let (mut rows, mut seen, mut count) = (0_u64, 0_u64, 1_u64);
        for partition in scope.members() {
            rows += partition.table(step.table.id)?.rows() as u64;
            seen += 1;
            count = partition.count().into();
        }
        let wanted = match &self.routing {
            Routing::All => count,
            Routing::Several(keys) => count.min(keys.len() as u64),
            Routing::Any | Routing::One(_) | Routing::OneOfOuter(_) => 1,
        };
        // EXPLAIN has one partition, which speaks for the others.
        Ok((rows / seen.max(1)).saturating_mul(wanted))
    }
}
