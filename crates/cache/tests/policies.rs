//! WLFU and Belady's policy over the cache, and what the cache knows of the cost of misses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Belady, Candidate, Claim, Decoding, FREQUENCY_HALF_LIFE, Lfu, ObjectKey, Policy, SegmentCache, SegmentKey,
    SegmentKind, SegmentRequest, SegmentUse, Wlfu, array_bytes, policy_named,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
use thermocline_replay::random::Random;
use thermocline_replay::trace::{Header, RecordedPartition, RecordedSegment, Trace, TraceWriter};

fn key(partition: u32) -> SegmentKey {
    key_of("v1", partition)
}

fn key_of(version: &str, partition: u32) -> SegmentKey {
    let object = ObjectPath::new("t/0.parquet");
    SegmentKey {
        object: Arc::new(ObjectKey { table: "t".into(), object, version: ObjectVersion::new(version) }),
        partition: PartitionRange::RowGroups { start: partition, end: partition + 1 },
        kind: SegmentKind::column("a"),
        decoding: Decoding::of(&"Int64"),
    }
}

fn column() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; 100]))
}

fn size() -> usize {
    array_bytes(&column())
}

/// Looks up segments of equal size and loads what is admitted; returns hits, loads, waits and misses as letters.
fn touch(cache: &Arc<SegmentCache>, partitions: &[(u32, f64)]) -> String {
    let request = |(partition, miss_seconds): &(u32, f64)| {
        vec![SegmentRequest {
            key: key(*partition),
            bytes: size(),
            miss_seconds: *miss_seconds,
            columns: 1,
            stored: None,
        }]
    };
    let groups: Vec<_> = partitions.iter().map(request).collect();
    let mut accesses = cache.access(&groups);
    cache.admit(&groups, &mut accesses, &vec![true; groups.len()]);
    let answer = |access| match access {
        Access::Hit(_) | Access::Decode { .. } => 'h',
        Access::Missing => 'm',
        Access::Load(share) => match share.claim() {
            Claim::Load(ticket) => {
                ticket.complete(vec![column()]);
                'l'
            }
            Claim::Wait(_) => 'w',
        },
    };
    accesses.into_iter().flatten().map(answer).collect()
}

#[test]
fn wlfu_keeps_what_is_dear_to_miss() {
    let cache = SegmentCache::new(size(), Arc::new(Wlfu));
    assert_eq!(touch(&cache, &[(0, 0.001)]), "l");
    assert_eq!(touch(&cache, &[(0, 0.001)]), "h");
    assert_eq!(touch(&cache, &[(0, 0.001)]), "h");
    // One miss that takes longer than all three.
    assert_eq!(touch(&cache, &[(1, 0.0035)]), "l");
    assert_eq!(touch(&cache, &[(0, 0.0001)]), "m");
    assert_eq!(touch(&cache, &[(0, 0.0006)]), "l", "0.003 + 0.0001 + 0.0006 seconds");
}

#[test]
fn wlfu_without_a_model_is_lfu() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let [wlfu, lfu]: [Arc<dyn Policy>; 2] = [Arc::new(Wlfu), Arc::new(Lfu)];
        let [wlfu, lfu] = [wlfu, lfu].map(|policy| SegmentCache::new(4 * size(), policy));
        for _ in 0..300 {
            let partitions: Vec<(u32, f64)> = (0..=random.below(2)).map(|_| (random.below(9) as u32, 0.0)).collect();
            assert_eq!(touch(&wlfu, &partitions), touch(&lfu, &partitions));
            let time = random.below(2) * random.below(FREQUENCY_HALF_LIFE / 4);
            (0..time).for_each(|_| [&wlfu, &lfu].into_iter().for_each(|cache| drop(cache.access(&[]))));
        }
        assert_eq!(wlfu.counters(), lfu.counters());
    }
}

#[test]
fn nonsense_is_no_miss_cost() {
    for seconds in [f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY, f64::MAX] {
        let mut uses = SegmentUse::default();
        for tick in [1, 2, 3 * FREQUENCY_HALF_LIFE, u64::MAX] {
            uses.record(tick, seconds);
            assert!(uses.weight.is_finite() && uses.weight >= 0.0, "{seconds}: {uses:?}");
        }
        let benefit = Wlfu.benefit(Candidate { key: &key(0), uses: &uses, bytes: 0, share: 1.0 }, u64::MAX);
        assert!(benefit.is_finite() && benefit > 0.0, "{seconds}: {benefit}");
    }
}

/// Whatever the cost of a miss, weights of equally many equal misses are equal, and halve as frequencies do.
#[test]
fn weights_are_exact() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let miss = (1 + random.below(1 << 40)) as f64 * 1.1e-9;
        let (mut a, mut b) = (SegmentUse::default(), SegmentUse::default());
        let mut tick = 0;
        for _ in 0..50 {
            tick += random.below(2) * random.below(FREQUENCY_HALF_LIFE);
            a.record(tick, miss);
            assert_eq!(a.weight, a.frequency as f64 * a.miss_seconds, "seed {seed}");
            assert!((a.miss_seconds - miss).abs() < 1e-9);
        }
        // Another history with as many accesses in the end.
        (0..a.frequency).for_each(|_| b.record(tick, miss));
        assert_eq!((a.frequency, a.weight), (b.frequency, b.weight), "seed {seed}");
    }
}

