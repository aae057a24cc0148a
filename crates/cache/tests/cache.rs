//! The segment cache through its public interface: Algorithm 1, sharing, pinning, exact limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Candidate, Claim, Decoding, FREQUENCY_HALF_LIFE, Lfu, LoadTicket, Lru, ObjectKey, PinnedSegment, Policy,
    REMEMBERED_MIN, Representation, SegmentCache, SegmentKey, SegmentKind, SegmentRequest, SegmentUse, Wlfu,
    array_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
use thermocline_replay::random::Random;

fn object(table: &str, path: &str, version: &str) -> Arc<ObjectKey> {
    Arc::new(ObjectKey { table: table.into(), object: ObjectPath::new(path), version: ObjectVersion::new(version) })
}

fn key_of(object: &Arc<ObjectKey>, partition: u32, column: &str) -> SegmentKey {
    SegmentKey {
        object: Arc::clone(object),
        partition: PartitionRange::RowGroups { start: partition, end: partition + 1 },
        kind: SegmentKind::column(column),
        decoding: Decoding::of(&"Int64"),
    }
}

fn key(partition: u32, column: &str) -> SegmentKey {
    key_of(&object("t", "t/0.parquet", "1"), partition, column)
}

fn column(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; rows]))
}

fn request(partition: u32, name: &str, rows: usize) -> SegmentRequest {
    SegmentRequest {
        key: key(partition, name),
        bytes: array_bytes(&column(rows)),
        miss_seconds: 0.0,
        columns: 1,
        stored: None,
    }
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

/// Requests groups and admits whatever there is room for; returns the answers and the number of segments evicted.
fn ask(cache: &Arc<SegmentCache>, groups: &[Vec<SegmentRequest>]) -> (Vec<Vec<Access>>, usize) {
    let mut accesses = cache.access(groups);
    let evicted = cache.admit(groups, &mut accesses, &vec![true; groups.len()]);
    (accesses, evicted)
}

/// Requests one group and loads the admitted segments; returns which were hit, loaded or missing.
fn touch(cache: &Arc<SegmentCache>, group: &[(u32, &str, usize)]) -> String {
    let requests = group.iter().map(|(partition, name, rows)| request(*partition, name, *rows)).collect();
    ask(cache, &[requests]).0[0]
        .drain(..)
        .zip(group)
        .map(|(access, (_, _, rows))| match access {
            Access::Hit(_) | Access::Decode { .. } => 'h',
            Access::Missing => 'm',
            load => {
                claimed(load).complete(vec![column(*rows)]);
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
fn wanted_columns_were_asked_for_and_are_not_there() {
    let cache = SegmentCache::new(0, Arc::new(Lfu));
    let of = || key(0, "a").object;
    assert_eq!(cache.wanted_columns(&of()), []);
    touch(&cache, &[(0, "a", 10), (0, "b", 10), (1, "a", 10)]);
    let answer = SegmentKey { kind: SegmentKind::Answer("0f".into()), ..key(0, "") };
    cache.access(&[vec![SegmentRequest { key: answer, ..request(0, "", 10) }]]);
    let wanted = || {
        let mut wanted: Vec<String> = cache.wanted_columns(&of()).iter().map(ToString::to_string).collect();
        wanted.sort();
        wanted
    };
    let text = |partition, name| key(partition, name).to_string();
    assert_eq!(wanted(), [text(0, "a"), text(0, "b"), text(1, "a")]);
    assert_eq!(cache.wanted_columns(&object("t", "t/0.parquet", "2")), []);

    cache.set_limit(1 << 20);
    assert_eq!(touch(&cache, &[(0, "a", 10)]), "l");
    assert_eq!(wanted(), [text(0, "b"), text(1, "a")]);
    // As long as it is being loaded.
    let (loading, _) = ask(&cache, &[vec![request(0, "b", 10)]]);
    assert_eq!(wanted(), [text(1, "a")]);
    drop(loading);
    assert_eq!(wanted(), [text(0, "b"), text(1, "a")]);
}

#[test]
fn a_column_is_not_an_answer_of_the_same_name() {
    let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
    let of_kind = |kind: SegmentKind| {
        let key = SegmentKey { kind, ..key(0, "") };
        SegmentRequest { key, bytes: size(10), miss_seconds: 0.0, columns: 1, stored: None }
    };
    let digest = "0f".repeat(32);
    let kinds = [SegmentKind::column(format!("answer {digest}")), SegmentKind::Answer(digest.as_str().into())];
    for kind in &kinds {
        let (mut accesses, _) = ask(&cache, &[vec![of_kind(kind.clone())]]);
        claimed(accesses.remove(0).remove(0)).complete(vec![column(10)]);
    }
    let segments = cache.segments();
    let mut keys: Vec<String> = segments.iter().map(|segment| segment.key.to_string()).collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            format!(r#""t" "t/0.parquet" row groups 0..1 "answer {digest}""#),
            format!(r#""t" "t/0.parquet" row groups 0..1 answer {digest}"#),
        ]
    );
    let of_answer = segments.iter().find(|segment| segment.key.kind.name() == "answer").unwrap();
    assert_eq!((of_answer.key.kind.column_name(), of_answer.key.kind.fragment()), (None, Some(digest.as_str())));
}

/// Answers as text: hit, load or missing.
fn letters(accesses: &[Vec<Access>]) -> Vec<String> {
    let letter = |access: &Access| match access {
        Access::Hit(_) | Access::Decode { .. } => 'h',
        Access::Load(_) => 'l',
        Access::Missing => 'm',
    };
    accesses.iter().map(|group| group.iter().map(letter).collect()).collect()
}

#[test]
fn only_wanted_partitions_are_admitted() {
    let cache = SegmentCache::new(4 * size(10), Arc::new(Lru));
    assert_eq!(touch(&cache, &[(0, "a", 10), (9, "old", 10), (9, "older", 10)]), "lll");
    let groups: Vec<Vec<SegmentRequest>> =
        (0..3).map(|partition| vec![request(partition, "a", 10), request(partition, "b", 10)]).collect();
    let mut accesses = cache.access(&groups);
    assert_eq!(letters(&accesses), ["hm", "mm", "mm"]);
    assert_eq!(cache.bytes(), (3 * size(10), 0), "a lookup admits nothing");
    assert_eq!(cache.admit(&groups, &mut accesses, &[false; 3]), 0);
    assert_eq!(cache.admit(&groups, &mut accesses, &[]), 0);
    assert_eq!(letters(&accesses), ["hm", "mm", "mm"]);
    assert_eq!(cache.would_admit(&groups, &[false, true, false]), [false, true, false]);
    assert_eq!(cache.admit(&groups, &mut accesses, &[false, true, false]), 1);
    assert_eq!(letters(&accesses), ["hm", "ll", "mm"]);
    assert_eq!(cache.bytes(), (2 * size(10), 2 * size(10)));
    // Of a partition that is not wanted, what is cached stays protected.
    drop(accesses);
    let mut accesses = cache.access(&groups);
    accesses[0].clear();
    let groups = &groups;
    assert_eq!(cache.admit(groups, &mut accesses, &[false, true, true]), 0, "not the segment of the first partition");
    assert_eq!(letters(&accesses), ["", "ll", "mm"]);
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses), (2, 3 + 5 + 5), "admissions count as neither");
}

#[test]
fn what_happens_between_lookup_and_admission_is_taken_up() {
    let cache = SegmentCache::new(4 * size(10), Arc::new(Lru));
    let groups = [vec![request(0, "a", 10), request(0, "b", 10), request(0, "c", 10)]];
    let mut accesses = cache.access(&groups);
    assert_eq!(letters(&accesses), ["mmm"]);
    // Another query loads the first, begins to load the second, and gives up on the third.
    assert_eq!(touch(&cache, &[(0, "a", 10)]), "l");
    let other = ask(&cache, &[vec![request(0, "b", 10)]]);
    drop(ask(&cache, &[vec![request(0, "c", 10)]]));
    assert_eq!(cache.admit(&groups, &mut accesses, &[true]), 0);
    assert_eq!(letters(&accesses), ["hll"]);
    assert_eq!(cache.bytes(), (size(10), 2 * size(10)), "one room for both who wait for the second");
    drop(other);
    assert_eq!(cache.bytes(), (size(10), 2 * size(10)));
    drop(accesses);
    assert_eq!(cache.bytes(), (size(10), 0));
}

#[test]
fn a_table_dropped_between_lookup_and_admission_starts_from_zero() {
    let cache = SegmentCache::new(4 * size(10), Arc::new(Lfu));
    touch(&cache, &[(0, "a", 10)]);
    let groups = [vec![request(0, "a", 10), request(0, "b", 10)]];
    let mut accesses = cache.access(&groups);
    cache.remove_table("t");
    assert_eq!(cache.admit(&groups, &mut accesses, &[true]), 0);
    assert_eq!(letters(&accesses), ["hl"], "the query still reads what it has pinned");
    assert_eq!(cache.bytes(), (size(10), size(10)));
    drop(accesses);
    assert_eq!(cache.bytes(), (0, 0));
}

#[test]
fn explaining_changes_nothing() {
    let cache = SegmentCache::new(2 * size(10), Arc::new(Lfu));
    touch(&cache, &[(0, "a", 10)]);
    let groups = [vec![request(0, "a", 10), request(0, "b", 10)], vec![request(1, "a", 2000)], vec![]];
    let before = (cache.bytes(), cache.counters(), cache.remembered());
    for _ in 0..3 {
        assert_eq!(cache.peek(&groups), [vec![Some(Representation::Decoded), None], vec![None], vec![]]);
        assert_eq!(cache.would_admit(&groups, &[true, true, true]), [true, false, true]);
        assert_eq!(cache.would_admit(&groups, &[true]), [true, false, false]);
    }
    assert_eq!((cache.bytes(), cache.counters(), cache.remembered()), before);
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
    let pinned: Vec<_> = ask(&cache, &[vec![request(0, "a", 100)]]).0.into_iter().flatten().collect();
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
        for access in ask(&cache, &[vec![request(0, "a", 10)]]).0.into_iter().flatten() {
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
    ticket.complete(vec![column(10)]);
    for waiter in waiting {
        let segment: Option<PinnedSegment> = waiter.await.unwrap();
        assert_eq!(segment.unwrap().rows(), 10);
    }
    assert_eq!(cache.counters().admissions, 1);
}

#[tokio::test]
async fn a_failed_load_tells_its_waiters_and_gives_the_room_back() {
    let cache = SegmentCache::new(size(10), Arc::new(Lfu));
    let first = ask(&cache, &[vec![request(0, "a", 10)]]).0.remove(0).remove(0);
    let second = ask(&cache, &[vec![request(0, "a", 10)]]).0.remove(0).remove(0);
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
    let accesses = ask(&cache, &[vec![request(0, "a", 10)]]);
    assert_eq!(cache.bytes(), (0, size(10)));
    drop(accesses);
    assert_eq!(cache.bytes(), (0, 0));
}

#[test]
fn a_segment_larger_than_expected_is_handed_over_but_not_kept() {
    let cache = SegmentCache::new(size(10), Arc::new(Lfu));
    let ticket = claimed(ask(&cache, &[vec![request(0, "a", 10)]]).0.remove(0).remove(0));
    let (segment, kept) = ticket.complete(vec![column(1000)]);
    assert_eq!((segment.rows(), kept), (1000, false));
    assert_eq!(cache.bytes(), (0, 0));
    assert_eq!(cache.counters().admissions, 0);
}

#[test]
fn a_load_grows_its_reservation_where_there_is_room() {
    let cache = SegmentCache::new(2 * size(100), Arc::new(Lru));
    touch(&cache, &[(0, "a", 100)]);
    let ticket = claimed(ask(&cache, &[vec![request(1, "a", 10)]]).0.remove(0).remove(0));
    assert!(ticket.reserve(5), "less than it has");
    assert_eq!(cache.bytes(), (size(100), size(10)));
    assert!(ticket.reserve(size(100)));
    assert_eq!(cache.bytes(), (size(100), size(100)));
    assert!(ticket.reserve(2 * size(100)), "the other segment was used before");
    assert_eq!(cache.bytes(), (0, 2 * size(100)));
    assert!(!ticket.reserve(3 * size(100)));
    assert_eq!(cache.bytes(), (0, 2 * size(100)));
    assert!(ticket.complete(vec![column(100), column(0), column(20)]).1);
    assert_eq!(cache.bytes(), (size(100) + size(20), 0));
}

/// Loads one segment of each object, two of the first.
fn fill(cache: &Arc<SegmentCache>, objects: &[&Arc<ObjectKey>]) -> Vec<SegmentRequest> {
    let keys = objects.iter().map(|object| key_of(object, 0, "a")).chain([key_of(objects[0], 1, "b")]);
    let requests: Vec<_> =
        keys.map(|key| SegmentRequest { key, bytes: size(10), miss_seconds: 0.0, columns: 1, stored: None }).collect();
    for access in ask(cache, std::slice::from_ref(&requests)).0.remove(0) {
        claimed(access).complete(vec![column(10)]);
    }
    requests
}

#[test]
fn a_removed_table_object_or_version_leaves_and_nothing_else() {
    let cache = SegmentCache::new(1 << 20, Arc::new(Lfu));
    let [old, new] = ["1", "2"].map(|version| object("t", "0.parquet", version));
    let (beside, other) = (object("t", "1.parquet", "1"), object("u", "0.parquet", "1"));
    let requests = fill(&cache, &[&old, &new, &beside, &other]);
    let cached = || {
        cache.peek(std::slice::from_ref(&requests)).remove(0).into_iter().map(|held| held.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(cached(), [true; 5]);
    cache.remove_version("t", &old.object, &old.version);
    assert_eq!(cached(), [false, true, true, true, false]);
    assert_eq!((cache.bytes(), cache.remembered()), ((3 * size(10), 0), 0));
    cache.remove_version("u", &beside.object, &beside.version);
    cache.remove_version("t", &beside.object, &beside.version);
    assert_eq!(cached(), [false, true, false, true, false]);
    cache.remove_table("t");
    assert_eq!(cached(), [false, false, false, true, false]);
    assert_eq!(cache.segments().len(), 1);
    assert_eq!(cache.counters().evictions, 0, "nothing had to make room");
    // A segment that comes again starts from zero.
    cache.remove_table("u");
    fill(&cache, &[&old, &new, &beside, &other]);
    assert_eq!(cache.segments().iter().map(|segment| segment.uses.accesses).collect::<Vec<_>>(), [1; 5]);
}

#[test]
fn what_is_read_or_loaded_goes_with_its_reader() {
    let cache = SegmentCache::new(2 * size(10), Arc::new(Lfu));
    touch(&cache, &[(0, "a", 10)]);
    let reader = ask(&cache, &[vec![request(0, "a", 10)]]).0.remove(0).remove(0);
    let ticket = claimed(ask(&cache, &[vec![request(1, "a", 10)]]).0.remove(0).remove(0));
    cache.remove_table("t");
    assert_eq!(cache.bytes(), (size(10), size(10)), "memory in use is still counted");
    assert!(cache.segments().is_empty());
    let again = ask(&cache, &[vec![request(0, "a", 10)]]).0.remove(0).remove(0);
    assert!(matches!(again, Access::Missing), "there is no room yet");
    let (segment, kept) = ticket.complete(vec![column(10)]);
    assert_eq!((segment.rows(), kept), (10, false));
    assert_eq!(cache.bytes(), (size(10), 0));
    let Access::Hit(reader) = reader else { panic!("{reader:?}") };
    let second = reader.clone();
    drop(reader);
    assert_eq!(cache.bytes(), (size(10), 0));
    drop(second);
    assert_eq!(cache.bytes(), (0, 0));
    assert_eq!(touch(&cache, &[(0, "a", 10)]), "l");
}

#[test]
fn the_last_reader_makes_room_for_a_lowered_limit() {
    let cache = SegmentCache::new(2 * size(10), Arc::new(Lfu));
    touch(&cache, &[(0, "a", 10)]);
    let reader = ask(&cache, &[vec![request(0, "a", 10)]]);
    touch(&cache, &[(1, "a", 10)]);
    cache.set_limit(0);
    assert_eq!(cache.bytes(), (size(10), 0));
    drop(reader);
    assert_eq!(cache.bytes(), (0, 0));
}

#[test]
fn old_accesses_count_less() {
    let cache = SegmentCache::new(size(100), Arc::new(Lfu));
    for _ in 0..40 {
        touch(&cache, &[(0, "a", 100)]);
    }
    let mut lookups = 0;
    while touch(&cache, &[(1, "a", 100)]) == "m" {
        // Other queries run in between.
        (0..FREQUENCY_HALF_LIFE / 4).for_each(|_| drop(cache.access(&[])));
        lookups += 1;
    }
    assert!((8..20).contains(&lookups), "{lookups} accesses outweighed 40 old ones");
    let benefit = cache.segments()[0].benefit;
    (0..FREQUENCY_HALF_LIFE).for_each(|_| drop(cache.access(&[])));
    assert_eq!(cache.segments()[0].benefit, benefit / 2.0, "benefits are as of now");
}

/// The order of frequencies does not change while nobody uses a segment, at whatever time it is read, and an access
/// always raises its rank.
#[test]
fn ranks_order_segments_as_benefits_do_at_any_time() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut tick = 0;
        // Every segment has its own miss, or one that costs nothing.
        let mut segments: Vec<(SegmentUse, usize, f64)> =
            (0..10).map(|_| (SegmentUse::default(), 1 << random.below(4), random.below(4) as f64 * 0.1)).collect();
        let policies: [&dyn Policy; 3] = [&Lru, &Lfu, &Wlfu];
        let key = key(0, "a");
        for _ in 0..200 {
            tick += 1 + random.below(FREQUENCY_HALF_LIFE / 2) * random.below(4);
            let (uses, bytes, miss_seconds) = &mut segments[random.below(10) as usize];
            let ranks = |uses: SegmentUse| {
                policies.map(|policy| policy.rank(Candidate { key: &key, uses: &uses, bytes: *bytes, share: 1.0 }))
            };
            let before = ranks(*uses);
            uses.record(tick, *miss_seconds);
            let after = ranks(*uses);
            assert!(
                before.iter().zip(&after).all(|(before, after)| before < after),
                "seed {seed}: {before:?} {after:?}"
            );
        }
        for now in [tick, tick + 3 * FREQUENCY_HALF_LIFE] {
            for policy in policies {
                let candidate = |(uses, bytes, _): &'_ (SegmentUse, usize, f64)| (*uses, *bytes);
                for (a, b) in segments.iter().map(candidate).zip(segments[1..].iter().map(candidate)) {
                    let [a, b] = [&a, &b].map(|(uses, bytes)| Candidate { key: &key, uses, bytes: *bytes, share: 1.0 });
                    let ranks = policy.rank(a).cmp(&policy.rank(b));
                    let benefits = policy.benefit(a, now).total_cmp(&policy.benefit(b, now));
                    assert_eq!(ranks, benefits, "seed {seed}, {}: {a:?} {b:?}", policy.name());
                }
            }
        }
    }
}

#[test]
fn nothing_larger_than_the_limit_is_admitted() {
    for limit in [0, 1, size(100) - 1] {
        let cache = SegmentCache::new(limit, Arc::new(Lru));
        assert_eq!(touch(&cache, &[(0, "a", 100)]), "m");
        assert_eq!(touch(&cache, &[(0, "a", 100), (0, "b", 100)]), "mm");
        assert!(!cache.would_admit(&[vec![request(0, "a", 100)]], &[true])[0]);
        assert_eq!((cache.bytes(), cache.bytes_max(), cache.counters().evictions), ((0, 0), 0, 0));
    }
    // One that is too large does not push out the others.
    let cache = SegmentCache::new(2 * size(10), Arc::new(Lru));
    assert_eq!(touch(&cache, &[(0, "a", 10), (0, "b", 10)]), "ll");
    assert_eq!(touch(&cache, &[(1, "large", 1000)]), "m");
    assert_eq!(touch(&cache, &[(0, "a", 10), (0, "b", 10)]), "hh");
}

#[test]
fn a_limit_larger_than_memory_never_evicts() {
    let cache = SegmentCache::new(usize::MAX, Arc::new(Wlfu));
    for partition in 0..100 {
        assert_eq!(touch(&cache, &[(partition, "a", 100)]), "l");
    }
    assert_eq!((cache.bytes(), cache.counters().evictions), ((100 * size(100), 0), 0));
    cache.set_limit(50 * size(100));
    assert_eq!((cache.bytes(), cache.counters().evictions), ((50 * size(100), 0), 50));
}

#[test]
fn a_limit_lowered_under_loads_holds_when_they_end() {
    let cache = SegmentCache::new(3 * size(10), Arc::new(Lfu));
    let groups: Vec<_> = (0..3).map(|partition| vec![request(partition, "a", 10)]).collect();
    let mut tickets: Vec<_> = ask(&cache, &groups).0.into_iter().flatten().map(claimed).collect();
    let waiting = cache.access(&groups);
    cache.set_limit(size(10));
    assert_eq!(cache.bytes(), (0, 3 * size(10)), "loads under way keep their room");
    let mut late = cache.access(&[vec![request(9, "a", 10)]]);
    assert_eq!(cache.admit(&[vec![request(9, "a", 10)]], &mut late, &[true]), 0);
    assert_eq!(letters(&late), ["m"], "nothing is admitted before they end");
    assert!(!tickets.remove(0).complete(vec![column(10)]).1);
    assert_eq!(cache.bytes(), (0, 2 * size(10)));
    drop(tickets.remove(0));
    assert!(tickets.remove(0).complete(vec![column(10)]).1);
    assert_eq!(cache.bytes(), (size(10), 0));
    drop(waiting);
    assert_eq!(touch(&cache, &[(2, "a", 10)]), "h");
}

/// Of equally frequent segments that do not fit together, some stay however long this goes on.
#[test]
fn a_repeated_scan_of_more_than_fits_keeps_a_part() {
    let cache = SegmentCache::new(5 * size(100), Arc::new(Lfu));
    let rounds = 4 * FREQUENCY_HALF_LIFE / 9;
    for round in 0..rounds {
        for partition in 0..9 {
            touch(&cache, &[(partition, "a", 100)]);
        }
        assert!(round < 2 || cache.counters().hits * 2 > cache.counters().misses, "round {round}");
    }
    let counters = cache.counters();
    let all = rounds * 9;
    assert!(counters.hits * 100 > all * 5 * 100 / 9 * 95 / 100, "{counters:?} of {all}");
}

#[test]
fn uses_are_remembered_in_a_share_of_the_limit_and_then_the_oldest_forgotten() {
    let cache = SegmentCache::new(size(100), Arc::new(Lru));
    let look_up = |partitions: std::ops::Range<u32>| {
        let object = object("t", "t/0.parquet", "1");
        let request = |partition| SegmentRequest {
            key: key_of(&object, partition, "a"),
            bytes: 1 << 20,
            miss_seconds: 0.0,
            columns: 1,
            stored: None,
        };
        let requests = partitions.map(request);
        drop(cache.access(&[requests.collect()]));
    };
    let half = REMEMBERED_MIN as u32 / 2;
    look_up(0..half);
    look_up(half..2 * half);
    assert_eq!(cache.remembered(), REMEMBERED_MIN);
    look_up(0..10);
    look_up(2 * half..3 * half);
    assert_eq!(cache.remembered(), REMEMBERED_MIN);
    cache.set_limit(1 << 30);
    let accesses = |partition: u32| {
        let ticket = claimed(ask(&cache, &[vec![request(partition, "a", 10)]]).0.remove(0).remove(0));
        ticket.complete(vec![column(10)]);
        let found = cache.segments().into_iter().find(|segment| segment.key == key(partition, "a"));
        found.unwrap().uses.accesses
    };
    assert_eq!([0, 10, half + 20, 2 * half].map(accesses), [3, 1, 2, 2]);
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
                    // Loads under way and pinned segments keep their room.
                    pins.clear();
                    tickets.clear();
                    limit = random.below(40_000) as usize;
                    cache.set_limit(limit);
                }
                3 => {
                    for ticket in tickets.drain(..) {
                        let ticket: LoadTicket = ticket;
                        ticket.complete(vec![column(random.below(400) as usize)]);
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
                    for access in ask(&cache, &groups).0.into_iter().flatten() {
                        match access {
                            Access::Hit(pin) => pins.push(pin),
                            Access::Load(share) => match share.claim() {
                                Claim::Load(ticket) => tickets.push(ticket),
                                Claim::Wait(_) => {}
                            },
                            Access::Decode { .. } | Access::Missing => {}
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
