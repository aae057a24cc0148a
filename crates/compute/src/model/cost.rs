//! Work of partitions by resource, and the time that it takes together.

/// Work of one partition on one route.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    /// Bytes over the link of its storage.
    pub(crate) link_bytes: f64,
    /// Seconds of a slot of its storage.
    pub(crate) storage_s: f64,
    /// Seconds of a core here.
    pub(crate) here_s: f64,
}

/// Rates of a storage, as one scan takes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Bytes a second over its link; infinite without one.
    pub(crate) bytes_per_s: f64,
    /// Fragments at once.
    pub(crate) slots: f64,
    /// Seconds of a round trip.
    pub(crate) round_trip_s: f64,
    /// Seconds of this side's cores that a second of its slots takes: 0 for a storage with cores of its own.
    pub(crate) cores_share: f64,
}

impl Capacity {
    /// Seconds until one partition's work is done alone, with `cores` cores here.
    pub(crate) fn seconds(&self, cost: &Cost, cores: f64) -> f64 {
        let (slots_s, here_s) = (self.slots_s(cost), self.cores_s(cost) / cores.max(1.0));
        let apart = if self.shares_cores() { 0.0 } else { slots_s };
        together([self.link_s(cost), apart, here_s].into_iter(), slots_s)
            + if cost.asks_storage() { self.round_trip_s } else { 0.0 }
    }

    /// Seconds of the link.
    fn link_s(&self, cost: &Cost) -> f64 {
        cost.link_bytes / self.bytes_per_s.max(1.0)
    }

    /// Seconds of one of this side's cores.
    fn cores_s(&self, cost: &Cost) -> f64 {
        cost.here_s + self.cores_share * cost.storage_s
    }

    fn shares_cores(&self) -> bool {
        self.cores_share > 0.0
    }

    /// Seconds of all slots.
    fn slots_s(&self, cost: &Cost) -> f64 {
        cost.storage_s / self.slots.max(1.0)
    }
}

impl Cost {
    /// The same work, each resource taking `factor` times as long.
    pub(crate) fn times(self, factor: f64) -> Self {
        let Self { link_bytes, storage_s, here_s } = self;
        Self { link_bytes: link_bytes * factor, storage_s: storage_s * factor, here_s: here_s * factor }
    }

    /// Whether there is anything that storage is asked for.
    fn asks_storage(&self) -> bool {
        self.link_bytes > 0.0 || self.storage_s > 0.0
    }
}

/// Seconds of resources that work at the same time; at least `slots_s`, those of slots of which the work may be part of
/// another resource's.
fn together(resources: impl Iterator<Item = f64> + Clone, slots_s: f64) -> f64 {
    let busiest = resources.clone().fold(0.0, f64::max);
    let all: f64 = resources.sum();
    (busiest + NOT_OVERLAPPED * (all - busiest).max(0.0)).max(slots_s)
}

/// Share of the time of other resources that does not overlap with that of the busiest.
const NOT_OVERLAPPED: f64 = 0.4;

/// The work of all partitions of a scan.
///
/// Links, storages and this side's cores work at the same time, so that the time of a scan is that of the busiest of them
/// (the maximum of thesis equation 4.3), and a part of what the others take (its sums 4.1 and 4.2, where one waits for
/// another).
#[derive(Debug, Clone)]
pub(crate) struct Load {
    capacities: Vec<Capacity>,
    /// By storage.
    links: Vec<f64>,
    slots: Vec<f64>,
    requests: Vec<usize>,
    /// Seconds of all cores here.
    here_s: f64,
    cores: f64,
}

impl Load {
    /// Nothing yet, over storages with these capacities and `cores` cores here.
    pub(crate) fn new(capacities: Vec<Capacity>, cores: f64) -> Self {
        let storages = capacities.len();
        Self {
            capacities,
            links: vec![0.0; storages],
            slots: vec![0.0; storages],
            requests: vec![0; storages],
            here_s: 0.0,
            cores: cores.max(1.0),
        }
    }

    /// Seconds that a partition's work at a storage takes alone.
    pub(crate) fn alone(&self, storage: usize, cost: &Cost) -> f64 {
        self.capacities.get(storage).map_or(0.0, |capacity| capacity.seconds(cost, self.cores))
    }

    /// Adds the work of a partition at a storage, by its position.
    pub(crate) fn add(&mut self, storage: usize, cost: &Cost) {
        self.change(storage, cost, 1.0);
    }

    /// Takes it away again.
    pub(crate) fn remove(&mut self, storage: usize, cost: &Cost) {
        self.change(storage, cost, -1.0);
    }

    fn change(&mut self, storage: usize, cost: &Cost, sign: f64) {
        let Some(capacity) = self.capacities.get(storage) else { return };
        if let Some(link) = self.links.get_mut(storage) {
            *link += sign * capacity.link_s(cost);
        }
        if let Some(slots) = self.slots.get_mut(storage) {
            *slots += sign * capacity.slots_s(cost);
        }
        if let Some(requests) = self.requests.get_mut(storage)
            && cost.asks_storage()
        {
            *requests = if sign > 0.0 { *requests + 1 } else { requests.saturating_sub(1) };
        }
        self.here_s += sign * capacity.cores_s(cost) / self.cores;
    }

    /// Seconds until all of it is done.
    pub(crate) fn seconds(&self) -> f64 {
        let slots = self.slots.iter().zip(&self.capacities);
        let apart = slots.filter(|(_, capacity)| !capacity.shares_cores()).map(|(seconds, _)| *seconds);
        let resources = self.links.iter().copied().chain(apart).chain([self.here_s]);
        let slots_s = self.slots.iter().copied().fold(0.0, f64::max);
        let asked = self.capacities.iter().zip(&self.requests).filter(|(_, requests)| **requests > 0);
        let round_trip = asked.map(|(capacity, _)| capacity.round_trip_s).fold(0.0, f64::max);
        together(resources, slots_s) + round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        Load::new(vec![Capacity { bytes_per_s: 1e6, slots: 2.0, round_trip_s: 0.0, cores_share: 0.0 }], 2.0)
    }

    #[test]
    fn the_busiest_resource_decides() {
        let mut load = load();
        load.add(0, &Cost { link_bytes: 1e6, storage_s: 0.0, here_s: 0.0 });
        assert!((load.seconds() - 1.0).abs() < 1e-9);
        load.add(0, &Cost { link_bytes: 0.0, storage_s: 0.2, here_s: 0.2 });
        let both = load.seconds();
        assert!(both > 1.0 && both < 1.1, "{both}");
        load.remove(0, &Cost { link_bytes: 0.0, storage_s: 0.2, here_s: 0.2 });
        assert!((load.seconds() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_storage_on_this_machine_takes_its_cores() {
        let work = Cost { link_bytes: 0.0, storage_s: 1.0, here_s: 0.0 };
        for (cores_share, expected) in [(0.0, 2.0), (0.5, 2.5), (1.0, 3.0)] {
            let capacity = Capacity { bytes_per_s: 1e6, slots: 4.0, round_trip_s: 0.0, cores_share };
            let mut load = Load::new(vec![capacity], 1.0);
            load.add(0, &work);
            load.add(0, &Cost { link_bytes: 0.0, storage_s: 0.0, here_s: 2.0 });
            let seconds = load.seconds();
            assert!(seconds >= expected && seconds < expected * 1.06, "{cores_share}: {seconds}");
        }
    }
}