#[test]
fn equally_dear_segments_in_alternating_use_do_not_evict_each_other() {
    let cache = SegmentCache::new(size(), Arc::new(Wlfu));
    for round in 0..FREQUENCY_HALF_LIFE {
        touch(&cache, &[(0, 0.1)]);
        touch(&cache, &[(1, 0.1)]);
        assert!(cache.counters().evictions <= 2, "round {round}: {:?}", cache.counters());
    }
}

#[test]
fn modelled_and_measured_costs_are_shown() {
    let cache = SegmentCache::new(2 * size(), Arc::new(Wlfu));
    assert_eq!(touch(&cache, &[(0, 0.25)]), "l");
    let uses = || cache.segments()[0].uses;
    assert_eq!((uses().miss_seconds, uses().weight, uses().measured_seconds), (0.25, 0.25, None));
    let (known, unknown) = (key(0), key(7));
    cache.observe_miss(&[(&known, 0.5), (&unknown, 0.5)]);
    cache.observe_miss(&[(&known, f64::NAN), (&known, -1.0)]);
    assert_eq!((uses().miss_seconds, uses().measured_seconds), (0.25, Some(0.5)));
    assert_eq!(touch(&cache, &[(0, 0.125)]), "h");
    assert_eq!((uses().miss_seconds, uses().weight, uses().measured_seconds), (0.125, 0.375, Some(0.5)));
    assert_eq!((cache.segments().len(), cache.remembered()), (1, 0), "a report is no request");
}

#[test]
fn policies_have_names() {
    for name in ["lru", "lfu", "wlfu", "gdsf"] {
        assert_eq!(policy_named(&name.to_uppercase()).unwrap().name(), name);
    }
    assert_eq!(
        policy_named("clock").unwrap_err(),
        "unknown cache policy 'clock': expected one of lru, lfu, wlfu, gdsf"
    );
}

/// A trace of lookups of one partition each.
fn trace(partitions: &[u32]) -> Trace {
    let header = Header::new("test", 1.0, "parquet", None);
    let mut writer = TraceWriter::new(vec![], &header).unwrap();
    for (query, partition) in partitions.iter().enumerate() {
        // A trace fits objects of any version.
        let key = key_of("recorded", *partition).to_string();
        let segment = RecordedSegment {
            key,
            bytes: 1,
            stored_bytes: 1,
            load_seconds: 0.0,
            decode_seconds: 0.0,
            miss_seconds: 0.0,
        };
        let partition = RecordedPartition {
            local_seconds: 0.0,
            other_seconds: 1.0,
            other_bytes: 1,
            load_seconds_per_segment: 0.0,
            segments: vec![segment],
        };
        writer.lookup(query as u64, "", &[partition]).unwrap();
    }
    Trace::read(writer.finish().unwrap().as_slice()).unwrap()
}

#[test]
fn belady_evicts_what_is_needed_last() {
    let cache = SegmentCache::new(2 * size(), Arc::new(Lfu));
    // Time passes before the trace begins.
    (0..5).for_each(|_| drop(cache.access(&[])));
    let future = [0, 1, 2, 0, 2, 1, 3, 1];
    cache.set_policy(Arc::new(Belady::new(&trace(&future))));
    let answers: String = future.iter().map(|partition| touch(&cache, &[(*partition, 0.0)])).collect();
    // 2 pushes out 1, which is needed later than 0; 3 is never needed again; and 1 can have the place of 0.
    assert_eq!(answers, "lllhhlmh");
    // The trace has ended, and nobody knows of 9.
    assert_eq!(touch(&cache, &[(9, 0.0)]), "m");
    assert!(cache.segments().iter().all(|segment| segment.benefit == 0.0));
    cache.set_policy(Arc::new(Belady::new(&trace(&[9, 9]))));
    assert_eq!(touch(&cache, &[(9, 0.0)]), "l", "another future");
    assert_eq!(cache.segments().iter().map(|segment| segment.benefit).fold(0.0, f64::max), 1.0);
}

/// Whatever is asked, Belady's policy has no more misses than LFU and WLFU, for segments of one size.
#[test]
fn belady_is_best_for_equal_segments() {
    for seed in 0..30 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let future: Vec<u32> = (0..200).map(|_| (random.below(12) * random.below(12) / 6) as u32).collect();
        let hits = |policy: Arc<dyn Policy>| {
            let cache = SegmentCache::new(4 * size(), policy);
            future.iter().for_each(|partition| drop(touch(&cache, &[(*partition, 0.1)])));
            cache.counters().hits
        };
        let best = hits(Arc::new(Belady::new(&trace(&future))));
        let others: [Arc<dyn Policy>; 3] = [Arc::new(Lfu), Arc::new(Wlfu), policy_named("lru").unwrap()];
        others.into_iter().for_each(|other| assert!(hits(other) <= best));
    }
}
