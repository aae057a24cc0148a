//! A lookup as it is recorded: what each partition would cost by each route.

use thermocline_cache::SegmentRequest;
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_replay::trace::{RecordedPartition, RecordedSegment};

use super::candidate::Candidate;
use super::costing::Costing;
use super::scan_plan::ScanPlan;

/// Adds the lookup of `requests`, those of the candidates for which the cache is used, to the recording, if there is one.
pub(super) fn record(
    scan: &ScanPlan,
    costing: &Costing<'_>,
    candidates: &[Candidate<'_>],
    requests: &[Vec<SegmentRequest>],
) {
    let resources = scan.query().resources();
    if requests.is_empty() || !resources.is_traced() {
        return;
    }
    let looked_up = candidates.iter().filter(|candidate| candidate.uses_cache);
    let partitions: Vec<_> = looked_up
        .zip(requests)
        .map(|(Candidate { object, partition, .. }, segments)| recorded(scan, costing, object, partition, segments))
        .collect();
    resources.trace_lookup(scan.query().id(), &partitions);
}

fn recorded(
    scan: &ScanPlan,
    costing: &Costing<'_>,
    object: &PlannedObject,
    partition: &Partition,
    segments: &[SegmentRequest],
) -> RecordedPartition<String> {
    let columns = scan.columns();
    let fetched = costing.fetched(object, partition, (columns, &[]), true);
    let pushes = scan.may_push(object) && scan.fragment().reduces();
    let pushed = pushes.then(|| costing.pushed(object, partition, None));
    let local = costing.seconds(object, &costing.local(partition));
    let by_route = [Some(fetched), pushed].into_iter().flatten();
    let by_route = by_route.map(|cost| (costing.seconds(object, &cost), cost.link_bytes));
    let (other_seconds, other_bytes) = by_route.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    let segment = |(request, column): (&SegmentRequest, &usize)| {
        let stored_bytes = partition.stored_bytes(&[*column]);
        let seconds = |missing: &[usize], stored: &[usize]| {
            let cost = costing.fetched(object, partition, (missing, stored), true);
            (costing.seconds(object, &cost) - local).max(0.0)
        };
        let load_seconds = seconds(&[*column], &[]);
        RecordedSegment {
            key: request.key.to_string(),
            bytes: request.bytes as u64,
            stored_bytes,
            load_seconds,
            decode_seconds: seconds(&[], &[*column]).min(load_seconds),
            miss_seconds: request.miss_seconds,
        }
    };
    RecordedPartition {
        local_seconds: local,
        other_seconds,
        other_bytes: other_bytes as u64,
        load_seconds_per_segment: 0.0,
        segments: segments.iter().zip(columns).map(segment).collect(),
    }
}
