//! Bytes on their way between clients and what the node does for them: requests, answers that are
//! held back or wait for their readers, stored bytes.
//!
//! A holder's limit depends on what is left (dynamic thresholds, Choudhury and Hahne 1998): after
//! taking, a peer holds at most `SHARE` times what is free, and a query of it at most `SHARE` times what
//! its peer could still take. So no holder can take all, and something is left for a newcomer, the less
//! the more holders there are.
//!
//! A few bytes are an account's whatever others hold. A reader who waits for this answer may be the one
//! who does not read the others: if they could take all, both would wait for ever.
//!
//! Invariants:
//! - used = sum over peers of their used; used of a peer = sum over its queries
//! - used <= total + what is guaranteed to the accounts, but for a query that is alone, and for messages
//!   that became larger than was expected

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::peer::Peer;

/// Bytes that a holder may have for each byte that is left.
const SHARE: usize = 2;

/// Memory for requests and answers of one node, or of all nodes of a process.
#[derive(Debug)]
pub(crate) struct Budget {
    shares: Mutex<Shares>,
    /// Notified when bytes are given back.
    returned: Notify,
}

#[derive(Debug)]
struct Shares {
    total: usize,
    used: usize,
    peers: HashMap<Peer, Holder>,
}

#[derive(Debug, Default)]
struct Holder {
    used: usize,
    queries: HashMap<Arc<str>, usize>,
}

impl Shares {
    fn may_take(&self, peer: &Peer, query: &Arc<str>, bytes: usize) -> bool {
        if self.used == 0 {
            // Whatever a single one needs, it gets: nobody else is there.
            return true;
        }
        let Some(free) = self.total.checked_sub(self.used + bytes) else {
            return false;
        };
        let holder = self.peers.get(peer);
        let of_peer = holder.map_or(0, |holder| holder.used) + bytes;
        let of_query = holder.and_then(|holder| holder.queries.get(query)).copied().unwrap_or(0) + bytes;
        // The most that the peer may hold if others hold what they do.
        let peer_max = (of_peer + free) / (SHARE + 1) * SHARE;
        of_peer <= peer_max && of_query <= (peer_max - of_peer).saturating_mul(SHARE)
    }

    fn take(&mut self, peer: &Peer, query: &Arc<str>, bytes: usize) {
        self.used += bytes;
        let holder = self.peers.entry(peer.clone()).or_default();
        holder.used += bytes;
        *holder.queries.entry(Arc::clone(query)).or_default() += bytes;
    }

    fn give_back(&mut self, peer: &Peer, query: &Arc<str>, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let Some(holder) = self.peers.get_mut(peer) else { return };
        holder.used = holder.used.saturating_sub(bytes);
        if let Some(used) = holder.queries.get_mut(query) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                holder.queries.remove(query);
            }
        }
        if holder.queries.is_empty() {
            self.peers.remove(peer);
        }
    }
}

impl Budget {
    /// A budget of that many bytes.
    pub(crate) fn new(total: usize) -> Arc<Self> {
        let shares = Shares { total, used: 0, peers: HashMap::new() };
        Arc::new(Self { shares: Mutex::new(shares), returned: Notify::new() })
    }

    /// Bytes that are held.
    pub(crate) fn used(&self) -> usize {
        self.shares.lock().used
    }

    /// An account of one request, which holds nothing yet. It may always hold `guaranteed` bytes.
    pub(crate) fn account(self: &Arc<Self>, peer: Peer, query: &str, guaranteed: usize) -> Account {
        let (budget, query, held) = (Arc::clone(self), query.into(), Mutex::new(0));
        Account { holding: Arc::new(Holding { budget, peer, query, guaranteed, held }) }
    }

    /// An account for the peer and the query of `other`. Nothing is guaranteed to it.
    pub(crate) fn account_like(self: &Arc<Self>, other: &Account) -> Account {
        self.account(other.holding.peer.clone(), &other.holding.query, 0)
    }
}

/// Bytes that one request holds. Cheap to clone; clones are the same account. The last one to be dropped
/// gives everything back.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    holding: Arc<Holding>,
}

#[derive(Debug)]
struct Holding {
    budget: Arc<Budget>,
    peer: Peer,
    query: Arc<str>,
    guaranteed: usize,
    held: Mutex<usize>,
}

impl Account {
    /// The peer that it belongs to.
    pub(crate) fn peer(&self) -> &Peer {
        &self.holding.peer
    }

    /// Bytes that it may always hold.
    pub(crate) fn guaranteed(&self) -> usize {
        self.holding.guaranteed
    }

    /// Whether it holds nearly as much as it may have while nobody else is there: waiting brings no more.
    pub(crate) fn has_its_share(&self) -> bool {
        let total = self.holding.budget.shares.lock().total;
        // Of t bytes, one query that takes in small steps gets 4/9 t.
        *self.holding.held.lock() >= total / 3
    }

