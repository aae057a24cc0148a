//! The simulator: replays a trace against a replacement algorithm and a cache size.
//!
//! The model of a lookup, which [`bound`](crate::bound) shares. A partition takes `local` seconds if each of its
//! segments was cached before the lookup or is loaded for it, and `other` seconds if not: one missing segment is enough
//! to change the route. Every load takes its own time, whether or not the partition becomes whole by it. Times add up:
//! partitions share the network and the processors.

mod algorithm;
mod contents;
mod report;
mod run;

pub use algorithm::{
    Algorithm, Belady, Framework, Gdsf, Lfu, Lru, Offline, S3Fifo, Score, SetAware, TinyLfu, Wlfu, algorithms,
};
pub use contents::Contents;
pub use report::{LookupReport, Report};
pub use run::simulate;
