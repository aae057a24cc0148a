//! The lower bound; its proof is in the module's documentation.

use super::requests::{Requests, Use};
use crate::numbered::Numbered;
use crate::trace::{SegmentId, Trace};

/// How long to search for a high bound.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Steps of the search.
    pub rounds: usize,
    /// Time of some algorithm, at which the search aims: the closer, the faster it gets there.
    pub target: f64,
}

/// A lower bound, with what it was found by.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Seconds that every algorithm needs.
    pub seconds: f64,
    /// By segment and use, the part of the search's late rounds in which it was best to keep the segment until its next
    /// use: nearly a solution of the linear relaxation.
    pub(super) kept: Numbered<Vec<f64>>,
    /// By lookup, sum of the prices of the gaps before it.
    pub(super) price_before: Numbered<f64>,
}

/// Prices, shares, and the least solution for them.
struct Search<'a> {
    requests: &'a Requests,
    capacity: f64,
    /// Price of the gap after each lookup, per cache.
    prices: Numbered<f64>,
    /// Shares by segment and use.
    shares: Numbered<Vec<f64>>,
    /// By segment and use: there after loads; kept until the next use.
    there: Numbered<Vec<bool>>,
    kept: Numbered<Vec<bool>>,
    /// Scratch: values of not having and of having the segment before each use.
    values: Numbered<[f64; 2]>,
}

/// Weight of a new round in the averages.
const AVERAGED: f64 = 0.02;
/// Rounds without progress after which steps become shorter.
const PATIENCE: usize = 40;

/// A lower bound of the modelled seconds of any algorithm that replays `trace` with a cache of `capacity` bytes.
pub fn lower_bound(trace: &Trace, capacity: u64, effort: Effort) -> Bound {
    let requests = Requests::of(trace);
    let mut search = Search::new(&requests, capacity);
    let mut best = search.best_uniform_price(effort.target);
    let mut kept: Numbered<Vec<f64>> = requests.chains.iter().map(|chain| vec![0.0; chain.len()]).collect();
    let mut price_before = search.price_before();
    let (mut step, mut stuck) = (1.0, 0);
    for _ in 0..effort.rounds {
        let seconds = search.solve();
        for id in ids(&kept) {
            for (average, kept) in kept[id].iter_mut().zip(&search.kept[id]) {
                *average += AVERAGED * (f64::from(u8::from(*kept)) - *average);
            }
        }
        stuck += 1;
        if seconds > best {
            // Creeping counts as being stuck.
            if seconds > best + (effort.target - best) * 1e-3 {
                stuck = 0;
            }
            best = seconds;
            price_before = search.price_before();
        }
        if stuck > PATIENCE {
            (step, stuck) = (step * 0.7, 0);
        }
        let distance = (effort.target - seconds).max(effort.target * 1e-6);
        search.step(step * distance);
    }
    Bound { seconds: best.max(0.0), kept, price_before }
}

fn ids<T>(numbered: &Numbered<T>) -> impl Iterator<Item = SegmentId> + use<T> {
    (0..numbered.len() as u32).map(SegmentId)
}

