//! Columns that are kept decoded or as stored bytes: which, and what changes it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Claim, Decoding, Gdsf, Lfu, LoadTicket, Lru, ObjectKey, PinnedSegment, Policy, Representation,
    SegmentCache, SegmentKey, SegmentKind, SegmentRequest, StoredColumn, StoredSize, Wlfu, array_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
use thermocline_replay::random::Random;

/// Rows of a column, which take eight times as many bytes decoded and about [`STORED_BYTES`] stored.
const ROWS: usize = 500;
const STORED_BYTES: usize = 600;
/// Share of a miss that is fetching.
const SAVES: f64 = 0.75;

fn column() -> ArrayRef {
    Arc::new(Int64Array::from(vec![7; ROWS]))
}

fn decoded_bytes() -> usize {
    array_bytes(&column())
}

fn stored() -> StoredColumn {
    StoredColumn::new(ROWS, [(4, [1_u8; STORED_BYTES].as_slice())])
}

fn key(number: u32) -> SegmentKey {
    let version = ObjectVersion::new("1");
    SegmentKey {
        object: Arc::new(ObjectKey { table: "t".into(), object: ObjectPath::new("t/0.parquet"), version }),
        partition: PartitionRange::RowGroups { start: number, end: number + 1 },
        kind: SegmentKind::column("a"),
        decoding: Decoding::of(&"Int64"),
    }
}

fn request(number: u32) -> SegmentRequest {
    let stored = Some(StoredSize { bytes: stored().bytes(), saves: SAVES });
    SegmentRequest { key: key(number), bytes: decoded_bytes(), miss_seconds: 0.01, columns: 1, stored }
}

/// Looks up one column, admits it and has it kept decoded if that pays.
fn look_up(cache: &Arc<SegmentCache>, request: &SegmentRequest) -> Access {
    let groups = [vec![request.clone()]];
    let mut accesses = cache.access(&groups);
    cache.admit(&groups, &mut accesses, &[true]);
    cache.promote(&groups, &mut accesses, &[true]);
    accesses.remove(0).remove(0)
}

fn claimed(share: thermocline_cache::LoadShare) -> LoadTicket {
    match share.claim() {
        Claim::Load(ticket) => ticket,
        Claim::Wait(_) => panic!("somebody else loads"),
    }
}

fn complete(ticket: LoadTicket) -> PinnedSegment {
    let (segment, _) = match ticket.representation() {
        Representation::Decoded => ticket.complete(vec![column()]),
        Representation::Stored => ticket.complete_stored(stored()),
    };
    segment
}

/// Uses a column as a query does; says what it found and what it did: a letter for what was there (`d`ecoded, `s`tored,
/// nothing: `-`) and one for what was loaded.
fn touch(cache: &Arc<SegmentCache>, number: u32) -> String {
    let letter = |representation| if representation == Representation::Decoded { 'd' } else { 's' };
    let load = |share| {
        let ticket = claimed(share);
        let letter = letter(ticket.representation());
        complete(ticket);
        letter
    };
    match look_up(cache, &request(number)) {
        Access::Hit(segment) if segment.stored().is_some() => "s-".to_owned(),
        Access::Hit(segment) => {
            assert_eq!(segment.rows(), ROWS);
            "d-".to_owned()
        }
        Access::Decode { stored, load: share } => {
            assert_eq!(stored.stored().unwrap().rows(), ROWS);
            format!("s{}", load(share))
        }
        Access::Load(share) => format!("-{}", load(share)),
        Access::Missing => "--".to_owned(),
    }
}

fn pass(cache: &Arc<SegmentCache>, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|number| touch(cache, number)).collect()
}

fn policies() -> [Arc<dyn Policy>; 3] {
    [Arc::new(Lfu), Arc::new(Wlfu), Arc::new(Gdsf)]
}

/// Numbers of the columns that are cached in a representation, and the sum of their benefits.
fn cached(cache: &SegmentCache, representation: Representation) -> (BTreeSet<u32>, f64) {
    let segments = cache.segments().into_iter();
    let of = segments.filter(|segment| segment.key.kind.representation() == representation);
    let number = |segment: &thermocline_cache::SegmentInfo| match segment.key.partition {
        PartitionRange::RowGroups { start, .. } => start,
        PartitionRange::Bytes { .. } => panic!("no column of these"),
    };
    of.fold((BTreeSet::new(), 0.0), |(mut numbers, benefit), segment| {
        numbers.insert(number(&segment));
        (numbers, benefit + segment.benefit)
    })
}

