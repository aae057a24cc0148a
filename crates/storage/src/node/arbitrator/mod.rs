//! The arbitrator: which fragments run here, which are pushed back, which wait (adaptive pushdown,
//! Enhancing Computation Pushdown section 3).
//!
//! ```text
//!  request -> estimate -> wait queue --+--> pushdown slot: runs, answers
//!             t_pd, t_pb   (bounded)   |
//!                                      +--> pushback slot: PushedBack with a token
//!                                             |
//!                       RangesRequest with the token: stored bytes -> slot free
//! ```
//!
//! The deciding parts are pure and are given the time: `schedule` (Algorithm 1), `fairness` (turns),
//! `estimate` (t_pd and t_pb), `lease` (pushback slots). `admission` puts a lock, a clock and
//! wakers around them.

mod admission;
mod estimate;
mod fairness;
mod lease;
mod schedule;
#[cfg(test)]
mod tests;

pub(super) use admission::{Admission, Arbitrator, Ask, Grant, PushdownSlot, Transfer};
pub(super) use estimate::shape_of;
pub use schedule::Arbitration;
