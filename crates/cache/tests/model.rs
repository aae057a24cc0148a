//! The cache compared with the simplest possible implementation of Algorithm 1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thermocline_cache::{
    Access, Candidate, Claim, Decoding, FREQUENCY_HALF_LIFE, Lfu, LoadTicket, Lru, ObjectKey, PinnedSegment, Policy,
    Representation, SegmentCache, SegmentKey, SegmentKind, SegmentRequest, SegmentUse, Wlfu, array_bytes,
};
use thermocline_pushdown::{ObjectPath, ObjectVersion, PartitionRange};
use thermocline_replay::random::Random;

/// Table, object, partition and column of a segment.
type Name = (u8, u8, u8, u8);

/// A cache of names that sorts and scans everything for every decision.
struct Model {
    limit: usize,
    policy: Arc<dyn Policy>,
    tick: u64,
    uses: BTreeMap<Name, SegmentUse>,
    /// Bytes and admission of cached segments.
    cached: BTreeMap<Name, (usize, u64)>,
    /// Reserved bytes of loads.
    loading: BTreeMap<Name, usize>,
    /// Readers of cached segments.
    pins: BTreeMap<Name, usize>,
    admissions: u64,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Answer {
    Hit,
    Load,
    Missing,
}

impl Model {
    fn used(&self) -> usize {
        self.cached.values().map(|(bytes, _)| bytes).sum::<usize>() + self.loading.values().sum::<usize>()
    }

    fn benefit(&self, name: Name, uses: &SegmentUse, bytes: usize, now: u64) -> f64 {
        self.policy.benefit(Candidate { key: &key(name), uses, bytes, share: 1.0 }, now)
    }

    /// Segments that may be evicted, least beneficial first.
    fn victims(&self, needed: &[Name]) -> Vec<(f64, Name, usize)> {
        let free = |name: &&Name| !needed.contains(name) && self.pins.get(*name).is_none_or(|pins| *pins == 0);
        let mut victims: Vec<_> = self
            .cached
            .keys()
            .filter(free)
            .map(|name| {
                let (bytes, admission) = self.cached[name];
                (self.benefit(*name, &self.uses[name], bytes, self.tick), admission, *name, bytes)
            })
            .collect();
        victims.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        victims.into_iter().map(|(benefit, _, name, bytes)| (benefit, name, bytes)).collect()
    }

    /// Whether each wanted group is admitted whole, and the evictions for that.
    fn plan(&self, groups: &[Vec<(Name, usize)>], wanted: &[bool], ahead: bool) -> (Vec<bool>, Vec<Name>) {
        let needed: Vec<Name> = groups.iter().flatten().map(|(name, _)| *name).collect();
        let mut missing = vec![];
        for (group, requests) in groups.iter().enumerate() {
            for (name, bytes) in requests {
                if wanted[group] && !self.cached.contains_key(name) && !self.loading.contains_key(name) {
                    let mut uses = self.uses.get(name).copied().unwrap_or_default();
                    let mut now = self.tick;
                    if ahead {
                        now += 1;
                        uses.record(now, miss_seconds(*name, now));
                    }
                    missing.push((self.benefit(*name, &uses, *bytes, now), group, *bytes));
                }
            }
        }
        missing.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut short = vec![0; groups.len()];
        missing.iter().for_each(|(_, group, _)| short[*group] += 1);
        let now = self.tick + u64::from(ahead);
        let victims: Vec<_> = self
            .victims(&needed)
            .into_iter()
            .map(|(_, name, bytes)| (self.benefit(name, &self.uses[&name], bytes, now), name, bytes))
            .collect();
        let room = self.limit as i64 - self.used() as i64;
        let (mut free, mut next, mut admitted) = (room, 0, vec![]);
        for (benefit, group, bytes) in missing {
            while free < bytes as i64 && next < victims.len() && victims[next].0 < benefit {
                free += victims[next].2 as i64;
                next += 1;
            }
            if free < bytes as i64 {
                break;
            }
            free -= bytes as i64;
            short[group] -= 1;
            admitted.push((group, bytes));
        }
        let whole: Vec<bool> = short.iter().zip(wanted).map(|(short, wanted)| *wanted && *short == 0).collect();
        let needed: i64 = admitted.iter().filter(|(group, _)| whole[*group]).map(|(_, bytes)| *bytes as i64).sum();
        let (mut room, mut evicted) = (room, vec![]);
        for (_, name, bytes) in &victims[..next] {
            if needed > 0 && room < needed {
                room += *bytes as i64;
                evicted.push(*name);
            }
        }
        (whole, evicted)
    }

    /// The answers of a lookup.
    fn access(&mut self, groups: &[Vec<(Name, usize)>]) -> Vec<Vec<Answer>> {
        self.tick += 1;
        for (name, _) in groups.iter().flatten() {
            self.uses.entry(*name).or_default().record(self.tick, miss_seconds(*name, self.tick));
        }
        let groups = groups.iter();
        groups.map(|group| group.iter().map(|(name, _)| self.held(*name)).collect()).collect()
    }

