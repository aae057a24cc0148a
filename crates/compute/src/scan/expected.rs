//! Expected size of a fragment's answer, for the storage node's arbitrator.

use datafusion::physical_plan::aggregates::AggregateExec;

use super::scan_plan::ScanPlan;

/// Bytes of a value whose width is not known.
const VALUE_BYTES: usize = 16;

/// Expected size of the answers to a scan's fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedAnswer {
    /// Bytes over all partitions, or of each if `each`; `None` if nothing is known.
    bytes: Option<f64>,
    /// Whether every partition yields that much: the groups of an aggregate, the K of a top-K.
    each: bool,
    /// Rows of all partitions.
    rows: u64,
}

impl ExpectedAnswer {
    /// That of `scan`: as executions have shown it, or as statistics say.
    pub(super) fn of(scan: &ScanPlan) -> Self {
        let all_rows = scan.partitions().iter().map(|(_, partition)| partition.rows).sum();
        let observed = scan.query().resources().experience.observed(scan.shape(), scan.expected(), None);
        if let Some(per_row) = observed.answer_bytes {
            return Self { bytes: Some(per_row * all_rows as f64), each: false, rows: all_rows };
        }
        let fragment = scan.fragment();
        let chain = fragment.chain();
        let each = chain
            .iter()
            .any(|operator| operator.downcast_ref::<AggregateExec>().is_some() || operator.fetch().is_some());
        let width: usize = fragment
            .schema()
            .fields()
            .iter()
            .map(|field| field.data_type().primitive_width().unwrap_or(VALUE_BYTES))
            .sum();
        // Statistics take every row for a group of its own. Who expects that much never finds out
        // how few groups there are.
        let grouped = |aggregate: &AggregateExec| !aggregate.group_expr().is_empty();
        let groups = chain.iter().any(|operator| operator.downcast_ref::<AggregateExec>().is_some_and(grouped));
        let rows = match groups {
            true => None,
            false => fragment.statistics().ok().and_then(|statistics| statistics.num_rows.get_value().copied()),
        };
        Self { bytes: rows.map(|rows| rows as f64 * width as f64), each, rows: all_rows }
    }

    /// Bytes of the answer for partitions of `rows` rows that are asked for together; 0 if not known,
    /// and at least 1 otherwise.
    pub(super) fn bytes(&self, rows: u64) -> u64 {
        let share = if self.each { 1.0 } else { rows as f64 / self.rows.max(1) as f64 };
        self.bytes.map_or(0, |bytes| (bytes * share).max(1.0) as u64)
    }
}