#[test]
fn with_ample_room_columns_are_decoded_once_and_kept_alone() {
    for policy in policies() {
        let cache = SegmentCache::new(20 * decoded_bytes(), policy);
        assert_eq!(pass(&cache, 0..10), ["-d"; 10]);
        assert_eq!(pass(&cache, 0..10), ["d-"; 10]);
        assert_eq!(cache.bytes(), (10 * decoded_bytes(), 0), "nothing is kept twice");
    }
}

#[test]
fn where_all_of_it_just_fits_nearly_everything_is_decoded_in_the_end() {
    for policy in policies() {
        let name = policy.name();
        let cache = SegmentCache::new(10 * decoded_bytes(), policy);
        let first = pass(&cache, 0..10);
        assert!(first.iter().all(|did| did == "-d" || did == "-s"), "{name}: {first:?}");
        let second = pass(&cache, 0..10);
        assert!(!second.iter().any(|did| did.starts_with('-')), "{name}: nothing is fetched again: {second:?}");
        // The last has no room beside its stored bytes while it is being decoded from them.
        let third = pass(&cache, 0..10);
        assert!(third.iter().filter(|did| *did == "d-").count() >= 9, "{name}: {third:?}");
    }
}

#[test]
fn in_a_quarter_of_the_room_everything_is_at_hand_as_stored_bytes() {
    for policy in policies() {
        let name = policy.name();
        let cache = SegmentCache::new(10 * decoded_bytes(), policy);
        pass(&cache, 0..40);
        let second = pass(&cache, 0..40);
        let fetched = second.iter().filter(|did| did.starts_with('-')).count();
        assert!(fetched <= 5, "{name}: what the first columns took is fetched again at most: {second:?}");
        for _ in 0..3 {
            let later = pass(&cache, 0..40);
            assert!(!later.iter().any(|did| did.starts_with('-')), "{name}: {later:?}");
        }
        assert!(cache.bytes().0 <= cache.limit());
    }
}

#[test]
fn with_decoded_columns_alone_most_of_that_is_missing() {
    let cache = SegmentCache::new(10 * decoded_bytes(), Arc::new(Lfu));
    for _ in 0..4 {
        for number in 0..40 {
            match look_up(&cache, &SegmentRequest { stored: None, ..request(number) }) {
                Access::Load(share) => drop(complete(claimed(share))),
                Access::Hit(_) | Access::Missing => {}
                Access::Decode { .. } => panic!("there are no stored bytes"),
            }
        }
    }
    assert_eq!(cached(&cache, Representation::Decoded).0.len(), 10);
    assert_eq!(cached(&cache, Representation::Stored).0.len(), 0);
}

#[test]
fn stored_bytes_that_save_less_per_byte_are_never_kept() {
    for (bytes, saves) in [(decoded_bytes(), 0.9), (decoded_bytes() / 2, 0.4), (STORED_BYTES, 0.0), (0, 0.0)] {
        let cache = SegmentCache::new(3 * decoded_bytes(), Arc::new(Wlfu));
        for number in 0..9 {
            let stored = Some(StoredSize { bytes, saves });
            if let Access::Load(share) = look_up(&cache, &SegmentRequest { stored, ..request(number) }) {
                let ticket = claimed(share);
                assert_eq!(ticket.representation(), Representation::Decoded, "{bytes} bytes save {saves}");
                complete(ticket);
            }
        }
        assert_eq!(cached(&cache, Representation::Decoded).0.len(), 3);
    }
}

#[test]
fn the_columns_used_most_are_the_decoded_ones() {
    for policy in policies() {
        let name = policy.name();
        let cache = SegmentCache::new(8 * decoded_bytes(), policy);
        pass(&cache, 0..30);
        for _ in 0..12 {
            pass(&cache, [27, 28, 29]);
        }
        assert_eq!(pass(&cache, [27, 28, 29]), ["d-"; 3], "{name}");
        let rest = pass(&cache, 0..30);
        assert!(rest.iter().filter(|did| did.starts_with('-')).count() <= 5, "{name}: {rest:?}");
    }
}

