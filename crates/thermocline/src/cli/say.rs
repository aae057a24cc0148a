//! Lines of a report on standard output.

/// Like `println!`, but continues when nobody reads: a report's records and figures are also written to files, and `|
/// head` should not cause a panic.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads = writeln!(std::io::stdout(), $($line)*);
    }};
}
