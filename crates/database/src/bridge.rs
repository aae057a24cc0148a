//! Between the row engine, which blocks and has errors of its own, and everything asynchronous.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
pub use thermocline_pushdown::external;
use thermocline_transactions::Error;

/// The row engine's error of which [`external`] made `error`, if it is one.
pub fn row_error(error: &DataFusionError) -> Option<&Error> {
    match error.find_root() {
        DataFusionError::External(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Does something that waits, on a thread for such work.
///
/// # Errors
/// If it panics, which is a bug.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| exec_datafusion_err!("internal error, please report it: {error}"))
}
