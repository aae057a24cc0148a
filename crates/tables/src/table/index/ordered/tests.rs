use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn check(set: &OrderedSet, model: &BTreeSet<Vec<u8>>) {
    assert_eq!(set.len(), model.len());
    assert!(set.range(Bound::Unbounded, Bound::Unbounded).eq(model.iter().map(Vec::as_slice)));
    assert!(set.range(Bound::Unbounded, Bound::Unbounded).rev().eq(model.iter().rev().map(Vec::as_slice)));
}

fn bound(bound: Bound<&Vec<u8>>) -> Bound<&[u8]> {
    bound.map(Vec::as_slice)
}

#[test]
fn a_set_is_what_a_plain_set_is() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let budget = Budget::new(1 << 28);
        let (mut set, mut model) = (OrderedSet::new(), BTreeSet::new());
        let longest = [8, 40, ENTRY_BYTES_MAX - 4][seed as usize % 3];
        // Self-delimiting like index keys: no entry is a prefix of another.
        let key = |rng: &mut StdRng| {
            let length = rng.random_range(3..longest - 4);
            let mut key: Vec<u8> =
                (0..length).map(|_| rng.random_range(1..if length > 20 { 255 } else { 9 })).collect();
            key.push(0);
            key
        };
        for step in 0..6000 {
            let grow = if step < 4000 { 0.8 } else { 0.05 };
            if rng.random_bool(grow) {
                let key = key(&mut rng);
                assert_eq!(set.insert(&key, key.len(), &budget, Growth::Asked).unwrap(), model.insert(key));
            } else if let Some(key) = model.iter().nth(rng.random_range(0..model.len().max(1))).cloned() {
                assert!(set.remove(&key, &budget));
                assert!(!set.remove(&key, &budget));
                model.remove(&key);
            }
            if step % 500 == 0 {
                check(&set, &model);
            }
            if step % 10 == 0 {
                let (low, high) = (key(&mut rng), key(&mut rng));
                let (low, high) = if low < high { (low, high) } else { (high, low) };
                if low == high {
                    continue;
                }
                for (from, to) in [
                    (Bound::Included(&low), Bound::Included(&high)),
                    (Bound::Excluded(&low), Bound::Excluded(&high)),
                    (Bound::Unbounded, Bound::Excluded(&high)),
                    (Bound::Excluded(&low), Bound::Unbounded),
                ] {
                    let range = set.range(bound(from), bound(to));
                    assert!(range.clone().eq(model.range::<Vec<u8>, _>((from, to)).map(Vec::as_slice)));
                    assert!(range.rev().eq(model.range::<Vec<u8>, _>((from, to)).rev().map(Vec::as_slice)));
                }
                assert_eq!(set.range(Bound::Included(&high), Bound::Included(&low)).count(), 0);
            }
        }
        check(&set, &model);
        assert_eq!(budget.used(), set.bytes() as u64);
        for key in std::mem::take(&mut model) {
            assert!(set.remove(&key, &budget));
        }
        check(&set, &model);
        assert_eq!(set.height, 0);
        assert_eq!(set.pages.live(), 0);
    }
}

#[test]
fn keys_are_distinct_wherever_their_pages_end() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let budget = Budget::new(1 << 28);
        let (mut set, mut model) = (OrderedSet::new(), BTreeSet::new());
        let streams = [1, 4, 40, 4000][seed as usize % 4];
        let mut ends = vec![0_u32; streams];
        for step in 0..30_000_u32 {
            let stream = rng.random_range(0..streams);
            let next = if rng.random_bool(0.7) { ends[stream] } else { rng.random_range(0..=ends[stream]) };
            ends[stream] = ends[stream].max(next + 1);
            // The key followed by an id, which does not make it a distinct key.
            let prefix = (stream as u64) << 32 | u64::from(next);
            let entry = [&prefix.to_be_bytes()[..], &rng.random::<u32>().to_be_bytes()].concat();
            let known = model.range([&prefix.to_be_bytes()[..], &[0; 4]].concat()..).next();
            let known = known.filter(|entry: &&Vec<u8>| entry.starts_with(&prefix.to_be_bytes())).cloned();
            assert_eq!(set.insert(&entry, 8, &budget, Growth::Asked).unwrap(), known.is_none(), "step {step}");
            match known {
                // Leaves separators that start with keys which are inserted again.
                Some(known) if rng.random_bool(0.8) => {
                    assert!(set.remove(&known, &budget) && model.remove(&known));
                }
                Some(_) => {}
                None => assert!(model.insert(entry)),
            }
        }
        check(&set, &model);
    }
}

