//! Errors of SQL's rules among the analytic engine's.

use datafusion::common::DataFusionError;
use thermocline_types::Error;

/// The error as one of the analytic engine, which keeps its SQLSTATE.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A user's error of the analytic engine: a class by its name, and a message.
///
/// ```
/// let name = "t";
/// let error = thermocline_pushdown::user_error!(UndefinedTable, "table \"{name}\" does not exist");
/// assert!(error.to_string().contains("table \"t\" does not exist"));
/// ```
#[macro_export]
macro_rules! user_error {
    ($class:ident, $($message:tt)*) => {
        $crate::external($crate::Class::$class.error(format_args!($($message)*)))
    };
}

/// The same as the result of whatever it ends.
#[macro_export]
macro_rules! user_err {
    ($class:ident, $($message:tt)*) => {
        Err($crate::user_error!($class, $($message)*))
    };
}
