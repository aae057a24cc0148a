//! The segment cache through its public interface: Algorithm 1, sharing, pinning, exact limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Claim, Lfu, LoadTicket, Lru, PinnedSegment, Policy, SegmentCache, SegmentKey, SegmentRequest, array_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};

fn key(partition: u32, column: &str) -> SegmentKey {
    SegmentKey {
        table: "t".into(),
        object: ObjectPath::new("t/0.parquet"),
        version: ObjectVersion::new("1"),
        partition: PartitionRange::RowGroups { start: partition, end: partition + 1 },
        column: column.into(),
    }
}

fn column(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; rows]))
}

fn request(partition: u32, name: &str, rows: usize) -> SegmentRequest {
    SegmentRequest { key: key(partition, name), bytes: array_bytes(&column(rows)) }
}

fn claimed(access: Access) -> LoadTicket {
    match access {
        Access::Load(share) => match share.claim() {
            Claim::Load(ticket) => ticket,
            Claim::Wait(_) => panic!("somebody else loads"),
        },
        other => panic!("not admitted: {other:?}"),
    }
}

/// Asks for one group and loads what is admitted; says what was hit, loaded or missing.
fn touch(cache: &Arc<SegmentCache>, group: &[(u32, &str, usize)]) -> String {
    let requests = group.iter().map(|(partition, name, rows)| request(*partition, name, *rows)).collect();
    cache.access(&[requests]).groups[0]
        .drain(..)
        .zip(group)
        .map(|(access, (_, _, rows))| match access {
            Access::Hit(_) => 'h',
            Access::Missing => 'm',
            load => {
                claimed(load).complete(column(*rows));
                'l'
            }
        })
        .collect()
}

fn size(rows: usize) -> usize {
    array_bytes(&column(rows))
}

#[test]
fn segments_are_loaded_once_and_then_hit() {
    let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
    assert_eq!(touch(&cache, &[(0, "a", 10), (0, "b", 10)]), "ll");
    assert_eq!(touch(&cache, &[(0, "a", 10), (0, "b", 10), (0, "c", 10)]), "hhl");
    assert_eq!(cache.bytes(), (3 * size(10), 0));
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses, counters.admissions, counters.evictions), (2, 3, 3, 0));
}

#[test]
fn lru_evicts_what_was_used_longest_ago() {
    let cache = SegmentCache::new(2 * size(100), Arc::new(Lru));
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "l");
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "l");
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "h");
    assert_eq!(touch(&cache, &[(2, "a", 100)]), "l");
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "h");
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "l");
    assert_eq!(cache.counters().evictions, 2);
}

#[test]
fn lfu_keeps_the_frequent_and_refuses_the_rare() {
    let cache = SegmentCache::new(size(100), Arc::new(Lfu));
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "l");
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "h");
    // Two accesses outweigh one, then equal, then the newcomer has more.
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "m");
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "m");
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "l");
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "m");
}

#[test]
fn lfu_is_normalised_by_size() {
    let cache = SegmentCache::new(size(1000), Arc::new(Lfu));
    assert_eq!(touch(&cache, &[(0, "large", 1000)]), "l");
    assert_eq!(touch(&cache, &[(0, "large", 1000)]), "h");
    // One access to a small segment is worth more per byte than two to a large one.
    assert_eq!(touch(&cache, &[(1, "small", 10)]), "l");
    assert_eq!(touch(&cache, &[(0, "large", 1000)]), "m");
}

#[test]
fn a_partition_is_admitted_whole_or_not_at_all() {
    let cache = SegmentCache::new(size(100) + size(10), Arc::new(Lfu));
    assert_eq!(touch(&cache, &[(0, "a", 100)]), "l");
    // There is room for the small column, but not for the large one beside it.
    assert_eq!(touch(&cache, &[(1, "small", 10), (1, "large", 200)]), "mm");
    assert_eq!(cache.bytes(), (size(100), 0), "nothing was evicted or reserved for half a partition");
}

#[test]
fn what_a_query_needs_is_not_evicted_for_the_same_query() {
    let cache = SegmentCache::new(size(1000), Arc::new(Lfu));
    assert_eq!(touch(&cache, &[(0, "large", 1000)]), "l");
    // The small one has more benefit, but evicting its neighbour would break the partition.
    assert_eq!(touch(&cache, &[(0, "large", 1000), (0, "small", 10)]), "hm");
}

#[test]
fn a_pinned_segment_stays() {
    let cache = SegmentCache::new(size(100), Arc::new(Lru));
    touch(&cache, &[(0, "a", 100)]);
    let pinned: Vec<_> = cache.access(&[vec![request(0, "a", 100)]]).groups.into_iter().flatten().collect();
    assert_eq!(touch(&cache, &[(1, "a", 100)]), "m");
    cache.set_limit(0);
    assert_eq!(cache.bytes().0, size(100));
    drop(pinned);
    cache.set_limit(0);
    assert_eq!(cache.bytes(), (0, 0));
}