#[test]
fn a_bound_means_all_that_start_with_it() {
    let budget = Budget::unlimited();
    let mut set = OrderedSet::new();
    for entry in ["a1", "b", "b1", "b2\u{ff}\u{ff}", "c"] {
        set.insert(entry.as_bytes(), entry.len(), &budget, Growth::Asked).unwrap();
    }
    let count = |from, to| set.range(from, to).count();
    let b = b"b".as_slice();
    assert_eq!(count(Bound::Included(b), Bound::Included(b)), 3);
    assert_eq!(count(Bound::Excluded(b), Bound::Unbounded), 1);
    assert_eq!(count(Bound::Unbounded, Bound::Excluded(b)), 1);
    assert_eq!(count(Bound::Included(b), Bound::Excluded(b)), 0);
    assert_eq!(count(Bound::Included(b"b1"), Bound::Included(b)), 2);
    assert_eq!(count(Bound::Excluded(b"b1"), Bound::Included(b)), 1);
    assert_eq!(count(Bound::Excluded(b), Bound::Included(b"b1")), 0);
    assert_eq!(set.first_with(b), Some(b));
    assert_eq!(set.first_with(b"b2"), Some("b2\u{ff}\u{ff}".as_bytes()));
    assert_eq!(set.first_with(b"d"), None);
}

#[test]
fn ascending_keys_fill_their_pages() {
    let budget = Budget::unlimited();
    let mut set = OrderedSet::new();
    for key in 0..100_000u64 {
        set.insert(&key.to_be_bytes(), 8, &budget, Growth::Asked).unwrap();
    }
    let least = 100_000 * 12;
    assert!(set.pages.live() * PAGE_BYTES < least + least / 20, "{} pages", set.pages.live());
}

#[test]
fn keys_that_ascend_side_by_side_fill_their_pages() {
    let (heads, each) = (10_u64, 10_000_u32);
    let budget = Budget::unlimited();
    let mut set = OrderedSet::new();
    // A varying number of lines of an order at once.
    for number in (0..each).step_by(10) {
        for head in 0..heads {
            for line in number..number + 10 {
                let key = [&head.to_be_bytes()[..], &line.to_be_bytes(), &[0; 4]].concat();
                assert!(set.insert(&key, 12, &budget, Growth::Asked).unwrap());
            }
        }
    }
    let least = heads as usize * each as usize * 20;
    assert!(set.pages.live() * PAGE_BYTES < least + least / 8, "{} pages", set.pages.live());
    let mut before = None;
    for entry in set.range(Bound::Unbounded, Bound::Unbounded) {
        assert!(before.replace(entry).is_none_or(|before| before < entry));
    }
}

#[test]
fn no_room_leaves_the_set_as_it_was() {
    let budget = Budget::new(200_000);
    let (mut set, mut model) = (OrderedSet::new(), BTreeSet::new());
    let mut refused = 0;
    for key in 0..20_000u64 {
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        match set.insert(&key, key.len(), &budget, Growth::Asked) {
            Ok(new) => assert!(new && model.insert(key)),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "{refused}");
    check(&set, &model);
    assert!(set.insert(&[1; 30], 30, &budget, Growth::Forced).unwrap());
}

/// Runs of ascending keys under many heads, like orders of districts, whose beginnings are deleted meanwhile.
#[test]
fn runs_that_grow_side_by_side() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let budget = Budget::new(1 << 28);
        let (mut set, mut model) = (OrderedSet::new(), BTreeSet::new());
        let heads = [1, 3, 40][seed as usize % 3];
        let mut runs = vec![(0_u32, 0_u32); heads];
        let key = |head: usize, number: u32| {
            [(head as u64).to_be_bytes().as_slice(), &number.to_be_bytes(), b"line"].concat()
        };
        for step in 0..20_000 {
            let head = rng.random_range(0..heads);
            let (first, next) = &mut runs[head];
            if rng.random_bool(if step < 12_000 { 0.9 } else { 0.3 }) {
                let key = key(head, *next);
                assert!(set.insert(&key, key.len() - 4, &budget, Growth::Asked).unwrap());
                assert!(!set.insert(&key, key.len() - 4, &budget, Growth::Asked).unwrap(), "it is there already");
                model.insert(key);
                *next += 1;
            } else if first < next {
                let key = key(head, *first);
                assert!(set.remove(&key, &budget));
                model.remove(&key);
                *first += 1;
            }
            if step % 1000 == 0 {
                check(&set, &model);
                for key in model.iter().step_by(7) {
                    assert_eq!(set.first_with(key), Some(key.as_slice()));
                }
            }
        }
        check(&set, &model);
        assert_eq!(budget.used(), set.bytes() as u64);
    }
}
