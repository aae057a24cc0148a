//! Turns for slots: slot time is shared by peers, then by their tenants, and then by their queries.
//!
//! Only the peer is beyond a client's choice: a client that names a new tenant or query in each
//! request takes nothing from other peers.
//!
//! Start-time fair queueing. Each peer, each tenant and each query has a virtual clock, which every
//! admission moves on by the slot time that it is expected to take, divided by the slots of that path,
//! and which is put right when the slot is given back. One second of a clock is thus the whole of one
//! path for one second, so that a query that is given all pushdown slots and one that is given all
//! pushback slots stay level. Whoever is ahead of the last one in the queue by more than a lag must
//! wait for it; within the lag the order of the schedule (arrival, or pushdown amenability) is free
//! to choose.

use std::collections::HashMap;
use std::sync::Arc;

/// The peer, tenant and query of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    /// Where it comes from; empty for this process.
    pub(crate) peer: Arc<str>,
    /// The tenant, as the client says; empty for the default one.
    pub(crate) tenant: Arc<str>,
    /// The query, as the client says.
    pub(crate) query: Arc<str>,
}

/// A group whose members share slot time: all peers, the tenants of a peer, or the queries of a tenant.
type Group<'a> = &'a [Arc<str>];

/// The clocks of everybody who has something waiting or running, by group; nobody else is remembered.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    groups: HashMap<Box<[Arc<str>]>, Clocks>,
}

#[derive(Debug, Default)]
struct Clocks {
    of: HashMap<Arc<str>, Clock>,
    /// Lowest clock of those that waited when somebody was last served; it never goes back. Newcomers
    /// begin here, so that idle time is no credit.
    base: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Clock {
    served: f64,
    waiting: usize,
    running: usize,
}

impl Clocks {
    fn arrive(&mut self, key: &Arc<str>) {
        let base = self.base;
        let clock = self.of.entry(Arc::clone(key)).or_default();
        if clock.waiting == 0 {
            clock.served = clock.served.max(base);
        }
        clock.waiting += 1;
    }

    fn start(&mut self, key: &Arc<str>, charge: f64) {
        let last = self.of.values().filter(|clock| clock.waiting > 0).map(|clock| clock.served).min_by(f64::total_cmp);
        self.base = self.base.max(last.unwrap_or(self.base));
        if let Some(clock) = self.of.get_mut(key) {
            clock.waiting = clock.waiting.saturating_sub(1);
            clock.running += 1;
            clock.served += charge;
        }
    }

    fn change(&mut self, key: &Arc<str>, change: impl FnOnce(&mut Clock)) {
        if let Some(clock) = self.of.get_mut(key) {
            change(clock);
            if clock.waiting == 0 && clock.running == 0 {
                self.of.remove(key);
            }
        }
    }

    fn served(&self, key: &Arc<str>) -> f64 {
        self.of.get(key).map_or(self.base, |clock| clock.served)
    }
}

impl Flow {
    fn path(&self) -> [Arc<str>; 3] {
        [&self.peer, &self.tenant, &self.query].map(Arc::clone)
    }
}

/// The groups that a path is in, each with the member.
fn levels(path: &[Arc<str>; 3]) -> impl Iterator<Item = (Group<'_>, &Arc<str>)> {
    path.iter().enumerate().map(|(depth, member)| (path.get(..depth).unwrap_or_default(), member))
}

impl Fairness {
    /// A request of `flow` begins to wait.
    pub(super) fn arrive(&mut self, flow: &Flow) {
        for (group, member) in levels(&flow.path()) {
            self.groups.entry(group.into()).or_default().arrive(member);
        }
    }

    /// A waiting request of `flow` is given a slot for `charge` seconds of a whole path.
    pub(super) fn start(&mut self, flow: &Flow, charge: f64) {
        for (group, member) in levels(&flow.path()) {
            if let Some(clocks) = self.groups.get_mut(group) {
                clocks.start(member, charge);
            }
        }
    }

    /// A waiting request of `flow` is gone.
    pub(super) fn leave(&mut self, flow: &Flow) {
        self.change(flow, |clock| clock.waiting = clock.waiting.saturating_sub(1));
    }

    /// A running request of `flow` is done, after `more` seconds of a whole path than was charged.
    pub(super) fn finish(&mut self, flow: &Flow, more: f64) {
        self.change(flow, |clock| {
            clock.running = clock.running.saturating_sub(1);
            clock.served += more;
        });
    }

    fn change(&mut self, flow: &Flow, change: impl Fn(&mut Clock)) {
        for (group, member) in levels(&flow.path()) {
            if let Some(clocks) = self.groups.get_mut(group) {
                clocks.change(member, &change);
                // The peers' own clocks stay: newcomers begin where the last one stood.
                if clocks.of.is_empty() && !group.is_empty() {
                    self.groups.remove(group);
                }
            }
        }
    }

    /// Which of `candidates` are, with their tenants and peers, not ahead of the last one by more than
    /// `lag`, in their order.
    pub(super) fn in_turn<'a>(&self, candidates: impl Iterator<Item = &'a Flow>, lag: f64) -> Vec<bool> {
        let paths: Vec<_> = candidates.map(Flow::path).collect();
        let mut last: HashMap<Group<'_>, f64> = HashMap::new();
        for (group, member) in paths.iter().flat_map(levels) {
            let least = last.entry(group).or_insert(f64::INFINITY);
            *least = least.min(self.served(group, member));
        }
        let in_turn = |(group, member): (Group<'_>, &Arc<str>)| {
            self.served(group, member) <= last.get(group).copied().unwrap_or(f64::INFINITY) + lag
        };
        paths.iter().map(|path| levels(path).all(in_turn)).collect()
    }

    fn served(&self, group: Group<'_>, member: &Arc<str>) -> f64 {
        self.groups.get(group).map_or(0.0, |clocks| clocks.served(member))
    }

    /// Number of peers, tenants and queries that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.groups.values().map(|clocks| clocks.of.len()).sum()
    }
}
