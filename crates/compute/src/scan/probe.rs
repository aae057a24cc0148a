//! First look at the link to a storage of which nothing is known.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_catalog::PlannedObject;
use thermocline_formats::RangeSource;
use thermocline_pushdown::Mode;

use super::remote::RemoteSource;
use super::scan_plan::ScanPlan;
use crate::model::StorageRates;
use crate::query::ScanMetrics;

/// Bytes of the reads, one after the other, until the link is known: on a slow one the first are enough. The first of
/// them tells the round trip.
const READS: [u64; 5] = [1, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// Reads some stored bytes from each storage over whose link none have come yet, so that the model can choose: 30 ms at
/// 50 Mbit/s, 10 ms at 1 Gbit/s. A read that fails leaves what is assumed; the query itself will meet the failure.
pub(super) async fn probed(scan: &ScanPlan, metrics: &ScanMetrics) {
    if scan.settings().mode != Mode::Auto || scan.link_is_free() {
        return;
    }
    let mut last: Option<&Arc<PlannedObject>> = None;
    for (object, _) in scan.partitions() {
        if last.is_some_and(|last| last.node.label() == object.node.label()) {
            continue;
        }
        last = Some(object);
        if !object.node.capabilities().crosses_link {
            continue;
        }
        let rates = scan.query().resources().model.storage(object.node.label());
        if rates.lock().begin_probe() {
            probe(scan, object, &rates, metrics).await;
        }
    }
}

async fn probe(scan: &ScanPlan, object: &Arc<PlannedObject>, rates: &Arc<Mutex<StorageRates>>, metrics: &ScanMetrics) {
    let source = RemoteSource {
        object: Arc::clone(object),
        origin: scan.query().origin(),
        metrics: metrics.clone(),
        pushback: None,
        rates: Arc::clone(rates),
    };
    for bytes in READS {
        let range: Range<u64> = 0..bytes.min(object.entry.size);
        if range.is_empty() || rates.lock().knows_link() || source.read(&[range]).await.is_err() {
            return;
        }
    }
}
