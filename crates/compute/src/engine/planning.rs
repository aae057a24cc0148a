//! Where statements are planned.

use std::pin::pin;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Plans on a thread for blocking work. Planning may compute for long without a pause: as many statements as the runtime
/// has workers would keep everything else in the process from going on, timeouts included. Dropped, it ends where it
/// waits next; until then it goes on, and nothing waits for it.
///
/// # Errors
/// Those of the planning, and its panic, which is a defect.
pub(super) async fn on_a_thread<T: Send + 'static>(
    planning: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    let (waiting, gone) = oneshot::channel::<()>();
    let planning = async move {
        match select(pin!(planning), gone).await {
            Either::Left((planned, _)) => planned,
            Either::Right(_) => exec_err!("canceled"),
        }
    };
    let planned = SpawnedTask::spawn_blocking(move || runtime.block_on(planning)).await;
    drop(waiting);
    planned.map_err(|error| exec_datafusion_err!("planning ended in an error: {error}"))?
}
