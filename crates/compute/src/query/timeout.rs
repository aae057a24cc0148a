//! The end of a statement's time.

use std::fmt;
use std::time::Instant;

use datafusion::common::{DataFusionError, Result};

/// The error of a statement that took longer than `thermocline.statement_timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementTimeout;

impl fmt::Display for StatementTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("canceled: thermocline.statement_timeout has passed")
    }
}

impl std::error::Error for StatementTimeout {}

/// `work`, unless the statement's time is over first.
///
/// # Errors
/// [`StatementTimeout`].
pub async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T> {
    match deadline {
        None => Ok(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work)
            .await
            .map_err(|_| DataFusionError::External(Box::new(StatementTimeout))),
    }
}
