//! Commands and their arguments.

#[macro_use]
mod say;

mod bench;
mod browse;
mod calibrate;
mod check;
mod completion;
mod demo;
mod editor;
mod failure;
mod generate;
mod interrupt;
mod node_process;
mod order;
mod output;
mod progress;
mod recovery_line;
mod restore;
mod run;
mod script;
mod shell;
mod source;
mod sql;
mod storage;
mod termination;
mod workload_data;

use std::ffi::OsString;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use failure::Failure;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "thermocline",
    version,
    about = "A SQL database: analytics over object storage, cached, pushed down, or both, and transactions over rows in memory",
    after_help = EXAMPLES,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  thermocline sql                                   a shell; \\? lists its commands
  thermocline sql mydb -c 'SHOW TABLES'             one statement, then exit
  thermocline storage /data                         a storage node on 127.0.0.1:32020
  thermocline generate ssb --scale 1 --out /data/ssb | thermocline sql mydb

RUST_LOG=info shows more of what happens, on standard error.";

/// One command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL: a shell, or scripts
    Sql(sql::SqlArgs),
    /// Verify the checksums and invariants of a database that is not open
    Check(check::CheckArgs),
    /// Create a database from a backup, or from an earlier state of a database
    Restore(restore::RestoreArgs),
    /// Run a storage node, which serves objects and runs fragments of queries beside them
    Storage(storage::StorageArgs),
    /// Generate benchmark data
    Generate(generate::GenerateArgs),
    /// Measure a table's storages, and fit the runtime model of mode auto to them
    Calibrate(calibrate::CalibrateArgs),
    /// Measure queries and transactions
    Bench(Box<bench::BenchArgs>),
    /// Show a small data set behind a slow link, with all modes side by side
    Demo(demo::DemoArgs),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sql(arguments) => block_on(sql::run(arguments)),
            Self::Check(arguments) => block_on(async { check::run(&arguments) }),
            Self::Restore(arguments) => block_on(async { restore::run(&arguments) }),
            Self::Storage(arguments) => block_on(storage::run(arguments)),
            Self::Generate(arguments) => generate::run(&arguments),
            Self::Calibrate(arguments) => block_on(calibrate::run(arguments)),
            Self::Bench(arguments) => block_on(bench::bench(*arguments)),
            Self::Demo(arguments) => block_on(async { Ok(demo::demo(arguments).await?) }),
        }
    }
}

/// Reads the arguments.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let mut command = Cli::from_arg_matches(&matches)?.command;
    if let (Command::Sql(sql), Some(matches)) = (&mut command, matches.subcommand_matches("sql")) {
        sql.order_scripts(matches);
    }
    Ok(command)
}

/// Stack of a worker thread: planning recurses over deep expressions.
const STACK_BYTES: usize = 32 << 20;

/// Time for tasks of a command that has failed or was interrupted to remove their files.
const CLEANUP_WAIT: Duration = Duration::from_millis(500);

/// Runs a command on a runtime of its own. Work left over when the command ends, such as a pending read of standard
/// input, does not delay the exit, or for [`CLEANUP_WAIT`] at the most.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // One more than can be busy with queries, for deadlines and Ctrl-C.
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(threads)
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
    let result = runtime.block_on(async {
        interrupt::survive_file_limits()?;
        work.await
    });
    match &result {
        Ok(_) => runtime.shutdown_background(),
        Err(_) => runtime.shutdown_timeout(CLEANUP_WAIT),
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
