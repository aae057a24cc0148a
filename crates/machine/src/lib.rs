//! Machines: work whose steps return what they wait for instead of waiting.
//!
//! ```text
//!              step                 Go: again
//!  Machine ------------> Step ----> Wait(event, until): when the event has advanced, or at that time
//!     ^                    |        Over(output)
//!     +---- whoever drives it ------+
//! ```
//!
//! A machine takes one step: it reads or changes shared state once, under a lock that it releases before the step ends,
//! and decides. It never sleeps. On a thread, [`run`] drives it and sleeps between steps where it waits; in the
//! simulator, a scheduler steps all machines of a node in any order, and a waiting one only after its event has
//! advanced. So a forgotten wake-up hangs both.

mod allocator;
mod beside;
mod caught;
mod clock;
mod event_count;
pub mod ids;
pub mod interrupt;
pub mod random;
mod slot;
mod turns;

pub use allocator::{limit_memory, trim};
pub use beside::beside;
pub use caught::caught;
pub use clock::Clock;
pub use event_count::{EventCount, Wait};
pub use slot::{Receiver, Sender, slot, slot_of};
pub use turns::{Turn, Turns};

/// Result of a step.
#[derive(Debug)]
#[must_use]
pub enum Step<T> {
    /// A step was taken; there is a next one.
    Go,
    /// Nothing to do before this wait ends.
    Wait(Wait),
    /// Finished, with its result.
    Over(T),
}

impl<T> Step<T> {
    /// Converts the result.
    pub fn map<U>(self, other: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Go => Step::Go,
            Self::Wait(wait) => Step::Wait(wait),
            Self::Over(output) => Step::Over(other(output)),
        }
    }
}

/// Work done in steps, none of which waits.
pub trait Machine {
    /// Result of all steps.
    type Output;

    /// Takes the next step; must not be called after the last.
    fn step(&mut self) -> Step<Self::Output>;
}

/// Drives a machine on this thread.
pub fn run<M: Machine>(machine: &mut M, clock: &Clock) -> M::Output {
    run_steps(clock, || machine.step())
}

/// [`run`] for steps that are not a machine.
pub fn run_steps<T>(clock: &Clock, mut step: impl FnMut() -> Step<T>) -> T {
    loop {
        match step() {
            Step::Go => {}
            Step::Wait(wait) => wait.sleep(clock),
            Step::Over(output) => return output,
        }
    }
}
