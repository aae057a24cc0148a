//! Lines of a report on standard output.

/// Like `println!`, but goes on when nobody reads: a report's records and figures are written to
/// files as well, and `| head` is no reason to panic.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads = writeln!(std::io::stdout(), $($line)*);
    }};
}
