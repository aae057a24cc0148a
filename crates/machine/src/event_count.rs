use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Clock;
use crate::ids::Micros;

/// An event count (Reed and Kanodia 1979): the number of times that an awaited condition may have become true.
///
/// ```text
///  who waits                              who changes
///  1 seen = count                         1 makes the condition true
///  2 looks: the condition is not true     2 advance: count += 1, wakes sleepers
///  3 sleeps while count == seen
/// ```
///
/// Invariant: `count` only grows. If the condition becomes true after 2, the count read in 1 is not the last one, so
/// the sleep of 3 ends; that is why 1 comes before 2 on both sides.
#[derive(Debug, Default)]
pub struct EventCount {
    count: AtomicU64,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU64,
    mutex: Mutex<()>,
    advanced: Condvar,
}

impl EventCount {
    /// A new event count.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Number of events so far; read it before checking the condition.
    pub fn seen(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Notes that the condition may have become true, and ends all waits.
    pub fn advance(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // A sleeper was counted before it read the count for the last time.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.mutex.lock());
            self.advanced.notify_all();
        }
    }

    /// Sleeps until the count exceeds `seen`, or for at most this long; `None` for no limit.
    pub fn sleep(&self, seen: u64, most: Option<Duration>) {
        let mut guard = self.mutex.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.seen() == seen {
            match most {
                None => self.advanced.wait(&mut guard),
                Some(most) => {
                    // A spurious wake-up does no harm: the caller checks again.
                    self.advanced.wait_for(&mut guard, most);
                    break;
                }
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Event and time that a machine waits for.
#[derive(Debug)]
pub struct Wait {
    event: Arc<EventCount>,
    seen: u64,
    until: Option<Micros>,
    is_short: bool,
}

/// Time to poll before the thread sleeps in a short wait: a few times the cost of a wake-up. The thread yields to
/// others meanwhile.
const SPIN: Duration = Duration::from_micros(100);

impl Wait {
    /// Waits until the count exceeds `seen`.
    pub fn new(event: &Arc<EventCount>, seen: u64) -> Self {
        Self { event: Arc::clone(event), seen, until: None, is_short: false }
    }

    /// For work that another thread is doing right now, which often takes less time than sleeping and waking.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.is_short = true;
        self
    }

    /// Adds a deadline; [`Micros`] at its maximum means none.
    #[must_use]
    pub fn until(mut self, until: Micros) -> Self {
        if until < Micros(i64::MAX) {
            self.until = Some(self.until.map_or(until, |before| before.min(until)));
        }
        self
    }

    /// Whether the wait has ended, so that the machine may take its next step.
    pub fn is_over(&self, now: Micros) -> bool {
        self.event.seen() != self.seen || self.until.is_some_and(|until| until <= now)
    }

    /// Ignores the events so far; only for simulated bugs.
    pub fn miss(&mut self) {
        self.seen = self.event.seen();
    }

    /// Latest end of the wait; `None` if only the event ends it.
    pub fn deadline(&self) -> Option<Micros> {
        self.until
    }

    /// Sleeps until it is over.
    pub fn sleep(&self, clock: &Clock) {
        if self.is_short && self.spin() {
            return;
        }
        let most = self.until.map(|until| {
            let micros = until.0.saturating_sub(clock.now().0);
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        });
        if most.is_none_or(|most| !most.is_zero()) {
            self.event.sleep(self.seen, most);
        }
    }

    /// Polls for a while without sleeping; returns whether the event came.
    fn spin(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            if self.event.seen() != self.seen {
                return true;
            }
            thread::yield_now();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_event_or_its_time() {
        let event = EventCount::new();
        let wait = Wait::new(&event, event.seen());
        assert!(!wait.is_over(Micros(i64::MAX)));
        event.advance();
        assert!(wait.is_over(Micros(0)));
        wait.sleep(&Clock::real());
        let wait = Wait::new(&event, event.seen()).until(Micros(7)).until(Micros(9));
        assert_eq!((wait.is_over(Micros(6)), wait.is_over(Micros(7)), wait.deadline()), (false, true, Some(Micros(7))));
        wait.sleep(&Clock::simulated(Micros(7)));
    }

    #[test]
    fn nobody_sleeps_through_an_event() {
        const TURNS: u64 = 20_000;
        let (event, turn) = (EventCount::new(), AtomicU64::new(0));
        let take_turns = |mine: u64| {
            for round in 0..TURNS {
                loop {
                    let seen = event.seen();
                    if turn.load(Ordering::Relaxed) == 2 * round + mine {
                        break;
                    }
                    event.sleep(seen, None);
                }
                turn.fetch_add(1, Ordering::Relaxed);
                event.advance();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| take_turns(0));
            scope.spawn(|| take_turns(1));
        });
        assert_eq!(turn.into_inner(), 2 * TURNS);
    }
}