impl<'a> Search<'a> {
    fn new(requests: &'a Requests, capacity: u64) -> Self {
        let share = |(id, chain): (SegmentId, &Vec<Use>)| {
            let share = |used: &Use| {
                let request = &requests.requests[used.request];
                let all: u64 = request.needs.iter().map(|(id, _)| requests.bytes[*id].max(1)).sum();
                request.gain * requests.bytes[id].max(1) as f64 / all as f64
            };
            chain.iter().map(share).collect()
        };
        let none = || requests.chains.iter().map(|chain| vec![false; chain.len()]).collect();
        let longest = requests.chains.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            requests,
            capacity: capacity.max(1) as f64,
            prices: Numbered::of(0.0, requests.lookups),
            shares: ids(&requests.chains).zip(requests.chains.iter()).map(share).collect(),
            there: none(),
            kept: none(),
            values: Numbered::of([0.0; 2], longest + 1),
        }
    }

    /// By lookup, sum of the prices per byte of the gaps before it.
    fn price_before(&self) -> Numbered<f64> {
        let mut sum = 0.0;
        let before = |price: &f64| {
            let before = sum;
            sum += price / self.capacity;
            before
        };
        self.prices.iter().map(before).collect()
    }

    /// Starts from the best price that is the same for all gaps; returns the bound for it.
    fn best_uniform_price(&mut self, target: f64) -> f64 {
        let lookups = self.requests.lookups;
        let (mut best, mut best_price) = (self.solve(), 0.0);
        for doublings in -14..6 {
            let price = target / lookups.max(1) as f64 * 2.0_f64.powi(doublings);
            self.prices = Numbered::of(price, lookups);
            let seconds = self.solve();
            if seconds > best {
                (best, best_price) = (seconds, price);
            }
        }
        self.prices = Numbered::of(best_price, lookups);
        best
    }

    /// The bound for the current prices and shares, and the solution that has it.
    fn solve(&mut self) -> f64 {
        let price_before = self.price_before();
        let mut seconds = self.requests.base_seconds - self.prices.iter().sum::<f64>();
        for id in ids(&self.requests.chains) {
            seconds += self.solve_segment(id, &price_before);
        }
        seconds
    }

    /// Least value of one segment's bracket: the recursion from the last use to the first, then the choices in order.
    fn solve_segment(&mut self, id: SegmentId, price_before: &Numbered<f64>) -> f64 {
        let (chain, shares) = (&self.requests.chains[id], &self.shares[id]);
        let bytes = self.requests.bytes[id] as f64;
        let hold = |used: &Use, next: Option<&Use>| {
            next.map(|next| bytes * (price_before[next.time] - price_before[used.time]))
        };
        self.values[chain.len()] = [0.0; 2];
        let mut next = None;
        for (position, (used, share)) in chain.iter().zip(shares).enumerate().rev() {
            let [without, with] = self.values[position + 1];
            let after = hold(used, next).map_or(without, |hold| without.min(hold + with));
            self.values[position] = [without.min(used.load_seconds - share + after), after - share];
            next = Some(used);
        }
        let mut had = false;
        let mut chain = chain.iter().peekable();
        let flags = self.there[id].iter_mut().zip(self.kept[id].iter_mut()).zip(shares);
        for (position, ((there, kept), share)) in flags.enumerate() {
            let Some(used) = chain.next() else { break };
            let [without, with] = self.values[position + 1];
            let hold = hold(used, chain.peek().copied());
            let after = hold.map_or(without, |hold| without.min(hold + with));
            *there = had || used.load_seconds - share + after < without;
            *kept = *there && hold.is_some_and(|hold| hold + with < without);
            had = *kept;
        }
        self.values[0][0]
    }

    /// Moves prices and shares along the subgradient of the last solution: gaps that hold more than fits become dearer,
    /// and of a partition's segments those that are there without the others give shares to the others.
    fn step(&mut self, length: f64) {
        let mut over: Numbered<f64> = Numbered::of(0.0, self.requests.lookups + 1);
        for id in ids(&self.requests.chains) {
            let part = self.requests.bytes[id] as f64 / self.capacity;
            let mut chain = self.requests.chains[id].iter().peekable();
            for kept in &self.kept[id] {
                let Some(used) = chain.next() else { break };
                if let (true, Some(next)) = (*kept, chain.peek()) {
                    over[used.time] += part;
                    over[next.time] -= part;
                }
            }
        }
        let mut held = 0.0;
        let mut norm = 0.0;
        let mut excess: Numbered<f64> = Numbered::of(0.0, self.requests.lookups);
        for time in 0..self.requests.lookups {
            held += over[time];
            let free = self.prices[time] <= 0.0 && held <= 1.0;
            excess[time] = if free { 0.0 } else { held - 1.0 };
            norm += excess[time] * excess[time];
        }
        for request in self.requests.requests.iter() {
            let count = request.needs.len() as f64;
            let there = request.needs.iter().filter(|(id, position)| self.is_there(*id, *position)).count() as f64;
            norm += SHARE_SCALE * there * (count - there) / count;
        }
        let step = length / norm.max(1e-9);
        for time in 0..self.requests.lookups {
            self.prices[time] = (self.prices[time] + step * excess[time]).max(0.0);
        }
        for request in self.requests.requests.iter() {
            let mut moved: Vec<f64> = request
                .needs
                .iter()
                .map(|(id, position)| {
                    let there = f64::from(u8::from(self.is_there(*id, *position)));
                    self.shares[*id].get(*position).copied().unwrap_or(0.0) - SHARE_SCALE * step * there
                })
                .collect();
            project(&mut moved, request.gain);
            for ((id, position), share) in request.needs.iter().zip(moved) {
                if let Some(known) = self.shares[*id].get_mut(*position) {
                    *known = share;
                }
            }
        }
    }

    fn is_there(&self, id: SegmentId, position: usize) -> bool {
        self.there[id].get(position).copied().unwrap_or(false)
    }
}

/// Square of the unit of shares in relation to that of prices.
const SHARE_SCALE: f64 = 0.01;

/// Moves `shares` to the nearest point whose coordinates are not negative and sum to `total`.
fn project(shares: &mut [f64], total: f64) {
    let mut sorted = shares.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (position, share) in sorted.iter().enumerate() {
        sum += share;
        let candidate = (sum - total) / (position + 1) as f64;
        if share - candidate > 0.0 {
            shift = candidate;
        }
    }
    shares.iter_mut().for_each(|share| *share = (*share - shift).max(0.0));
}
