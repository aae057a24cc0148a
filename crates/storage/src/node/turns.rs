//! Turns at work that has no slot of a fragment: walks of directories, descriptions of objects.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::peer::Peer;

/// Turns at work of one kind: so many at once, of which a peer has only a part. A peer waits for its own
/// part first, so that whoever asks for much stands in nobody's way.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    of_peer_max: usize,
    peers: Mutex<HashMap<Peer, Weak<Semaphore>>>,
}

/// A turn, over when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_peer: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// `all` turns at once, of which a peer has `of_peer_max`.
    pub(crate) fn new(all: usize, of_peer_max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), of_peer_max, peers: Mutex::default() }
    }

    /// A turn for `peer`, as soon as there is one.
    pub(crate) async fn take(&self, peer: &Peer) -> Turn {
        let own = {
            let mut peers = self.peers.lock();
            let own = peers.get(peer).and_then(Weak::upgrade);
            own.unwrap_or_else(|| {
                peers.retain(|_, turns| turns.strong_count() > 0);
                let own = Arc::new(Semaphore::new(self.of_peer_max));
                peers.insert(peer.clone(), Arc::downgrade(&own));
                own
            })
        };
        // Neither is ever closed.
        let _of_peer = own.acquire_owned().await.ok();
        let _of_all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn { _of_all, _of_peer }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_peer_leaves_turns_for_others() {
        let turns = Turns::new(3, 2);
        let peer = |n: u8| Peer::at(format!("10.0.0.{n}:1").parse().unwrap());
        let first = peer(1);
        let mut taken = vec![turns.take(&first).await, turns.take(&first).await];
        let mut waiting = Box::pin(turns.take(&first));
        assert!(waiting.as_mut().now_or_never().is_none());
        let other = turns.take(&peer(2)).await;
        taken.pop();
        taken.push(waiting.await);
        drop((taken, other));
        let _again = turns.take(&peer(3)).await;
        assert_eq!(turns.peers.lock().len(), 1, "nobody is remembered");
    }
}
