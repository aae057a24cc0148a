//! The simulator: replays a trace against a replacement algorithm and a cache size.
//!
//! The model of a lookup, which [`bound`](crate::bound) shares. A partition takes `local` seconds if each of its
//! segments was cached before the lookup or is loaded for it, and `other` seconds if not: one missing segment is enough
//! to change the route. Every load takes its own time, whether or not the partition becomes whole by it. Times add up:
//! partitions share the network and the processors.
//!
//! Algorithms that keep stored bytes beside decoded segments ([`algorithms_of_forms`]) need more time for a local partition,
//! that of decoding, and less room. The bound knows decoded segments only, so these may be below it.

mod algorithm;
mod contents;
mod report;
mod run;

pub use algorithm::{
    Algorithm, Belady, Framework, Gdsf, Lfu, Lru, Offline, S3Fifo, Score, SetAware, TinyLfu, Wlfu, algorithms,
    algorithms_of_forms,
};
pub use contents::{Contents, Form};
pub use report::{LookupReport, Report};
pub use run::simulate;
