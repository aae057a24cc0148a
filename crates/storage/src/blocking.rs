//! Work that blocks its thread, away from the threads that compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;

/// Whether nobody waits for a piece of work any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// To be asked between steps that are not long.
    ///
    /// # Errors
    /// If nobody waits for the result.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(NodeError::new(ErrorKind::Unavailable, "nobody waits for the answer any more")),
        }
    }
}

/// Cancels when it is dropped.
struct Waiting(Cancelled);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work`, which asks now and then whether it is cancelled: that it is once this future is dropped.
/// Such work goes on for a while, so that `held`, the places and the bytes that it was given, is dropped
/// with the work and not with the future.
///
/// # Errors
/// Those of `work`.
pub(crate) async fn blocking<T: Send + 'static>(
    held: impl Send + 'static,
    work: impl FnOnce(&Cancelled) -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    let cancelled = Cancelled::default();
    let _waiting = Waiting(cancelled.clone());
    let work = move || {
        let done = cancelled.check().and_then(|()| work(&cancelled));
        drop(held);
        done
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| NodeError::new(ErrorKind::Internal, format!("work on files failed: {error}")))?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// What the work was given is given back when it ends, not when nobody waits any more.
    #[tokio::test(flavor = "multi_thread")]
    async fn cancelled_work_keeps_what_it_holds_until_it_ends() {
        let held = Arc::new(());
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let work = blocking(Arc::clone(&held), move |cancelled| {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
            ended.send(cancelled.check().is_err()).unwrap();
            Ok(())
        });
        let task = tokio::spawn(work);
        tokio::task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&held), 2, "the work is not done");
        go_on.send(()).unwrap();
        assert!(tokio::task::spawn_blocking(move || ends.recv().unwrap()).await.unwrap(), "it can know");
        while Arc::strong_count(&held) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
