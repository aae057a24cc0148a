//! The pool of memory for running queries.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryLimit, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;

/// How many of its consumers the error of an exhausted pool names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);

/// A pool of `limit` bytes in which every operator that can spill has the same share.
pub(super) fn fair_pool(limit: usize) -> Arc<dyn MemoryPool> {
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), NAMED_CONSUMERS))
}

/// Makes the pool of `context` a fair one if a statement has put another in the place of `before`: `SET
/// datafusion.runtime.memory_limit` makes one in which the first sort leaves nothing to the second, and
/// RESET one without a limit, for which `default` bytes stand.
///
/// # Errors
/// If the runtime with the pool cannot be made.
pub(super) fn keep_fair(context: &SessionContext, before: &Arc<dyn MemoryPool>, default: usize) -> Result<()> {
    let runtime = context.runtime_env();
    if Arc::ptr_eq(&runtime.memory_pool, before) {
        return Ok(());
    }
    let limit = match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit,
        _ => default,
    };
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime).with_memory_pool(fair_pool(limit)).build_arc()?;
    let state = context.state_ref();
    let mut state = state.write();
    *state = SessionStateBuilder::from(state.clone()).with_runtime_env(runtime).build();
    Ok(())
}
