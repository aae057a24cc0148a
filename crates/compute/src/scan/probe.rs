//! First look at the link to a storage of which nothing is known.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use thermocline_catalog::PlannedObject;
use thermocline_formats::RangeSource;
use thermocline_pushdown::Route;

use super::remote::RemoteSource;
use super::scan_plan::ScanPlan;
use super::work::Work;
use crate::model::Probe;
use crate::query::ScanMetrics;

/// Bytes of the smallest object that tells a bandwidth.
const OBJECT_BYTES_MIN: u64 = 64 << 10;

/// Begins to read some stored bytes from each storage whose bandwidth is not known, or was not looked at for long, until the
/// model knows it: about 30 ms and 200 KiB in the first probe at 50 Mbit/s, 20 ms and 2 MiB at 1 Gbit/s. It begins with the
/// plan, while cores are free, and nobody waits for it: as long as a link is unknown it is taken to be slow, and little is
/// asked of it. A read that fails leaves it unknown; the query itself will meet the failure.
pub(super) fn begin_probes(scan: &ScanPlan) {
    begin(scan, scan.partitions().iter().map(|(object, _)| object), false);
}

/// Begins more where the first ones have told too little, over links that carry bytes of `works` anyway.
pub(super) fn begin_more_probes(scan: &ScanPlan, works: &[Work]) {
    let moving = works.iter().filter(|work| !matches!(work.route, Route::Local | Route::Answered));
    begin(scan, moving.map(|work| &work.object), true);
}

/// Begins a probe of the link to each storage of `objects`.
fn begin<'a>(scan: &ScanPlan, objects: impl Iterator<Item = &'a Arc<PlannedObject>>, moves: bool) {
    if !scan.is_routed_by_model() {
        return;
    }
    let mut largest: HashMap<&str, &Arc<PlannedObject>> = HashMap::new();
    let mut last: Option<&Arc<PlannedObject>> = None;
    for object in objects {
        // Partitions of an object follow each other.
        if last.is_some_and(|last| Arc::ptr_eq(last, object)) || !object.node.capabilities().crosses_link {
            continue;
        }
        last = Some(object);
        let known = largest.entry(object.node.label()).or_insert(object);
        if object.entry.size > known.entry.size {
            *known = object;
        }
    }
    for (label, object) in largest {
        let rates = scan.query().resources().model.storage(label);
        if object.entry.size < OBJECT_BYTES_MIN {
            continue;
        }
        let Some(under_way) = Probe::begin(&rates, moves) else { continue };
        let metrics = ScanMetrics::new();
        scan.query().register(metrics.clone(), 0);
        let source = RemoteSource::new(object, scan.query(), &metrics, None, None);
        // It ends by itself.
        tokio::spawn(probe(source, object.entry.size, under_way));
    }
}

async fn probe(source: RemoteSource, size: u64, mut under_way: Probe) {
    // The very first tells the round trip.
    let mut bytes = 1;
    while bytes <= size && !under_way.is_over() {
        let began = Instant::now();
        if source.read(&[Range { start: 0, end: bytes }]).await.is_err() {
            return;
        }
        if bytes == 1 {
            under_way.reached(began.elapsed());
            bytes = under_way.first_bytes();
        } else {
            under_way.read(bytes, began.elapsed());
            bytes *= 2;
        }
    }
}
