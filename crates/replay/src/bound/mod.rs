//! The best that a cache of one size can do: a lower bound of the time, and a plan that comes near it.
//!
//! **The problem.** A *request* r is one partition in one lookup; it needs the set S(r), saves gain(r) = other - local
//! if all of S(r) is there, and can load a segment s in load(s, r) seconds. For each use of s by r, w = 1 if s is there
//! after the loads of r, and x = 1 if s is then kept until its next use. With x' the x of the use before (0 before the
//! first), any algorithm's time under the model of [`sim`](crate::sim) is
//!
//! > sum of other(r) - sum of gain(r) y(r) + sum of load(s, r) max(0, w - x'),
//!
//! where y(r) <= w for each s in S(r), x <= w, and for each gap between two lookups, the bytes of the segments kept over
//! it are at most the capacity: what is kept is there, and what is there after a lookup fits. A cache that holds a
//! segment for a part of the time between two uses gains nothing by it, so it is described by x = 0.
//!
//! **The bound.** Give each gap a price p >= 0 per byte, and divide each gain(r) among its segments into shares q >= 0.
//! For any solution, any prices and any shares:
//!
//! 1. gain(r) y(r) <= sum over s in S(r) of q(s, r) w, because the shares sum to gain(r) and y(r) <= w.
//! 2. 0 >= sum over gaps of p (bytes kept - capacity), because what is kept fits.
//!
//! So its time is at least
//!
//! > sum of other(r) - capacity x sum of p
//! >   + sum over s of [sum over its uses of load max(0, w - x') - q w + x bytes(s) (sum of p over the gaps kept)].
//!
//! The bracket concerns one segment only. Its least value over all w and x is found by a recursion over the segment's
//! uses, so the sum of the least values is a lower bound of the time of every algorithm, whatever p and q. Nothing has to
//! be trusted but this recursion: [`lower_bound`] looks for good p and q by subgradient steps, and a bad search makes
//! the bound low, not wrong. The best p and q give the optimum of the linear relaxation, where a cache may hold fractions
//! of segments and serve fractions of partitions: with prices fixed, what remains for one partition is a minimum cut,
//! which has no gap between whole and fractional solutions.

mod lower;
mod offline;
mod requests;

pub use lower::{Bound, Effort, lower_bound};
pub use offline::offline_plan;

pub use crate::plan::{Plan, Step};
