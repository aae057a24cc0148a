//! A trace as requests and chains of uses.

use crate::numbered::Numbered;
use crate::trace::{SegmentId, Trace};

/// One partition in one lookup.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) time: usize,
    /// Seconds saved if all of its segments are there; not negative.
    pub(super) gain: f64,
    /// Its uses: segments, and positions in their chains.
    pub(super) needs: Vec<(SegmentId, usize)>,
}

/// One use of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) time: usize,
    pub(super) request: usize,
    pub(super) load_seconds: f64,
}

/// All requests of a trace.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) requests: Numbered<Request>,
    /// Uses by segment, in order.
    pub(super) chains: Numbered<Vec<Use>>,
    pub(super) bytes: Numbered<u64>,
    /// Seconds if nothing is ever cached.
    pub(super) base_seconds: f64,
    pub(super) lookups: usize,
}

impl Requests {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut chains: Numbered<Vec<Use>> = Numbered::of(vec![], trace.segments.len());
        let mut requests = Numbered::default();
        let mut base_seconds = 0.0;
        for (time, lookup) in trace.lookups.iter().enumerate() {
            for partition in &lookup.partitions {
                let gain = partition.gain().max(0.0);
                base_seconds += partition.other_seconds;
                if partition.segments.is_empty() {
                    base_seconds -= gain;
                    continue;
                }
                let request = requests.len();
                let mut needs = vec![];
                for need in &partition.segments {
                    let chain = &mut chains[need.id];
                    needs.push((need.id, chain.len()));
                    chain.push(Use { time, request, load_seconds: partition.load_seconds(need) });
                }
                requests.push(Request { time, gain, needs });
            }
        }
        let bytes = trace.segments.iter().map(|segment| segment.bytes).collect();
        Self { requests, chains, bytes, base_seconds, lookups: trace.lookups.len() }
    }
}