    fn held(&mut self, name: Name) -> Answer {
        if self.cached.contains_key(&name) {
            *self.pins.entry(name).or_default() += 1;
            Answer::Hit
        } else if self.loading.contains_key(&name) {
            Answer::Load
        } else {
            Answer::Missing
        }
    }

    /// Changes the answers of a lookup; returns the number of evictions.
    fn admit(&mut self, groups: &[Vec<(Name, usize)>], answers: &mut [Vec<Answer>], wanted: &[bool]) -> usize {
        let (whole, evicted) = self.plan(groups, wanted, false);
        self.cached.retain(|name, _| !evicted.contains(name));
        for ((group, answers), whole) in groups.iter().zip(answers).zip(whole) {
            for ((name, bytes), answer) in group.iter().zip(answers) {
                if whole && *answer == Answer::Missing {
                    self.loading.entry(*name).or_insert(*bytes);
                    *answer = Answer::Load;
                }
            }
        }
        evicted.len()
    }

    fn complete(&mut self, name: Name, bytes: usize) -> bool {
        self.loading.remove(&name);
        let benefit = self.benefit(name, &self.uses[&name], bytes, self.tick);
        let mut evicted = vec![];
        let mut used = self.used();
        for (victim, victim_name, victim_bytes) in self.victims(&[]) {
            if used + bytes <= self.limit || victim >= benefit {
                break;
            }
            used -= victim_bytes;
            evicted.push(victim_name);
        }
        if used + bytes > self.limit {
            return false;
        }
        self.cached.retain(|name, _| !evicted.contains(name));
        self.admissions += 1;
        self.cached.insert(name, (bytes, self.admissions));
        true
    }

    fn shrink(&mut self) {
        for (_, name, _) in self.victims(&[]) {
            if self.used() <= self.limit {
                break;
            }
            self.cached.remove(&name);
        }
    }

    /// Removes the segments that `gone` selects.
    fn remove(&mut self, gone: impl Fn(&Name) -> bool) {
        self.uses.retain(|name, _| !gone(name));
        self.cached.retain(|name, _| !gone(name));
    }
}

fn answer(access: &Access) -> Answer {
    match access {
        Access::Hit(_) | Access::Decode { .. } => Answer::Hit,
        Access::Load(_) => Answer::Load,
        Access::Missing => Answer::Missing,
    }
}

fn column(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; rows]))
}

fn key(name: Name) -> SegmentKey {
    let (table, object, partition, column) = name;
    SegmentKey {
        object: Arc::new(ObjectKey {
            table: table.to_string().into(),
            object: ObjectPath::new(object.to_string()),
            version: ObjectVersion::new("1"),
        }),
        partition: PartitionRange::RowGroups { start: u32::from(partition), end: u32::from(partition) + 1 },
        kind: SegmentKind::column(column.to_string()),
        decoding: Decoding::of(&"Int64"),
    }
}

/// Rows that a segment is expected to have.
fn rows_of((table, object, partition, column): Name) -> usize {
    20 * (1 + usize::from(column)) + 10 * usize::from((table + object + partition) % 3)
}

/// Modelled seconds of a miss: by the segment and by the lookup, sometimes unknown.
fn miss_seconds((table, object, _, column): Name, tick: u64) -> f64 {
    let by_segment = 0.003 * f64::from(1 + table + 2 * object) * f64::from(1 + column);
    if tick.is_multiple_of(7) { 0.0 } else { by_segment * (1 + tick % 3) as f64 }
}

fn groups(random: &mut Random) -> Vec<Vec<Name>> {
    (0..=random.below(3))
        .map(|_| {
            let [table, object, partition] = [2, 2, 3].map(|limit| random.below(limit) as u8);
            let first = random.below(3) as u8;
            (first..=first + random.below(2) as u8).map(|column| (table, object, partition, column)).collect()
        })
        .collect()
}

/// Random queries, loads, failures, limits, removals and changes of policy: every answer, every eviction and every byte
/// as in the model.
#[test]
fn every_decision_is_that_of_the_plain_algorithm() {
    let seeds = match std::env::var("THERMOCLINE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..300,
    };
    let mut evictions = 0;
    for seed in seeds {
        evictions += compare(seed);
    }
    assert!(evictions > 1000, "only {evictions} evictions were compared");
}

