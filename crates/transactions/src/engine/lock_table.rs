//! Owners of partitions, waiting requests, and detection of deadlocks.

use std::collections::BTreeSet;

/// Number of a session's transaction: later ones are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u64);

/// Ownership of partitions by sessions' transactions, and the requests that wait for them.
///
/// ```text
///                  ask, wait: all of them are free                 the worker takes its rows along
///  a transaction -----------------------------------> in the queues ----------------------------> release
///        |                                                 ^
///        | one is owned by another session's               | release, withdraw
///        +------------------> waiting --------------------+
///                               | it closes a circle: the session's that asked out of order gets an error
/// ```
///
/// Only sessions' transactions own partitions: from the moment at which they enter the partition's queue until its
/// worker has left their rendezvous. All other requests enter their queues only while no session owns one of their
/// partitions, so
///
/// - no request in several queues is behind a session's in one of them: it gets all its partitions without waiting for
///   a session, and so does a session's request behind it
/// - a request that waits here has nothing that others wait for, unless it is of a session that owns partitions
///
/// Therefore cycles consist of sessions' transactions alone. A cycle can arise only when such a transaction begins to
/// wait: one that gets a partition later waits for nobody at that moment.
///
/// A session's transaction that owns nothing queues behind every earlier request for one of the same partitions, so no
/// request is starved. One that owns something overtakes them: they may be waiting for what it owns. A request of no
/// session waits for owners only.
///
/// Invariants:
/// - a partition has at most one owner; a waiting request cannot be granted
/// - `wanted[p]` counts the waiting requests for `p`
/// - the wait-for graph has no cycle
#[derive(Debug)]
pub struct LockTable<T> {
    /// Owner of each partition.
    owners: Vec<Option<Owner>>,
    /// In order of arrival.
    waiting: Vec<Request<T>>,
    /// Number of waiting requests for each partition.
    wanted: Vec<usize>,
    is_closed: bool,
}

/// Request for partitions.
#[derive(Debug)]
pub struct Request<T> {
    /// Partitions that it enters together, ascending.
    pub partitions: Box<[u32]>,
    /// Its session's transaction; `None` if it is of none.
    pub session: Option<Asking>,
    /// Item for the queues.
    pub what: T,
}

/// The session's transaction behind a request.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Its number.
    pub owner: Owner,
    /// Largest partition that it owns; `None` if it owns none.
    pub last: Option<u32>,
}

/// Outcome of a session's request.
#[derive(Debug)]
pub enum Asked<T> {
    /// It owns the partitions and must be put into their queues.
    Entered(Request<T>),
    /// It waits, unless it is among these deadlock victims, which no longer wait and whose transactions must end.
    Waits(Vec<Request<T>>),
}

impl<T> Request<T> {
    /// Whether it owns partitions that others may wait for.
    fn owns(&self) -> bool {
        self.session.is_some_and(|session| session.last.is_some())
    }

    /// Whether it asks for a partition smaller than one that it owns.
    fn is_out_of_order(&self) -> bool {
        let first = self.partitions.first();
        self.session.is_some_and(|session| session.last.is_some_and(|last| first.is_some_and(|first| *first < last)))
    }
}

impl<T> LockTable<T> {
    /// A table of this many partitions without owners.
    pub fn new(partitions: usize) -> Self {
        Self { owners: vec![None; partitions], waiting: Vec::new(), wanted: vec![0; partitions], is_closed: false }
    }

    /// Whether no session's transaction owns any of these.
    pub fn is_free(&self, partitions: &[u32]) -> bool {
        partitions.iter().all(|partition| self.owner(*partition).is_none())
    }

