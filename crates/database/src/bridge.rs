//! Bridge between the row engine, which blocks and has its own errors, and asynchronous code.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
pub use thermocline_pushdown::external;
use thermocline_transactions::Error;

/// The row engine error that [`external`] has wrapped in `error`; `None` for other errors.
pub fn row_error(error: &DataFusionError) -> Option<&Error> {
    match error.find_root() {
        DataFusionError::External(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Runs blocking work on a thread for it.
///
/// # Errors
/// If the work panics, which is a bug.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| exec_datafusion_err!("internal error, please report it: {error}"))
}