#[test]
fn stored_bytes_of_a_decoded_column_go_first_and_are_worth_something_again_without_it() {
    for policy in policies() {
        let name = policy.name();
        let cache = SegmentCache::new(4 * decoded_bytes(), policy);
        // More than half is taken, so that the next is kept as it is stored.
        pass(&cache, [0, 1, 2]);
        assert_eq!(touch(&cache, 2), "sd", "{name}");
        assert_eq!(cached(&cache, Representation::Stored), (BTreeSet::from([2]), 0.0), "{name}: a spare");
        let held = match look_up(&cache, &request(2)) {
            Access::Hit(segment) if segment.stored().is_none() => segment,
            other => panic!("{name}: {other:?}"),
        };
        // A reader keeps the decoded column, and the stored one makes room.
        pass(&cache, 3..12);
        assert!(!cached(&cache, Representation::Stored).0.contains(&2), "{name}");
        assert!(cached(&cache, Representation::Decoded).0.contains(&2), "{name}");
        drop(held);
    }
    let cache = SegmentCache::new(4 * decoded_bytes(), Arc::new(Lfu));
    pass(&cache, [0, 1, 2, 2]);
    let groups = [vec![SegmentRequest {
        key: key(2).in_representation(Representation::Stored).unwrap(),
        columns: 1,
        stored: None,
        ..request(2)
    }]];
    let pinned = cache.access(&groups).remove(0).remove(0);
    assert!(matches!(pinned, Access::Hit(_)));
    cache.clear();
    assert_eq!(cached(&cache, Representation::Decoded).0.len(), 0);
    drop(pinned);
    drop(cache.access(&groups));
    let (numbers, benefit) = cached(&cache, Representation::Stored);
    assert_eq!(numbers, BTreeSet::from([2]));
    assert!(benefit > 0.0);
}

#[test]
fn a_pin_that_promotion_replaces_may_be_the_last() {
    let cache = SegmentCache::new(4 * decoded_bytes(), Arc::new(Lfu));
    pass(&cache, [0, 1, 2]);
    let groups = [vec![request(2)]];
    let mut accesses = cache.access(&groups);
    assert!(matches!(&accesses[0][0], Access::Hit(pin) if pin.stored().is_some()));
    // Another query decodes the column and reads it; eviction finds the stored bytes pinned.
    assert_eq!(touch(&cache, 2), "sd");
    let reader = look_up(&cache, &request(2));
    pass(&cache, 3..12);
    cache.promote(&groups, &mut accesses, &[true]);
    assert!(matches!(&accesses[0][0], Access::Hit(pin) if pin.stored().is_none()));
    drop((accesses, reader));
    cache.set_limit(0);
    assert_eq!(cache.bytes(), (0, 0));
}

#[tokio::test]
async fn one_fetch_of_stored_bytes_is_shared() {
    let cache = SegmentCache::new(decoded_bytes(), Arc::new(Lfu));
    let (Access::Load(first), Access::Load(second)) = (look_up(&cache, &request(0)), look_up(&cache, &request(0)))
    else {
        panic!("admitted, and under way");
    };
    let Claim::Load(ticket) = first.claim() else { panic!("the first loads") };
    let Claim::Wait(pending) = second.claim() else { panic!("the second waits") };
    assert_eq!(ticket.representation(), Representation::Stored);
    ticket.complete_stored(stored());
    let shared = pending.wait().await.unwrap();
    assert_eq!(shared.stored().unwrap().ranges()[0].1.len(), STORED_BYTES);
    assert!(shared.chunks().is_empty());
}

#[test]
fn policies_that_see_no_bytes_do_not_compare_representations() {
    assert!(!SegmentCache::new(1, Arc::new(Lru)).weighs_bytes());
    assert!(policies().into_iter().all(|policy| SegmentCache::new(1, policy).weighs_bytes()));
}