fn compare(seed: u64) -> usize {
    println!("THERMOCLINE_SEED={seed}");
    let mut random = Random(seed);
    let policies: [Arc<dyn Policy>; 3] = [Arc::new(Lru), Arc::new(Lfu), Arc::new(Wlfu)];
    let mut limit = 1000 + random.below(12_000) as usize;
    let policy = &policies[seed as usize % 3];
    let cache = SegmentCache::new(limit, Arc::clone(policy));
    let mut model = Model {
        limit,
        policy: Arc::clone(policy),
        tick: 0,
        uses: BTreeMap::new(),
        cached: BTreeMap::new(),
        loading: BTreeMap::new(),
        pins: BTreeMap::new(),
        admissions: 0,
    };
    let mut readers: Vec<(Name, PinnedSegment)> = vec![];
    let mut tickets: Vec<(Name, LoadTicket)> = vec![];
    let mut evictions = 0;
    for step in 0..400 {
        let what = format!("THERMOCLINE_SEED={seed}, step {step}");
        match random.below(20) {
            0..=9 => {
                let asked: Vec<Vec<(Name, usize)>> = groups(&mut random)
                    .into_iter()
                    .map(|group| group.into_iter().map(|name| (name, array_bytes(&column(rows_of(name))))).collect())
                    .collect();
                let tick = model.tick + 1;
                let request = |(name, bytes): &(Name, usize)| SegmentRequest {
                    key: key(*name),
                    bytes: *bytes,
                    miss_seconds: miss_seconds(*name, tick),
                    columns: 1,
                    stored: None,
                };
                let requests: Vec<Vec<_>> = asked.iter().map(|group| group.iter().map(request).collect()).collect();
                let wanted: Vec<bool> = asked.iter().map(|_| random.below(4) > 0).collect();
                assert_eq!(cache.would_admit(&requests, &wanted), model.plan(&asked, &wanted, true).0, "{what}");
                let is_cached = |(name, _): &(Name, usize)| model.cached.contains_key(name);
                let is_cached = |segment: &(Name, usize)| is_cached(segment).then_some(Representation::Decoded);
                let cached: Vec<Vec<_>> = asked.iter().map(|group| group.iter().map(is_cached).collect()).collect();
                assert_eq!(cache.peek(&requests), cached, "{what}");
                let mut expected = model.access(&asked);
                let mut accesses = cache.access(&requests);
                let answers: Vec<Vec<Answer>> =
                    accesses.iter().map(|group| group.iter().map(answer).collect()).collect();
                assert_eq!(answers, expected, "{what}");
                let evicted = cache.admit(&requests, &mut accesses, &wanted);
                assert_eq!(evicted, model.admit(&asked, &mut expected, &wanted), "{what}");
                evictions += evicted;
                for ((group, asked), expected) in accesses.into_iter().zip(&asked).zip(expected) {
                    for ((access, (name, _)), expected) in group.into_iter().zip(asked).zip(expected) {
                        assert_eq!(answer(&access), expected, "{what}: {name:?}");
                        match access {
                            Access::Hit(segment) => readers.push((*name, segment)),
                            Access::Load(share) => {
                                if let Claim::Load(ticket) = share.claim() {
                                    tickets.push((*name, ticket));
                                }
                            }
                            Access::Decode { .. } | Access::Missing => {}
                        }
                    }
                }
            }
            10..=12 if !tickets.is_empty() => {
                let (name, ticket) = tickets.swap_remove(random.below(tickets.len() as u64) as usize);
                let rows = rows_of(name) / 2 + random.below(rows_of(name) as u64) as usize;
                let kept = ticket.complete(vec![column(rows)]).1;
                assert_eq!(kept, model.complete(name, array_bytes(&column(rows))), "{what}: {name:?} of {rows} rows");
            }
            13 if !tickets.is_empty() => {
                let (name, ticket) = tickets.swap_remove(random.below(tickets.len() as u64) as usize);
                drop(ticket);
                model.loading.remove(&name);
            }
            14..=15 if !readers.is_empty() => {
                for _ in 0..=random.below(readers.len() as u64) {
                    let (name, segment) = readers.swap_remove(random.below(readers.len() as u64) as usize);
                    drop(segment);
                    *model.pins.get_mut(&name).unwrap() -= 1;
                }
            }
            16 => {
                // With readers or loads, the effect of a lowered limit depends on when they end.
                readers.clear();
                tickets.clear();
                model.pins.clear();
                model.loading.clear();
                limit = random.below(15_000) as usize;
                cache.set_limit(limit);
                model.limit = limit;
                model.shrink();
            }
            17 => {
                readers.clear();
                tickets.clear();
                model.pins.clear();
                model.loading.clear();
                let [table, object] = [2, 2].map(|limit| random.below(limit) as u8);
                if random.below(2) == 0 {
                    cache.remove_table(&table.to_string());
                    model.remove(|name| name.0 == table);
                } else {
                    cache.remove_version(
                        &table.to_string(),
                        &ObjectPath::new(object.to_string()),
                        &ObjectVersion::new("1"),
                    );
                    model.remove(|name| (name.0, name.1) == (table, object));
                }
            }
            18 => {
                let policy = &policies[random.below(3) as usize];
                cache.set_policy(Arc::clone(policy));
                model.policy = Arc::clone(policy);
            }
            _ => {
                // Time passes.
                for _ in 0..FREQUENCY_HALF_LIFE / 8 {
                    drop(cache.access(&[]));
                    model.tick += 1;
                }
            }
        }
        let (resident, reserved) = cache.bytes();
        let cached: usize = model.cached.values().map(|(bytes, _)| bytes).sum();
        assert_eq!((resident, reserved), (cached, model.loading.values().sum::<usize>()), "{what}");
        assert!(resident + reserved <= limit, "{what}");
        let mut names: Vec<_> = cache.segments().iter().map(|segment| format!("{:?}", segment.key)).collect();
        let mut expected: Vec<_> = model.cached.keys().map(|name| format!("{:?}", key(*name))).collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected, "{what}");
    }
    evictions
}
