//! Errors of SQL's rules among the analytic engine's.

use datafusion::common::DataFusionError;
use thermocline_types::Error;

/// The error as one of the analytic engine, which keeps its SQLSTATE.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
