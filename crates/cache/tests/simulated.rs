//! The cache compared with its simulation: the same hits at every lookup.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Belady, Claim, Decoding, Gdsf, Lfu, Lru, ObjectKey, Policy, SegmentCache, SegmentKey, SegmentKind,
    SegmentRequest, Wlfu, array_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
use thermocline_replay::random::Random;
use thermocline_replay::sim::{self, Algorithm, Framework, simulate};
use thermocline_replay::trace::{Header, RecordedPartition, RecordedSegment, Trace, TraceWriter};

type Query = Vec<Vec<SegmentRequest>>;

fn request(partition: u32, column: u32, miss_seconds: f64) -> SegmentRequest {
    let object =
        ObjectKey { table: "t".into(), object: ObjectPath::new("t/0.parquet"), version: ObjectVersion::new("1") };
    let key = SegmentKey {
        object: Arc::new(object),
        partition: PartitionRange::RowGroups { start: partition, end: partition + 1 },
        kind: SegmentKind::column(column.to_string()),
        decoding: Decoding::of(&"Int64"),
    };
    SegmentRequest { key, bytes: array_bytes(&values(partition, column)), miss_seconds, columns: 1, stored: None }
}

fn values(partition: u32, column: u32) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; (16 + 8 * partition + 40 * column) as usize]))
}

/// Queries of some columns of neighbouring partitions. Costs are sums of few powers of two, whose sums have no rounding
/// errors.
fn queries(seed: u64) -> Vec<Query> {
    let mut random = Random(seed);
    (0..150)
        .map(|_| {
            let first = (random.below(4) * random.below(4)) as u32;
            let column = random.below(3) as u32;
            let miss = (1 + random.below(4)) as f64 / 64.0;
            let columns = column..=column + random.below(2) as u32;
            let partitions = first..=first + random.below(3) as u32;
            partitions
                .map(|partition| columns.clone().map(|column| request(partition, column, miss)).collect())
                .collect()
        })
        .collect()
}

fn recorded(queries: &[Query]) -> Trace {
    let header = Header::new("test", 1.0, "parquet", None);
    let segment = |request: &SegmentRequest| RecordedSegment {
        key: request.key.to_string(),
        bytes: request.bytes as u64,
        stored_bytes: request.bytes as u64,
        load_seconds: 0.0,
        decode_seconds: 0.0,
        miss_seconds: request.miss_seconds,
    };
    let mut writer = TraceWriter::new(vec![], &header).unwrap();
    for (number, query) in queries.iter().enumerate() {
        let partitions: Vec<_> = query
            .iter()
            .map(|group| RecordedPartition {
                local_seconds: 0.0,
                other_seconds: 1.0,
                other_bytes: 0,
                load_seconds_per_segment: 0.0,
                segments: group.iter().map(segment).collect(),
            })
            .collect();
        writer.lookup(number as u64, "", &partitions).unwrap();
    }
    Trace::read(writer.finish().unwrap().as_slice()).unwrap()
}

/// Hits by lookup.
fn run(cache: &Arc<SegmentCache>, queries: &[Query]) -> Vec<u64> {
    let mut hits = vec![];
    for query in queries {
        let before = cache.counters().hits;
        let mut accesses = cache.access(query);
        hits.push(cache.counters().hits - before);
        cache.admit(query, &mut accesses, &vec![true; query.len()]);
        for (access, request) in accesses.into_iter().flatten().zip(query.iter().flatten()) {
            if let Access::Load(share) = access
                && let Claim::Load(ticket) = share.claim()
            {
                let PartitionRange::RowGroups { start, .. } = request.key.partition else { panic!() };
                ticket.complete(vec![values(start, request.key.kind.column_name().unwrap().parse().unwrap())]);
            }
        }
    }
    hits
}

#[test]
fn the_simulation_has_the_same_hits() {
    for seed in 0..25 {
        let queries = queries(seed);
        let trace = recorded(&queries);
        let count = trace.segments.len();
        let simulation = |name: &str| -> Box<dyn Algorithm> {
            match name {
                "lru" => Box::new(Framework::new(sim::Lru::new(count))),
                "lfu" => Box::new(Framework::new(sim::Lfu::new(count, None))),
                "wlfu" => Box::new(Framework::new(sim::Wlfu::new(count, None))),
                "gdsf" => Box::new(Framework::new(sim::Gdsf::new(count))),
                "belady" => Box::new(Framework::new(sim::Belady::new(&trace))),
                other => panic!("no simulation of {other}"),
            }
        };
        let policies: [Arc<dyn Policy>; 5] =
            [Arc::new(Lru), Arc::new(Lfu), Arc::new(Wlfu), Arc::new(Gdsf), Arc::new(Belady::new(&trace))];
        for percent in [10, 30, 60] {
            let limit = trace.working_set_bytes() / 100 * percent;
            for policy in &policies {
                let cache = SegmentCache::new(limit as usize, Arc::clone(policy));
                let simulated = simulate(&trace, limit, simulation(policy.name()).as_mut());
                let simulated: Vec<u64> = simulated.lookups.iter().map(|lookup| lookup.hits).collect();
                assert_eq!(run(&cache, &queries), simulated, "seed {seed}, {} at {percent} %", policy.name());
            }
        }
    }
}
