//! Where statements are planned.

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_datafusion_err};
use tokio::runtime::Handle;

/// Plans on a thread for blocking work. Planning does not pause, and may take long: as many statements as the runtime has
/// workers would keep everything else in the process from going on, timeouts included. Dropped, it goes on to its end, and
/// nothing waits for it.
///
/// # Errors
/// Those of the planning, and its panic, which is a defect.
pub(super) async fn on_a_thread<T: Send + 'static>(
    planning: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    let planned = SpawnedTask::spawn_blocking(move || runtime.block_on(planning)).await;
    planned.map_err(|error| exec_datafusion_err!("planning ended in an error: {error}"))?
}
