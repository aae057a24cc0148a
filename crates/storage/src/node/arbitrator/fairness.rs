//! Whose turn it is: slot time is shared by tenants, and within a tenant by its queries.
//!
//! Start-time fair queueing. Each tenant and each query has a virtual clock, which every admission
//! moves on by the slot time that it is expected to take, divided by the slots of that path, and
//! which is put right when the slot is given back. One second of a clock is thus the whole of one
//! path for one second, so that a query that is given all pushdown slots and one that is given all
//! pushback slots stay level. Whoever is ahead of the last one in the queue by more than a lag must
//! wait for it; within the lag the order of the schedule (arrival, or pushdown amenability) is free
//! to choose.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Who a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    /// The tenant; empty for the default one.
    pub(crate) tenant: Arc<str>,
    /// The query.
    pub(crate) query: Arc<str>,
}

/// The clocks of everybody who has something waiting or running; nobody else is remembered.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    tenants: Clocks<Arc<str>>,
    queries: HashMap<Arc<str>, Clocks<Arc<str>>>,
}

#[derive(Debug)]
struct Clocks<K> {
    of: HashMap<K, Clock>,
    /// Where the last one in the queue stood when somebody was last served; newcomers begin here,
    /// so that idle time is no credit.
    base: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Clock {
    served: f64,
    waiting: usize,
    running: usize,
}

impl<K> Default for Clocks<K> {
    fn default() -> Self {
        Self { of: HashMap::new(), base: 0.0 }
    }
}

impl<K: Eq + Hash + Clone> Clocks<K> {
    fn arrive(&mut self, key: &K) {
        let base = self.base;
        let clock = self.of.entry(key.clone()).or_default();
        if clock.waiting == 0 {
            clock.served = clock.served.max(base);
        }
        clock.waiting += 1;
    }

    fn start(&mut self, key: &K, charge: f64) {
        let last = self.of.values().filter(|clock| clock.waiting > 0).map(|clock| clock.served).min_by(f64::total_cmp);
        self.base = self.base.max(last.unwrap_or(self.base));
        if let Some(clock) = self.of.get_mut(key) {
            clock.waiting = clock.waiting.saturating_sub(1);
            clock.running += 1;
            clock.served += charge;
        }
    }

    fn change(&mut self, key: &K, change: impl FnOnce(&mut Clock)) {
        if let Some(clock) = self.of.get_mut(key) {
            change(clock);
            if clock.waiting == 0 && clock.running == 0 {
                self.of.remove(key);
            }
        }
    }

    fn served(&self, key: &K) -> f64 {
        self.of.get(key).map_or(self.base, |clock| clock.served)
    }
}

impl Fairness {
    /// A request of `flow` begins to wait.
    pub(super) fn arrive(&mut self, flow: &Flow) {
        self.tenants.arrive(&flow.tenant);
        self.queries.entry(Arc::clone(&flow.tenant)).or_default().arrive(&flow.query);
    }

    /// A waiting request of `flow` is given a slot for `charge` seconds of a whole path.
    pub(super) fn start(&mut self, flow: &Flow, charge: f64) {
        self.tenants.start(&flow.tenant, charge);
        if let Some(queries) = self.queries.get_mut(&flow.tenant) {
            queries.start(&flow.query, charge);
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
        self.tenants.change(&flow.tenant, &change);
        if let Some(queries) = self.queries.get_mut(&flow.tenant) {
            queries.change(&flow.query, &change);
            if queries.of.is_empty() {
                self.queries.remove(&flow.tenant);
            }
        }
    }

    /// Which of `candidates` are not ahead of the last one by more than `lag`, in their order.
    pub(super) fn in_turn<'a>(&self, candidates: impl Iterator<Item = &'a Flow> + Clone, lag: f64) -> Vec<bool> {
        let mut tenant_min = f64::INFINITY;
        let mut query_min: HashMap<&str, f64> = HashMap::new();
        for flow in candidates.clone() {
            tenant_min = tenant_min.min(self.tenants.served(&flow.tenant));
            let least = query_min.entry(&flow.tenant).or_insert(f64::INFINITY);
            *least = least.min(self.query_served(flow));
        }
        candidates
            .map(|flow| {
                let least = query_min.get(flow.tenant.as_ref()).copied().unwrap_or(f64::INFINITY);
                self.tenants.served(&flow.tenant) <= tenant_min + lag && self.query_served(flow) <= least + lag
            })
            .collect()
    }

    fn query_served(&self, flow: &Flow) -> f64 {
        self.queries.get(&flow.tenant).map_or(0.0, |queries| queries.served(&flow.query))
    }

    /// How many tenants and queries are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.tenants.of.len() + self.queries.values().map(|queries| queries.of.len()).sum::<usize>()
    }
}
