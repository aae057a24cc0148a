//! One replay.

use super::{Algorithm, Contents, Form, LookupReport, Report};
use crate::trace::{Lookup, Trace};

/// Replays `trace` against an empty cache of `capacity` bytes.
pub fn simulate(trace: &Trace, capacity: u64, algorithm: &mut dyn Algorithm) -> Report {
    let mut contents = Contents::new(trace, capacity);
    let mut lookups = Vec::with_capacity(trace.lookups.len());
    for (now, lookup) in trace.lookups.iter().enumerate() {
        let needs = lookup.partitions.iter().flat_map(|partition| &partition.segments);
        let hits: Vec<Option<Form>> = needs.map(|need| contents.form(need.id)).collect();
        algorithm.lookup(now, lookup, &mut contents);
        let mut report = measure(lookup, &hits, &contents);
        let loaded = contents.end_lookup();
        let stored = loaded.iter().filter_map(|id| trace.segments.get(id.position()));
        report.bytes_moved += stored.map(|segment| segment.stored_bytes).sum::<u64>();
        lookups.push(report);
    }
    Report { algorithm: algorithm.name(), lookups, evictions: contents.evictions() }
}

fn measure(lookup: &Lookup, hits: &[Option<Form>], contents: &Contents) -> LookupReport {
    let mut report = LookupReport { query: lookup.query, ..LookupReport::default() };
    let mut hits = hits.iter().copied();
    for partition in &lookup.partitions {
        let (mut whole, mut loads) = (true, false);
        let mut local_seconds = partition.local_seconds;
        for need in &partition.segments {
            let form = hits.next().flatten();
            let hit = form.is_some();
            if form == Some(Form::Stored) {
                local_seconds += need.decode_seconds;
            }
            let loaded = contents.has_loaded(need.id);
            report.segments += 1;
            report.hits += u64::from(hit);
            whole &= hit || loaded;
            if loaded {
                loads |= !hit;
                report.seconds += partition.load_seconds(need);
            }
        }
        report.partitions += 1;
        // A router takes the faster route.
        if whole && partition.other_seconds >= local_seconds {
            report.partitions_local += u64::from(!loads);
            report.partitions_loaded += u64::from(loads);
            report.seconds += local_seconds;
        } else {
            report.seconds += partition.other_seconds;
            report.bytes_moved += partition.other_bytes;
        }
    }
    report
}
