//! Threads that make answers.

use datafusion::common::runtime::SpawnedTask;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;
use tokio::runtime::{Builder, Runtime};

/// Stack of a thread: expressions may be nested deeply.
const STACK_BYTES: usize = 32 << 20;

/// Threads that decode, compute and encode, apart from those that serve connections: a fragment computes for a long time
/// between two points at which a thread may do something else, and requests, stored bytes and pings must not wait for it.
#[derive(Debug, Default)]
pub(super) struct Workers(Option<Runtime>);

impl Workers {
    /// So many threads; with none, work is done by those of the caller.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(super) fn new(threads: usize) -> Result<Self, NodeError> {
        if threads == 0 {
            return Ok(Self(None));
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("fragments")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| NodeError::new(ErrorKind::Internal, format!("no threads for fragments: {error}")))?;
        Ok(Self(Some(runtime)))
    }

    /// Begins `work`, which ends when the task is dropped.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> SpawnedTask<T> {
        let _entered = self.0.as_ref().map(Runtime::enter);
        SpawnedTask::spawn(work)
    }
}

impl Drop for Workers {
    /// Does not wait for work that is under way, which nobody reads any more.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_threads_of_its_own_or_the_callers() {
        let caller = Builder::new_multi_thread().worker_threads(1).thread_name("caller").build().unwrap();
        for (threads, expected) in [(1, "fragments"), (0, "caller")] {
            let name = caller.block_on(async {
                let workers = Workers::new(threads).unwrap();
                // Dropped within a runtime, as nodes are.
                workers.spawn(async { std::thread::current().name().map(str::to_owned) }).join().await.unwrap()
            });
            assert_eq!(name.as_deref(), Some(expected));
        }
    }
}