    /// Whether it accepts no more requests.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn owner(&self, partition: u32) -> Option<Owner> {
        self.owners.get(partition as usize).copied().flatten()
    }

    /// Number of waiting requests for this partition.
    pub fn waiting_for(&self, partition: u32) -> usize {
        self.wanted.get(partition as usize).copied().unwrap_or(0)
    }

    /// Adds a request to those that wait; [`Self::ask`] does so for a session's.
    pub fn wait(&mut self, request: Request<T>) {
        for partition in &request.partitions {
            if let Some(wanted) = self.wanted.get_mut(*partition as usize) {
                *wanted += 1;
            }
        }
        self.waiting.push(request);
    }

    /// Removes the waiting request at this place.
    fn take(&mut self, place: usize) -> Request<T> {
        let request = self.waiting.remove(place);
        for partition in &request.partitions {
            if let Some(wanted) = self.wanted.get_mut(*partition as usize) {
                *wanted -= 1;
            }
        }
        request
    }

    /// Gives partitions, none of which it owns, to a session's transaction, or makes it wait.
    pub fn ask(&mut self, request: Request<T>, asking: Asking) -> Asked<T> {
        let is_wanted = |partition: &u32| self.waiting_for(*partition) > 0;
        let behind_others = !request.owns() && request.partitions.iter().any(is_wanted);
        if self.is_free(&request.partitions) && !behind_others {
            self.own(&request.partitions, asking.owner);
            return Asked::Entered(request);
        }
        self.wait(request);
        let mut victims = Vec::new();
        // One victim for each cycle through it.
        while let Some(victim) = self.victim(asking.owner) {
            let is_meant = |request: &Request<T>| request.session.is_some_and(|session| session.owner == victim);
            let Some(place) = self.waiting.iter().position(is_meant) else { break };
            victims.push(self.take(place));
        }
        Asked::Waits(victims)
    }

    fn own(&mut self, partitions: &[u32], owner: Owner) {
        for partition in partitions {
            if let Some(place) = self.owners.get_mut(*partition as usize) {
                debug_assert!(place.is_none(), "partition {partition} has two owners");
                *place = Some(owner);
            }
        }
    }

    /// The deadlock victim: of the transactions in a cycle through this one that asked for a smaller partition than one
    /// they own, the youngest. There is always one: requests in ascending order cannot form a cycle.
    fn victim(&self, start: Owner) -> Option<Owner> {
        let circle = self.circle(start)?;
        let of = |owner: &Owner| self.request_of(*owner).is_some_and(Request::is_out_of_order);
        circle.iter().filter(|owner| of(owner)).max().or_else(|| circle.iter().max()).copied()
    }

    fn request_of(&self, owner: Owner) -> Option<&Request<T>> {
        self.waiting.iter().find(|request| request.session.is_some_and(|session| session.owner == owner))
    }

    /// Transactions each of which waits for the next, and the last for the first.
    fn circle(&self, start: Owner) -> Option<Vec<Owner>> {
        let waits_for = |owner: Owner| -> Vec<Owner> {
            let partitions = self.request_of(owner).map_or(&[][..], |request| &request.partitions);
            partitions.iter().rev().filter_map(|partition| self.owner(*partition)).collect()
        };
        let mut seen = BTreeSet::new();
        let mut path = vec![start];
        // Transactions to follow, with the length of the path before each.
        let mut open: Vec<(usize, Owner)> = waits_for(start).into_iter().map(|next| (1, next)).collect();
        while let Some((length, owner)) = open.pop() {
            if owner == start {
                path.truncate(length);
                return Some(path);
            }
            if seen.insert(owner) {
                path.truncate(length);
                path.push(owner);
                open.extend(waits_for(owner).into_iter().map(|next| (length + 1, next)));
            }
        }
        None
    }

    /// Releases a partition; returns the requests that are granted now, in order.
    pub fn release(&mut self, partition: u32) -> Vec<Request<T>> {
        if let Some(place) = self.owners.get_mut(partition as usize) {
            *place = None;
        }
        self.admit()
    }

    /// Removes a waiting request; returns it and the requests that are granted now, in order.
    pub fn withdraw(&mut self, is_meant: impl Fn(&T) -> bool) -> (Option<Request<T>>, Vec<Request<T>>) {
        let place = self.waiting.iter().position(|request| is_meant(&request.what));
        let withdrawn = place.map(|place| self.take(place));
        let entered = if withdrawn.is_some() { self.admit() } else { Vec::new() };
        (withdrawn, entered)
    }

    fn admit(&mut self) -> Vec<Request<T>> {
        let mut entered = Vec::new();
        self.wanted.fill(0);
        for request in std::mem::take(&mut self.waiting) {
            // Partitions wanted by earlier requests that still wait. Requests of no session wait only for owners.
            let is_wanted = |partition: &u32| self.waiting_for(*partition) > 0;
            let is_behind = request.session.is_some() && !request.owns() && request.partitions.iter().any(is_wanted);
            if self.is_free(&request.partitions) && !is_behind {
                if let Some(session) = request.session {
                    self.own(&request.partitions, session.owner);
                }
                entered.push(request);
            } else {
                self.wait(request);
            }
        }
        entered
    }

    /// Accepts no more requests, and returns the waiting ones.
    pub fn close(&mut self) -> Vec<Request<T>> {
        self.is_closed = true;
        self.wanted.fill(0);
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests;
