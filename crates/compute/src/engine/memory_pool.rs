//! The pool of memory for running queries.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};

/// How many of its consumers the error of an exhausted pool names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);

/// A pool of `limit` bytes in which every operator that can spill has the same share.
pub(super) fn fair_pool(limit: usize) -> Arc<dyn MemoryPool> {
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), NAMED_CONSUMERS))
}
