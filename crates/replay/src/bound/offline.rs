//! A good plan with the future known: the bound's fractional solution, made whole.
//!
//! The unit is a *bundle*: the room to keep all segments of a request from their uses before until it. Bundles are taken
//! in the order of how much of them the fractional solution kept, then of the time that they save per price of the room,
//! as long as they fit. Then each family of segments that occur together decides at which requests to load what is
//! missing, by changing one decision at a time while that saves time. Room that turned out to be of no use is given
//! back and filled again. Another plan begins with what an algorithm did, and is improved in the same way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::Bound;
use super::requests::{Request, Requests};
use crate::numbered::Numbered;
use crate::plan::{Plan, Step};
use crate::sim::{Algorithm, Contents};
use crate::trace::{SegmentId, Trace};

/// Times that unused room is filled again.
const REFILLS: usize = 4;
/// Passes over a family's decisions.
const PASSES: usize = 3;

/// A plan for `trace` and a cache of `capacity` bytes, made from the bound for the same and from what `algorithm` does.
pub fn offline_plan(trace: &Trace, capacity: u64, bound: &Bound, algorithm: &mut dyn Algorithm) -> Plan {
    let requests = Requests::of(trace);
    let families = families(&requests);
    let mut planner = Planner::new(&requests, capacity);
    let mut best = (f64::INFINITY, Plan::default());
    let by_fraction = planner.bundles(bound, true);
    let by_price = planner.bundles(bound, false);
    for first in [Some(&by_fraction), Some(&by_price), None] {
        planner.clear();
        match first {
            Some(bundles) => planner.fill(bundles),
            None => planner.imitate(trace, algorithm),
        }
        for _ in 0..REFILLS {
            let seconds = families.iter().map(|family| planner.decide(family)).sum::<f64>();
            if seconds < best.0 {
                best = (seconds, planner.plan(&families));
            }
            planner.give_back(&families);
            planner.fill(&by_price);
        }
    }
    best.1
}

/// Requests that share segments, in order of time.
fn families(requests: &Requests) -> Vec<Vec<usize>> {
    let mut parent: Numbered<usize> = (0..requests.chains.len()).collect();
    fn root(parent: &mut Numbered<usize>, of: usize) -> usize {
        let mut at = of;
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    for request in requests.requests.iter() {
        for pair in request.needs.windows(2) {
            if let [(a, _), (b, _)] = pair {
                let (a, b) = (root(&mut parent, a.position()), root(&mut parent, b.position()));
                parent[a] = b;
            }
        }
    }
    let mut families: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, request) in requests.requests.iter().enumerate() {
        if let Some((id, _)) = request.needs.first() {
            families.entry(root(&mut parent, id.position())).or_default().push(number);
        }
    }
    families.into_values().collect()
}

/// Bytes of room taken, and decisions.
struct Planner<'a> {
    requests: &'a Requests,
    capacity: u64,
    /// Bytes kept over the gap after each lookup.
    taken: Numbered<u64>,
    /// By segment and use, whether there is room until the next use.
    room: Numbered<Vec<bool>>,
    /// By request, whether to load what is missing.
    loads: Numbered<bool>,
}

impl<'a> Planner<'a> {
    fn new(requests: &'a Requests, capacity: u64) -> Self {
        let mut planner = Self {
            requests,
            capacity,
            taken: Numbered::default(),
            room: Numbered::default(),
            loads: Numbered::default(),
        };
        planner.clear();
        planner
    }

    fn clear(&mut self) {
        self.taken = Numbered::of(0, self.requests.lookups);
        self.room = self.requests.chains.iter().map(|chain| vec![false; chain.len()]).collect();
        self.loads = Numbered::of(true, self.requests.requests.len());
    }

    /// Takes the room and the loads of an algorithm.
    fn imitate(&mut self, trace: &Trace, algorithm: &mut dyn Algorithm) {
        let mut contents = Contents::new(trace, self.capacity);
        let mut numbers = 0..self.requests.requests.len();
        let mut next = numbers.next();
        for (now, lookup) in trace.lookups.iter().enumerate() {
            let mut asked = vec![];
            while let Some(number) = next.filter(|number| self.requests.requests[*number].time == now) {
                for (id, before, times) in self.spans(number) {
                    if contents.holds(id) && self.room[id].get(before) == Some(&false) {
                        times.for_each(|time| self.taken[time] += self.requests.bytes[id]);
                        self.set_room(id, before, true);
                    }
                }
                asked.push(number);
                next = numbers.next();
            }
            algorithm.lookup(now, lookup, &mut contents);
            for number in asked {
                let mut needs = self.requests.requests[number].needs.iter();
                self.loads[number] = needs.all(|(id, _)| contents.holds(*id));
            }
            contents.end_lookup();
        }
    }

