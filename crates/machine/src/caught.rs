//! Converts panics, which are bugs, into errors.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_types::{Error, Result};

/// Runs a function and converts its panic into an error. Everything that the function was changing is then unusable:
/// the caller abandons it and passes the error to those who wait for it. In threads that run transactions or write the log
/// that stops the engine; in the snapshots' thread it ends snapshots, and during recovery the opening.
pub fn caught<T>(what: impl fmt::Display, run: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
        Error::internal(format_args!("{what} panicked: {text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(caught("it", || 7), Ok(7));
        assert_eq!(caught("it", || panic!("of {}", 1)).unwrap_err().to_string(), "internal error: it panicked: of 1");
        assert_eq!(caught("it", || panic!("no")).unwrap_err().to_string(), "internal error: it panicked: no");
    }
}
