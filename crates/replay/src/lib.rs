//! Recorded lookups in the segment cache, and a simulator of replacement algorithms that replays them.
//!
//! A [`trace`] says, for each lookup of a workload, what each of its partitions would cost by each route. From it,
//! Belady's policy learns the future, and [`sim`] predicts the time of a workload under any algorithm and cache size
//! within seconds. [`bound`] says how far an algorithm is from the best that anything could do, and [`synthetic`] makes
//! traces where none were recorded.
//!
//! ```
//! use thermocline_replay::bound::{Effort, lower_bound, offline_plan};
//! use thermocline_replay::sim::{Framework, Lru, Offline, SetAware, simulate};
//! use thermocline_replay::synthetic::Synthetic;
//!
//! let trace = Synthetic { lookups: 60, ..Synthetic::drifting(7) }.trace();
//! let (capacity, segments) = (trace.working_set_bytes() / 4, trace.segments.len());
//! let lru = simulate(&trace, capacity, &mut Framework::new(Lru::new(segments))).seconds();
//! let ours = simulate(&trace, capacity, &mut SetAware::new(segments, 128.0)).seconds();
//! let bound = lower_bound(&trace, capacity, Effort { rounds: 300, target: ours.min(lru) });
//! let plan = offline_plan(&trace, capacity, &bound, &mut SetAware::new(segments, 128.0));
//! let offline = simulate(&trace, capacity, &mut Offline::new(plan)).seconds();
//! assert!(bound.seconds <= offline && bound.seconds <= ours && ours < lru);
//! ```
//!
//! Left out: the engine. The simulator shares no code with the cache that it predicts; tests of the crate
//! `thermocline-cache` hold the two against each other.

pub mod bound;
mod numbered;
mod plan;
pub mod random;
pub mod sim;
pub mod synthetic;
pub mod trace;