    /// Takes bytes if they may be had now.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let Holding { budget, peer, query, guaranteed, held } = self.holding.as_ref();
        let mut shares = budget.shares.lock();
        let mut held = held.lock();
        let may = *held + bytes <= *guaranteed || shares.may_take(peer, query, bytes);
        if may {
            shares.take(peer, query, bytes);
            *held += bytes;
        }
        may
    }

    /// Takes bytes as soon as they may be had. Whoever holds some that it gives back only after these
    /// may wait for ever.
    pub(crate) async fn take(&self, bytes: usize) {
        self.take_some(bytes, bytes).await;
    }

    /// Takes `most` bytes, or half of them, a quarter and so on down to `least`, as soon as one of these may be had;
    /// returns how many.
    pub(crate) async fn take_some(&self, least: usize, most: usize) -> usize {
        loop {
            let returned = self.holding.budget.returned.notified();
            let mut returned = std::pin::pin!(returned);
            // From here on nothing that is returned is missed.
            returned.as_mut().enable();
            let mut bytes = most;
            loop {
                if self.try_take(bytes) {
                    return bytes;
                }
                if bytes == least {
                    break;
                }
                bytes = (bytes / 2).max(least);
            }
            returned.await;
        }
    }

    /// Holds `actual` bytes instead of `taken`, also if they are more: they exist already.
    pub(crate) fn settle(&self, taken: usize, actual: usize) {
        if actual <= taken {
            return self.give_back(taken - actual);
        }
        let Holding { budget, peer, query, held, .. } = self.holding.as_ref();
        budget.shares.lock().take(peer, query, actual - taken);
        *held.lock() += actual - taken;
    }

    /// Gives some of the bytes back.
    pub(crate) fn give_back(&self, bytes: usize) {
        let Holding { held, .. } = self.holding.as_ref();
        let mut held = held.lock();
        let bytes = bytes.min(*held);
        *held -= bytes;
        drop(held);
        self.holding.give_back(bytes);
    }
}

impl Holding {
    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.budget.shares.lock().give_back(&self.peer, &self.query, bytes);
            self.budget.returned.notify_waiters();
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let held = std::mem::take(self.held.get_mut());
        self.give_back(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: usize = 1 << 20;

    fn peer(n: usize) -> Peer {
        Peer::at(format!("10.0.0.{n}:1").parse().unwrap())
    }

    /// Takes in small steps for as long as it may.
    fn greedy(budget: &Arc<Budget>, peer: Peer, query: &str) -> (Account, usize) {
        let account = budget.account(peer, query, 0);
        let mut taken = 0;
        while account.try_take(1024) {
            taken += 1024;
        }
        (account, taken)
    }

    #[test]
    fn there_is_something_left_for_a_newcomer() {
        let budget = Budget::new(TOTAL);
        let mut taken = vec![];
        for n in 0..4 {
            taken.push(greedy(&budget, peer(n), "q"));
        }
        for pair in taken.windows(2) {
            let [(_, before), (_, after)] = pair else { panic!("not a pair") };
            assert!(*after > 0 && after <= before, "{taken:?}");
        }
        assert!(budget.used() < TOTAL);
        drop(taken);
        assert_eq!(budget.used(), 0);
        assert!(budget.shares.lock().peers.is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_peer_gains_nothing_by_new_queries() {
        let budget = Budget::new(TOTAL);
        let mine: Vec<_> = (0..100).map(|n| greedy(&budget, peer(1), &n.to_string())).collect();
        let sum: usize = mine.iter().map(|(_, taken)| taken).sum();
        assert!(sum <= TOTAL / (SHARE + 1) * SHARE, "{sum}");
        assert!(mine[1].1 > 0, "a second query of the peer gets something");
        assert!(greedy(&budget, peer(2), "q").1 >= (TOTAL - sum) / 4);
    }

    #[test]
    fn whoever_is_alone_is_not_refused() {
        let budget = Budget::new(16);
        let account = budget.account(Peer::local(), "q", 0);
        assert!(account.try_take(100));
        assert!(!account.try_take(1));
        account.give_back(200);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn nobody_can_take_what_is_guaranteed() {
        let budget = Budget::new(TOTAL);
        let (_all, _) = greedy(&budget, peer(1), "q");
        let account = budget.account(peer(1), "q", 2000);
        assert!(account.try_take(1500));
        assert!(!account.try_take(1500));
        account.give_back(1000);
        assert!(account.try_take(1500));
    }

    #[tokio::test]
    async fn what_is_given_back_is_taken() {
        let budget = Budget::new(TOTAL);
        let (first, _) = greedy(&budget, peer(1), "q");
        let waiting = budget.account(peer(1), "q", 0);
        let (taken, ()) = tokio::join!(waiting.take_some(100, TOTAL), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        assert!(taken >= 100);
        assert_eq!(budget.used(), taken);
    }
}
