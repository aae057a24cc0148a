//! Whether pushdown of a partition pays, beside pullup.

use thermocline_catalog::{Partition, PlannedObject};

use super::scan_plan::ScanPlan;
use crate::learning::Place;

/// Whether the fragment may run at the partition's storage node and is expected to pay.
pub(super) fn pushdown_pays(scan: &ScanPlan, object: &PlannedObject, partition: &Partition) -> bool {
    let raw_is_smaller = || {
        let place = Place::new(&object.path, partition.range);
        scan.query().resources().experience.raw_is_smaller(scan.shape(), scan.expected(), place)
    };
    // Parquet's own bytes, and those of compressed text, are smaller than Arrow's for the same rows; a
    // partition of plain text is larger than any part of it.
    let pays = partition.is_plain_text() || (scan.fragment().reduces() && !raw_is_smaller());
    scan.may_push(object) && pays && (!scan.link_is_free() || pays_without_link(scan))
}

/// Whether a fragment pays where no link is crossed: if its answer is next to nothing, that is, has at most
/// `ANSWER_BYTES_PER_ROW_MAX`, as far as executions have shown.
fn pays_without_link(scan: &ScanPlan) -> bool {
    const ANSWER_BYTES_PER_ROW_MAX: f64 = 0.25;
    let observed = scan.query().resources().experience.observed(scan.shape(), scan.expected(), None).answer_bytes;
    scan.fragment().condenses() && observed.is_none_or(|bytes| bytes <= ANSWER_BYTES_PER_ROW_MAX)
}
