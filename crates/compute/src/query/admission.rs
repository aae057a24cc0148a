//! Turns of queries: so many run at once, the others wait in the order in which they came.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets so many queries run at once.
#[derive(Debug)]
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Turns that are to go as soon as who has them gives them back.
    excess: usize,
}

/// A query's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    of: Arc<Admission>,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let state = Mutex::new(State { limit, excess: 0 });
        Arc::new(Self { turns: Arc::new(Semaphore::new(limit)), state })
    }

    /// Waits for a turn; queries that wait get theirs in the order in which they came.
    pub(crate) async fn turn(self: &Arc<Self>) -> Turn {
        // It is never closed.
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        Turn { permit, of: Arc::clone(self) }
    }

    /// Number of queries that run.
    pub(crate) fn running(&self) -> usize {
        let State { limit, excess } = *self.state.lock();
        (limit + excess).saturating_sub(self.turns.available_permits())
    }

    /// Changes how many run at once. Those that run go on.
    pub(crate) fn set_limit(&self, limit: usize) {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let mut state = self.state.lock();
        if limit > state.limit {
            let more = limit - state.limit;
            let kept = more.min(state.excess);
            state.excess -= kept;
            self.turns.add_permits(more - kept);
        } else {
            let fewer = state.limit - limit;
            state.excess += fewer - self.turns.forget_permits(fewer);
        }
        state.limit = limit;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        match self.permit.take() {
            Some(permit) if state.excess > 0 => {
                state.excess -= 1;
                permit.forget();
            }
            // Before anybody can change the limit.
            permit => drop(permit),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits(admission: &Arc<Admission>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), admission.turn()).await.is_err()
    }

    #[tokio::test]
    async fn so_many_run_at_once_as_the_limit_says_now() {
        let admission = Admission::new(2);
        let (first, second) = (admission.turn().await, admission.turn().await);
        assert!(waits(&admission).await);
        admission.set_limit(3);
        let third = admission.turn().await;
        assert!(waits(&admission).await);
        // Two of three turns go when they come back.
        admission.set_limit(1);
        drop(first);
        drop(second);
        assert!(waits(&admission).await);
        drop(third);
        let only = admission.turn().await;
        assert!(waits(&admission).await);
        // What was to go need not come back first.
        admission.set_limit(0);
        admission.set_limit(2);
        let other = admission.turn().await;
        assert!(waits(&admission).await);
        drop((only, other));
        assert!(!waits(&admission).await);
    }
}