    /// Bundles in the order in which to take them.
    fn bundles(&self, bound: &Bound, by_fraction: bool) -> Vec<usize> {
        let worth = |request: &Request| {
            let mut fraction = 1.0_f64;
            let (mut price, mut loads) = (0.0, 0.0);
            // Segments that are used for the first time need no room before.
            for (id, position) in request.needs.iter().filter(|(_, position)| *position > 0) {
                let chain = &self.requests.chains[*id];
                let before = position - 1;
                let (first, used) = (chain.get(before)?, chain.get(*position)?);
                let gaps = bound.price_before[used.time] - bound.price_before[first.time];
                price += gaps * self.requests.bytes[*id] as f64;
                loads += used.load_seconds;
                fraction = fraction.min(bound.kept[*id].get(before).copied().unwrap_or(0.0));
            }
            let fraction = if by_fraction { (fraction * 20.0).round() } else { 0.0 };
            Some((fraction, request.gain.min(loads) / price.max(1e-12)))
        };
        let requests = self.requests.requests.iter().enumerate();
        let mut bundles: Vec<((f64, f64), usize)> =
            requests.filter_map(|(number, request)| Some((worth(request)?, number))).collect();
        bundles.sort_by(|(a, _), (b, _)| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        bundles.into_iter().map(|(_, number)| number).collect()
    }

    /// Takes room for bundles in this order, as long as they fit.
    fn fill(&mut self, bundles: &[usize]) {
        for number in bundles {
            let mut gaps: BTreeMap<usize, u64> = BTreeMap::new();
            let mut new = vec![];
            for (id, before, times) in self.spans(*number) {
                if self.room[id].get(before) == Some(&false) {
                    times.for_each(|time| *gaps.entry(time).or_default() += self.requests.bytes[id]);
                    new.push((id, before));
                }
            }
            if gaps.iter().all(|(time, bytes)| self.taken[*time] + bytes <= self.capacity) {
                gaps.iter().for_each(|(time, bytes)| self.taken[*time] += bytes);
                new.into_iter().for_each(|(id, before)| self.set_room(id, before, true));
            }
        }
    }

    fn set_room(&mut self, id: SegmentId, position: usize, room: bool) {
        if let Some(known) = self.room[id].get_mut(position) {
            *known = room;
        }
    }

    /// For each segment of a request that was used before: that use, and the gaps since.
    fn spans(&self, number: usize) -> Vec<(SegmentId, usize, std::ops::Range<usize>)> {
        let request = &self.requests.requests[number];
        let span = |(id, position): &(SegmentId, usize)| {
            let before = position.checked_sub(1)?;
            let first = self.requests.chains[*id].get(before)?;
            Some((*id, before, first.time..request.time))
        };
        request.needs.iter().filter_map(span).collect()
    }

    /// Chooses the loads of a family; returns its seconds beside those of routes without the cache.
    fn decide(&mut self, family: &[usize]) -> f64 {
        let mut best = self.walk(family, |_, _, _| {});
        for _ in 0..PASSES {
            let before = best;
            for number in family.iter().rev() {
                self.loads[*number] = !self.loads[*number];
                let seconds = self.walk(family, |_, _, _| {});
                if seconds < best {
                    best = seconds;
                } else {
                    self.loads[*number] = !self.loads[*number];
                }
            }
            if best >= before {
                break;
            }
        }
        best
    }

    /// Goes through a family's requests; tells `visit` the segments loaded and those kept afterwards.
    fn walk(&self, family: &[usize], mut visit: impl FnMut(usize, &[SegmentId], &HashSet<SegmentId>)) -> f64 {
        let mut seconds = 0.0;
        let mut there: HashSet<SegmentId> = HashSet::new();
        let mut loaded = vec![];
        for number in family {
            let request = &self.requests.requests[*number];
            let mut whole = true;
            loaded.clear();
            for (id, position) in &request.needs {
                if there.contains(id) {
                    continue;
                }
                if self.loads[*number] {
                    seconds += self.requests.chains[*id].get(*position).map_or(0.0, |used| used.load_seconds);
                    loaded.push(*id);
                } else {
                    whole = false;
                }
            }
            if whole {
                seconds -= request.gain;
            }
            for (id, position) in &request.needs {
                let here = there.contains(id) || loaded.contains(id);
                if here && self.room[*id].get(*position) == Some(&true) {
                    there.insert(*id);
                } else {
                    there.remove(id);
                }
            }
            visit(*number, &loaded, &there);
        }
        seconds
    }

    /// Gives back the room that nothing is kept in.
    fn give_back(&mut self, families: &[Vec<usize>]) {
        let mut used: HashSet<(SegmentId, usize)> = HashSet::new();
        for family in families {
            self.walk(family, |number, _, there| {
                let needs = self.requests.requests[number].needs.iter();
                used.extend(needs.filter(|(id, _)| there.contains(id)).copied());
            });
        }
        for number in 0..self.requests.requests.len() {
            for (id, before, times) in self.spans(number) {
                if self.room[id].get(before) == Some(&true) && !used.contains(&(id, before)) {
                    times.for_each(|time| self.taken[time] -= self.requests.bytes[id]);
                    self.set_room(id, before, false);
                }
            }
        }
    }

    fn plan(&self, families: &[Vec<usize>]) -> Plan {
        let mut steps = vec![Step::default(); self.requests.lookups];
        for family in families {
            // Changes of what the family keeps, by time.
            let mut kept: BTreeMap<usize, HashSet<SegmentId>> = BTreeMap::new();
            self.walk(family, |number, loaded, there| {
                let time = self.requests.requests[number].time;
                if let Some(step) = steps.get_mut(time) {
                    step.loads.extend_from_slice(loaded);
                }
                kept.insert(time, there.clone());
            });
            let mut changes = kept.into_iter().peekable();
            while let Some((time, there)) = changes.next() {
                let until = changes.peek().map_or(time + 1, |(next, _)| *next);
                for step in steps.iter_mut().take(until).skip(time) {
                    step.keeps.extend(&there);
                }
            }
        }
        // Segments that stay are loaded before those that only pass through.
        for step in &mut steps {
            let Step { loads, keeps } = step;
            loads.sort_by_key(|id| Reverse(keeps.contains(id)));
        }
        Plan { steps }
    }
}
