//! Companions of loads of text: columns that earlier queries have asked for.

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_cache::{Access, SegmentKey, SegmentRequest};
use thermocline_pushdown::{FileFormat, Mode, PartitionRange, Route};

use super::costing::Costing;
use super::keys::{decodings, names_of_text, object_key};
use super::scan_plan::ScanPlan;
use super::work::{Companion, Work};
use crate::query::ScanMetrics;

/// Adds companions to the loads among `works`, as far as the cache admits them: columns of the same text that queries have
/// asked for before, and that the cache does not have. Whoever loads columns of text fetches all of it, and the next query
/// would fetch it again for others. A partition of Parquet has no companions: its columns are fetched one by one.
pub(super) fn add_companions(scan: &ScanPlan, costing: &Costing<'_>, works: &mut [Work], metrics: &ScanMetrics) {
    let loads = |work: &Work| work.route == Route::Load;
    if scan.settings().mode != Mode::Auto || !matches!(scan.format(), FileFormat::Csv(_)) || !works.iter().any(loads) {
        return;
    }
    let cache = &scan.query().resources().cache;
    let columns: Vec<usize> = (0..scan.table_schema().fields().len()).collect();
    let names = names_of_text(scan);
    let (mut places, mut requests) = (vec![], vec![]);
    let mut last = None;
    for (position, work) in works.iter().enumerate().filter(|(_, work)| loads(work)) {
        // Partitions of one object follow each other.
        let is_known = last.as_ref().is_some_and(|(object, _)| Arc::ptr_eq(object, &work.object));
        if !is_known {
            let mut wanted: HashMap<PartitionRange, Vec<(usize, SegmentKey)>> = HashMap::new();
            let decodings = decodings(scan, &work.object, names, &columns);
            for key in cache.wanted_columns(&object_key(scan, &work.object)) {
                let column = key.kind.column_name().and_then(|name| scan.table_schema().index_of(name).ok());
                // Under a former definition of the table, it had other values.
                let column = column.filter(|column| decodings.get(*column) == Some(&key.decoding));
                if let Some(column) = column.filter(|column| !scan.columns().contains(column)) {
                    wanted.entry(key.partition).or_default().push((column, key));
                }
            }
            last = Some((Arc::clone(&work.object), wanted));
        }
        let wanted = last.as_mut().and_then(|(_, wanted)| wanted.remove(&work.partition.range)).unwrap_or_default();
        let miss = costing.miss(&work.object, &work.partition);
        for (column, key) in wanted {
            let bytes = work.partition.memory_bytes(column);
            places.push((position, column));
            requests.push(vec![SegmentRequest {
                key,
                bytes,
                miss_seconds: miss.seconds(bytes),
                columns: 1,
                stored: None,
            }]);
        }
    }
    let mut accesses: Vec<Vec<Access>> = requests.iter().map(|_| vec![Access::Missing]).collect();
    metrics.segments_evicted.add(cache.admit(&requests, &mut accesses, &vec![true; requests.len()]));
    for ((position, column), access) in places.into_iter().zip(accesses.into_iter().flatten()) {
        if let (Some(work), Access::Load(share)) = (works.get_mut(position), access) {
            work.companions.push(Companion { column, share });
        }
    }
}
