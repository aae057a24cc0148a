use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{EventCount, Step, Wait};

/// Admits one holder at a time.
#[derive(Debug, Default)]
pub struct Turns {
    taken: AtomicBool,
    given_back: Arc<EventCount>,
}

impl Turns {
    /// Takes the turn, if it is free.
    pub fn take(self: &Arc<Self>) -> Step<Turn> {
        let seen = self.given_back.seen();
        if self.taken.swap(true, Ordering::SeqCst) {
            return Step::Wait(Wait::new(&self.given_back, seen));
        }
        Step::Over(Turn { turns: Arc::clone(self) })
    }
}

/// A turn, given back on drop.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.taken.store(false, Ordering::SeqCst);
        self.turns.given_back.advance();
    }
}
