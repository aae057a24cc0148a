//! `thermocline`: the command line of the database.
//!
//! ```text
//! main -> cli (arguments) -> sql ------> shell | scripts -> run -> output
//!                         -> check, restore    of a database that is not open
//!                         -> storage     a storage node
//!                         -> generate    benchmark data
//!                         -> calibrate   the runtime model, fitted to a storage
//!                         -> bench       experiments, one JSON object a query
//!                         -> demo        all modes side by side on a slow link
//! ```
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 stopped by SIGTERM. SIGTERM that stops nothing, as
//! while a script waits for input, ends the program with 0.

#![deny(clippy::print_stdout, reason = "it panics when nobody reads; `say!` does not")]

mod cli;
mod heap;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Counted = heap::Counted;

fn main() -> ExitCode {
    start_logging();
    match cli::parse(std::env::args_os()) {
        Ok(command) => command.run().map_or_else(cli::Failure::report, |()| ExitCode::SUCCESS),
        Err(error) => {
            // Help and version arrive here too, with exit code 0; failing to print them is not an error.
            let _nobody_listens = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Logs to standard error, at the level of `RUST_LOG`; warnings if that is not set or invalid.
fn start_logging() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
