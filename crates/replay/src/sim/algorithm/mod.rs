//! Replacement algorithms.

mod belady;
mod framework;
mod gdsf;
mod lfu;
mod lru;
mod offline;
mod s3_fifo;
mod set_aware;
mod tiny_lfu;
mod wlfu;

use std::fmt;

pub use belady::Belady;
pub use framework::{Framework, Score};
pub use gdsf::Gdsf;
pub use lfu::Lfu;
pub use lru::Lru;
pub use offline::Offline;
pub use s3_fifo::S3Fifo;
pub use set_aware::SetAware;
pub use tiny_lfu::TinyLfu;
pub use wlfu::Wlfu;

use super::Contents;
use crate::trace::{Lookup, Trace};

/// A replacement algorithm, which also decides what to admit.
pub trait Algorithm: fmt::Debug {
    /// Its name.
    fn name(&self) -> String;

    /// Takes up lookup number `now`: loads what it admits, and evicts for that.
    fn lookup(&mut self, now: usize, lookup: &Lookup, contents: &mut Contents);
}

/// The algorithms that also keep stored bytes, each fresh. The bound is not one for them.
pub fn algorithms_of_forms(trace: &Trace) -> Vec<Box<dyn Algorithm>> {
    let count = trace.segments.len();
    vec![
        Box::new(Framework::of_forms(Lfu::new(count, None), count)),
        Box::new(Framework::of_forms(Wlfu::new(count, None), count)),
    ]
}

/// All algorithms that do not need the bound, each fresh, for a cache of `capacity` bytes.
pub fn algorithms(trace: &Trace, capacity: u64) -> Vec<Box<dyn Algorithm>> {
    let count = trace.segments.len();
    vec![
        Box::new(Framework::new(Lru::new(count))),
        Box::new(Framework::new(Lfu::new(count, None))),
        Box::new(Framework::new(Lfu::new(count, Some(64.0)))),
        Box::new(Framework::new(Wlfu::new(count, None))),
        Box::new(Framework::new(Wlfu::new(count, Some(64.0)))),
        Box::new(Framework::new(Belady::new(trace))),
        Box::new(Framework::new(Gdsf::new(count))),
        Box::new(S3Fifo::new(count, capacity)),
        Box::new(TinyLfu::new(count, capacity)),
        Box::new(SetAware::new(count, 128.0)),
    ]
}