/// Queries, readers, loads that fail, limits and policies at random: never more bytes than the limit, what is read stays,
/// and stored bytes are worth nothing exactly while their column is cached decoded.
#[test]
fn no_order_of_events_breaks_an_invariant() {
    let seeds = match std::env::var("THERMOCLINE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..200,
    };
    let mut seen = BTreeSet::new();
    for seed in seeds {
        println!("THERMOCLINE_SEED={seed}");
        let mut random = Random(seed);
        let mut limit = (1 + random.below(8) as usize) * decoded_bytes();
        let cache = SegmentCache::new(limit, Arc::clone(&policies()[seed as usize % 3]));
        let mut readers: Vec<PinnedSegment> = vec![];
        let mut tickets: Vec<LoadTicket> = vec![];
        for step in 0..300 {
            let what = format!("THERMOCLINE_SEED={seed}, step {step}");
            match random.below(12) {
                0..=6 => {
                    let number = (random.below(24) * random.below(24) / 24) as u32;
                    let groups = [vec![request(number)], vec![request(number + 1), request(number + 2)]];
                    let planned = cache.peek(&groups);
                    let mut accesses = cache.access(&groups);
                    for (planned, access) in planned.iter().flatten().zip(accesses.iter().flatten()) {
                        let is_hit = matches!(access, Access::Hit(_));
                        assert_eq!(is_hit, planned.is_some(), "{what}");
                    }
                    let wanted = [random.below(4) > 0, random.below(4) > 0];
                    cache.admit(&groups, &mut accesses, &wanted);
                    cache.promote(&groups, &mut accesses, &wanted);
                    for access in accesses.into_iter().flatten() {
                        match access {
                            Access::Hit(segment) => readers.push(segment),
                            Access::Decode { stored, load } => {
                                seen.insert("promoted");
                                readers.push(stored);
                                if let Claim::Load(ticket) = load.claim() {
                                    tickets.push(ticket);
                                }
                            }
                            Access::Load(share) => {
                                if let Claim::Load(ticket) = share.claim() {
                                    tickets.push(ticket);
                                }
                            }
                            Access::Missing => drop(seen.insert("missing")),
                        }
                    }
                }
                7..=8 => {
                    while random.below(4) > 0 && !tickets.is_empty() {
                        let ticket = tickets.swap_remove(random.below(tickets.len() as u64) as usize);
                        match random.below(5) {
                            0 => drop(ticket),
                            _ => readers.push(complete(ticket)),
                        }
                    }
                }
                9 => {
                    let kept = random.below(readers.len() as u64 + 1) as usize;
                    readers.truncate(kept);
                }
                10 => match random.below(4) {
                    0 => cache.clear(),
                    1 => cache.set_policy(Arc::clone(&policies()[random.below(3) as usize])),
                    2 => cache.remove_table("t"),
                    _ => {
                        readers.clear();
                        tickets.clear();
                        limit = random.below(9) as usize * decoded_bytes();
                        cache.set_limit(limit);
                    }
                },
                _ => {
                    readers.clear();
                }
            }
            let (resident, reserved) = cache.bytes();
            assert!(resident + reserved <= limit, "{what}: {resident} and {reserved} of {limit}");
            for reader in &readers {
                let bytes = reader.stored().map(|stored| stored.ranges()[0].1.len());
                assert_eq!((reader.rows(), bytes.unwrap_or(STORED_BYTES)), (ROWS, STORED_BYTES), "{what}");
            }
            let (decoded, _) = cached(&cache, Representation::Decoded);
            for segment in cache.segments() {
                if segment.key.kind.representation() == Representation::Stored && segment.uses.accesses > 0 {
                    let PartitionRange::RowGroups { start, .. } = segment.key.partition else { unreachable!() };
                    assert_eq!(segment.benefit == 0.0, decoded.contains(&start), "{what}: {start}");
                    seen.insert(if decoded.contains(&start) { "spare" } else { "stored" });
                }
            }
        }
        readers.clear();
        tickets.clear();
        cache.set_limit(0);
        assert_eq!(cache.bytes(), (0, 0), "THERMOCLINE_SEED={seed}: all of it goes");
    }
    assert_eq!(seen, BTreeSet::from(["missing", "promoted", "spare", "stored"]));
}
