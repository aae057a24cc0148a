//! Stored bytes that a scan has on their way at once.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use parking_lot::Mutex;
use thermocline_catalog::PlannedObject;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use crate::model::{RuntimeModel, StorageRates};

/// Bytes of a window at least.
const BYTES_MIN: f64 = (8 << 20) as f64;
/// Round trips of a link that a window bridges.
const ROUND_TRIPS: f64 = 2.0;
/// Reads that are under way together at least, so that the link is busy from one to the next.
const READS_MIN: u32 = 2;
/// Bytes of reads that never wait: footers, on which others depend.
const SMALL: u64 = 64 << 10;
/// Bytes of a permit.
const UNIT: u64 = 1 << 10;

/// Windows of a scan, by storage.
///
/// Reads that share a link come one after the other, as far as that keeps the link busy, instead of all at the same time:
/// the first can be decoded while the others are on their way. A window is the scan's own, so that scans share a link
/// equally. Where the bandwidth grows with the number of reads, as that of a bucket does, there is none.
#[derive(Debug, Default)]
pub(super) struct Windows(Mutex<HashMap<String, Window>>);

impl Windows {
    /// The window for reads of an object; `None` if there need not be any.
    pub(super) fn of(&self, object: &PlannedObject, model: &RuntimeModel) -> Option<Window> {
        let capabilities = object.node.capabilities();
        if !capabilities.crosses_link || capabilities.operators.is_empty() {
            return None;
        }
        let label = object.node.label();
        let mut windows = self.0.lock();
        if let Some(window) = windows.get(label) {
            return Some(window.clone());
        }
        let window = Window::new(&model.storage(label).lock());
        windows.insert(label.to_owned(), window.clone());
        Some(window)
    }
}

/// Room for the reads of a scan from one storage.
#[derive(Debug, Clone)]
pub(super) struct Window {
    permits: Arc<Semaphore>,
    permits_max: u32,
}

impl Window {
    fn new(rates: &StorageRates) -> Self {
        let bytes = BYTES_MIN.max(ROUND_TRIPS * rates.bytes_per_s() * rates.round_trip_s());
        let permits = (bytes / UNIT as f64).min(f64::from(u32::MAX >> 4)) as u32;
        Self { permits: Arc::new(Semaphore::new(permits as usize)), permits_max: permits }
    }

    /// Runs a read of so many bytes once it has room, in a task of its own: others wait for that room, and it must not be
    /// held by a future that nobody polls because its reader is not asked for more, as reads ahead of text are.
    ///
    /// # Errors
    /// If the task failed.
    pub(super) async fn run<T: Send + 'static>(
        self,
        bytes: u64,
        read: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        let task = SpawnedTask::spawn(async move {
            let _room = self.enter(bytes).await;
            read.await
        });
        task.join().await
    }

    /// Waits until a read of so many bytes has room, which it has until the permit is dropped.
    async fn enter(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        if bytes <= SMALL {
            return None;
        }
        let permits = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.permits_max / READS_MIN);
        // Nobody closes it.
        Arc::clone(&self.permits).acquire_many_owned(permits).await.ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn two_reads_of_any_size_are_under_way_and_small_ones_do_not_wait() {
        let window = Window::new(&StorageRates::default());
        let first = window.enter(1 << 40).now_or_never().unwrap();
        let second = window.enter(1 << 40).now_or_never().unwrap();
        assert!(first.is_some() && second.is_some());
        let third = window.enter(1 << 20);
        futures::pin_mut!(third);
        assert!(third.as_mut().now_or_never().is_none());
        assert!(window.enter(SMALL).now_or_never().unwrap().is_none());
        drop(first);
        assert!(third.now_or_never().unwrap().is_some());
    }

    #[tokio::test]
    async fn reads_that_nobody_polls_any_more_hold_up_no_other() {
        let window = Window::new(&StorageRates::default());
        let read = || Box::pin(window.clone().run(1 << 40, tokio::time::sleep(Duration::from_millis(5))));
        let mut ahead = [read(), read(), read()];
        for begun in &mut ahead {
            assert!(begun.as_mut().now_or_never().is_none());
        }
        let wanted = tokio::time::timeout(Duration::from_secs(60), read()).await;
        assert!(wanted.unwrap().is_ok());
        for begun in ahead {
            assert!(begun.await.is_ok());
        }
    }

    #[tokio::test]
    async fn more_than_two_reads_are_under_way_if_they_fit() {
        let window = Window::new(&StorageRates::default());
        let reads: Vec<_> = (0..8).map(|_| window.enter(1 << 20).now_or_never().unwrap()).collect();
        assert!(reads.iter().all(Option::is_some));
        assert!(window.enter(1 << 20).now_or_never().is_none());
    }
}
