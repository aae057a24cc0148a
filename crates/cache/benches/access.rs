//! Time of a lookup by the number of cached segments, on which it should not depend.
//!
//! A query asks for 8 columns of 8 partitions of one object, another object each time. `hit` finds all of them, `peek`
//! checks them for a plan, `replace` asks for a new object, evicts as many segments, and loads.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that cannot go on fails")]
#![allow(missing_docs, reason = "the macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use thermocline_cache::{
    Access, Claim, Decoding, Lfu, Lru, ObjectKey, Policy, SegmentCache, SegmentKey, SegmentKind, SegmentRequest, Wlfu,
    column_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};

const PARTITIONS: u32 = 8;
const COLUMNS: u32 = 8;
const SEGMENTS_PER_OBJECT: usize = (PARTITIONS * COLUMNS) as usize;

type Query = Vec<Vec<SegmentRequest>>;

fn query(object: usize, columns: &[Arc<str>], bytes: usize) -> Query {
    let object = Arc::new(ObjectKey {
        table: "lineorder".into(),
        object: ObjectPath::new(format!("warehouse/lineorder/part-{object:05}.parquet")),
        version: ObjectVersion::new(format!("\"{object:032x}\"")),
    });
    (0..PARTITIONS)
        .map(|start| {
            let key = |column| SegmentKey {
                object: Arc::clone(&object),
                partition: PartitionRange::RowGroups { start, end: start + 1 },
                kind: SegmentKind::column(Arc::clone(column)),
                decoding: Decoding::of(&"Int64"),
            };
            columns
                .iter()
                .map(|column| SegmentRequest { key: key(column), bytes, miss_seconds: 0.001, columns: 1, stored: None })
                .collect()
        })
        .collect()
}

fn load(cache: &Arc<SegmentCache>, query: &Query, column: &ArrayRef) -> usize {
    let mut accesses = cache.access(query);
    let evicted = cache.admit(query, &mut accesses, &[true; PARTITIONS as usize]);
    for access in accesses.into_iter().flatten() {
        if let Access::Load(share) = access
            && let Claim::Load(ticket) = share.claim()
        {
            ticket.complete(vec![Arc::clone(column)]);
        }
    }
    evicted
}

fn access(criterion: &mut Criterion) {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1; 8]));
    let bytes = column_bytes(std::slice::from_ref(&column));
    let columns: Vec<Arc<str>> = (0..COLUMNS).map(|column| format!("lo_column_{column}").into()).collect();
    for segments in [100, 10_000, 1_000_000_usize] {
        let objects = segments.div_ceil(SEGMENTS_PER_OBJECT);
        let of = |object: usize| query(object, &columns, bytes);
        let queries: Vec<Query> = (0..objects).map(of).collect();
        let limit = objects * SEGMENTS_PER_OBJECT * bytes;
        let policies: [Arc<dyn Policy>; 2] = [Arc::new(Lfu), Arc::new(Lru)];
        for policy in policies {
            let name = policy.name();
            let cache = SegmentCache::new(limit, policy);
            queries.iter().for_each(|query| assert_eq!(load(&cache, query, &column), 0));
            let mut group = criterion.benchmark_group(format!("access/{name}"));
            group.throughput(Throughput::Elements(SEGMENTS_PER_OBJECT as u64));
            let mut next = 0;
            // Coprime to the number of objects or not: consecutive queries are far apart.
            let mut any = || {
                next = (next + 7919) % objects;
                &queries[next]
            };
            // A scan has just created its requests, so they are in the processor's caches in any case.
            let mut made = || any().clone();
            group.bench_function(BenchmarkId::new("hit", segments), |bencher| {
                bencher.iter_batched_ref(
                    &mut made,
                    |query| black_box(cache.access(query)),
                    criterion::BatchSize::PerIteration,
                );
            });
            group.bench_function(BenchmarkId::new("peek", segments), |bencher| {
                bencher.iter_batched_ref(
                    &mut made,
                    |query| black_box(cache.peek(query)),
                    criterion::BatchSize::PerIteration,
                );
            });
            if name == "lru" {
                let mut object = objects;
                group.bench_function(BenchmarkId::new("replace", segments), |bencher| {
                    bencher.iter_batched(
                        || {
                            object += 1;
                            of(object)
                        },
                        |query| assert_eq!(load(&cache, &query, &column), SEGMENTS_PER_OBJECT),
                        criterion::BatchSize::SmallInput,
                    );
                });
            }
            group.finish();
        }
    }
}

/// A query that asks for 8 columns of 1000 partitions and admits every other one, with 100 000 segments cached: half of
/// what it wants is cached, and half pushes out others.
fn admit(criterion: &mut Criterion) {
    const SEGMENTS: usize = 100_000;
    const OBJECTS: usize = 125;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1; 8]));
    let bytes = column_bytes(std::slice::from_ref(&column));
    let columns: Vec<Arc<str>> = (0..COLUMNS).map(|column| format!("lo_column_{column}").into()).collect();
    let wide = |first: usize| -> Query { (first..first + OBJECTS).flat_map(|at| query(at, &columns, bytes)).collect() };
    let wanted: Vec<bool> = (0..OBJECTS * PARTITIONS as usize).map(|partition| partition % 2 == 0).collect();
    let policies: [Arc<dyn Policy>; 3] = [Arc::new(Lfu), Arc::new(Lru), Arc::new(Wlfu)];
    for policy in policies {
        let name = policy.name();
        let cache = SegmentCache::new(SEGMENTS * bytes, policy);
        let cached = SEGMENTS.div_ceil(SEGMENTS_PER_OBJECT);
        for object in 0..cached {
            load(&cache, &query(object, &columns, bytes), &column);
        }
        let mut group = criterion.benchmark_group(format!("admit/{name}"));
        group.throughput(Throughput::Elements(wanted.len() as u64 * u64::from(COLUMNS)));
        // Half of the objects are cached; others are new each time.
        let mut next = cached - OBJECTS / 2;
        group.bench_function(BenchmarkId::new("access", SEGMENTS), |bencher| {
            let query = wide(next);
            bencher.iter_with_large_drop(|| black_box(cache.access(&query)));
        });
        group.bench_function(BenchmarkId::new("access and admit", SEGMENTS), |bencher| {
            bencher.iter_batched_ref(
                || {
                    next += 1;
                    wide(next)
                },
                |query| {
                    let mut accesses = cache.access(query);
                    black_box(cache.admit(query, &mut accesses, &wanted));
                    accesses
                },
                criterion::BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, access, admit);
criterion_main!(benches);