#[tokio::test]
async fn concurrent_loads_share_one_fetch() {
    let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
    let mut shares = vec![];
    for _ in 0..3 {
        for access in cache.access(&[vec![request(0, "a", 10)]]).groups.into_iter().flatten() {
            match access {
                Access::Load(share) => shares.push(share),
                other => panic!("{other:?}"),
            }
        }
    }
    let mut claims = shares.into_iter().map(thermocline_cache::LoadShare::claim);
    let Some(Claim::Load(ticket)) = claims.next() else { panic!("the first claim loads") };
    let waiting: Vec<_> = claims
        .map(|claim| match claim {
            Claim::Wait(pending) => tokio::spawn(pending.wait()),
            Claim::Load(_) => panic!("two loads"),
        })
        .collect();
    ticket.complete(column(10));
    for waiter in waiting {
        let segment: Option<PinnedSegment> = waiter.await.unwrap();
        assert_eq!(segment.unwrap().array().len(), 10);
    }
    assert_eq!(cache.counters().admissions, 1);
}

#[tokio::test]
async fn a_failed_load_tells_its_waiters_and_gives_the_room_back() {
    let cache = SegmentCache::new(size(10), Arc::new(Lfu));
    let first = cache.access(&[vec![request(0, "a", 10)]]).groups.remove(0).remove(0);
    let second = cache.access(&[vec![request(0, "a", 10)]]).groups.remove(0).remove(0);
    let ticket = claimed(first);
    let Access::Load(share) = second else { panic!() };
    let Claim::Wait(pending) = share.claim() else { panic!() };
    assert_eq!(cache.bytes(), (0, size(10)));
    drop(ticket);
    assert!(pending.wait().await.is_none());
    assert_eq!(cache.bytes(), (0, 0));
    assert_eq!(touch(&cache, &[(0, "a", 10)]), "l");
}

#[test]
fn unclaimed_shares_give_the_room_back() {
    let cache = SegmentCache::new(size(10), Arc::new(Lfu));
    let accesses = cache.access(&[vec![request(0, "a", 10)]]);
    assert_eq!(cache.bytes(), (0, size(10)));
    drop(accesses);
    assert_eq!(cache.bytes(), (0, 0));
}

#[test]
fn a_segment_larger_than_expected_is_handed_over_but_not_kept() {
    let cache = SegmentCache::new(size(10), Arc::new(Lfu));
    let ticket = claimed(cache.access(&[vec![request(0, "a", 10)]]).groups.remove(0).remove(0));
    assert_eq!(ticket.complete(column(1000)).array().len(), 1000);
    assert_eq!(cache.bytes(), (0, 0));
    assert_eq!(cache.counters().admissions, 0);
}

#[test]
fn other_versions_of_an_object_are_dropped() {
    let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
    touch(&cache, &[(0, "a", 10)]);
    cache.retain_version(&ObjectPath::new("t/0.parquet"), &ObjectVersion::new("2"));
    assert_eq!(cache.bytes(), (0, 0));
}

/// A small generator with a printed seed; the order of operations is all that is random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[test]
fn the_limit_holds_under_random_work() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let policy: Arc<dyn Policy> = if seed % 2 == 0 { Arc::new(Lru) } else { Arc::new(Lfu) };
        let mut limit = 20_000;
        let cache = SegmentCache::new(limit, policy);
        let (mut pins, mut tickets) = (vec![], vec![]);
        for _ in 0..500 {
            match random.below(10) {
                0 => pins.clear(),
                1 => tickets.clear(),
                2 => {
                    // Loads under way and pinned segments keep what they have.
                    pins.clear();
                    tickets.clear();
                    limit = random.below(40_000) as usize;
                    cache.set_limit(limit);
                }
                3 => {
                    for ticket in tickets.drain(..) {
                        let ticket: LoadTicket = ticket;
                        ticket.complete(column(random.below(400) as usize));
                    }
                }
                _ => {
                    let groups: Vec<Vec<SegmentRequest>> = (0..=random.below(3))
                        .map(|_| {
                            let partition = random.below(8) as u32;
                            (0..=random.below(3))
                                .map(|name| request(partition, &name.to_string(), 50 * (name as usize + 1)))
                                .collect()
                        })
                        .collect();
                    for access in cache.access(&groups).groups.into_iter().flatten() {
                        match access {
                            Access::Hit(pin) => pins.push(pin),
                            Access::Load(share) => match share.claim() {
                                Claim::Load(ticket) => tickets.push(ticket),
                                Claim::Wait(_) => {}
                            },
                            Access::Missing => {}
                        }
                    }
                }
            }
            let (resident, reserved) = cache.bytes();
            assert!(resident + reserved <= limit, "{resident} + {reserved} > {limit}");
            let listed: usize = cache.segments().iter().map(|segment| segment.bytes).sum();
            assert_eq!(listed, resident);
        }
    }
}
