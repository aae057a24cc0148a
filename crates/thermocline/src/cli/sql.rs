//! `thermocline sql`: scripts and the shell.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Args};
use thermocline_database::{Database, OpenOptions, check_setting, nearest};

use super::Failure;
use super::interrupt::Interrupt;
use super::output::Format;
use super::recovery_line::RecoveryLine;
use super::run::{Finished, Runner, Shown, counted};
use super::script::{self, Origin};
use super::shell;
use super::termination;

/// Arguments of `thermocline sql`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// Database directory, created if there is none, which a shell asks about; without it, nothing is kept
    #[arg(value_name = "DB")]
    directory: Option<PathBuf>,

    /// Run these statements and exit; may be repeated
    #[arg(short = 'c', long, value_name = "SQL", allow_hyphen_values = true)]
    command: Vec<String>,

    /// Run this script ('-' for standard input) and exit; -c and -f run in the given order
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// Output format of rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Change a setting; the prefix 'thermocline.' may be left out
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,

    /// `-c` and `-f` in the given order.
    #[arg(skip)]
    scripts: Vec<Source>,
}

const EXAMPLES: &str = "\
Without -c and -f, a script is read from standard input, or a shell started if that is a terminal.
Each statement of a script runs as soon as its end is read. The first error ends it, with exit code 1;
statements before it have run, also if it is one of syntax. Of -c nothing runs unless all of it parses.
\\i FILE runs another script. Rows go to standard output, all else to standard error. Ctrl-C cancels the
query, here and at the storage nodes.

Examples:
  thermocline sql
  thermocline sql mydb -c 'CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)'
  thermocline sql mydb -c \"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/data/t'\"
  thermocline sql mydb -c 'SELECT count(*) FROM t' --set mode=pushdown
  thermocline sql mydb --format csv -f report.sql > report.csv
  thermocline sql mydb -c 'COPY t FROM STDIN WITH (FORMAT csv, HEADER)' < t.csv
  echo 'SELECT * FROM system.settings' | thermocline sql --format json";

/// A script's source.
#[derive(Debug, Clone)]
enum Source {
    /// The argument of `-c`.
    Text(String),
    /// The argument of `-f`; `-` is standard input.
    File(PathBuf),
}

impl SqlArgs {
    /// Puts `-c` and `-f` in the order of the command line, taken from `matches`.
    pub fn order_scripts(&mut self, matches: &ArgMatches) {
        let texts = self.command.iter().cloned().map(Source::Text);
        let files = self.file.iter().cloned().map(Source::File);
        let indices = |id| matches.indices_of(id).into_iter().flatten();
        let mut scripts: Vec<_> = indices("command").zip(texts).chain(indices("file").zip(files)).collect();
        scripts.sort_by_key(|(index, _)| *index);
        self.scripts = scripts.into_iter().map(|(_, script)| script).collect();
    }
}

/// Parses `NAME=VALUE`.
///
/// # Errors
/// If the text has another form; the message shows the right one.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME=VALUE, such as mode=pushdown".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// See [`Failure`].
pub async fn run(mut arguments: SqlArgs) -> Result<(), Failure> {
    let mut scripts = std::mem::take(&mut arguments.scripts);
    let interactive = scripts.is_empty() && std::io::stdin().is_terminal();
    if scripts.is_empty() && !interactive {
        scripts.push(Source::File("-".into()));
    }
    if let Some(directory) = arguments.directory.as_deref().filter(|directory| interactive && is_new(directory)) {
        // Ctrl-C still ends the program.
        confirm(directory)?;
    }
    let mut interrupt = Interrupt::listen(!interactive)?;
    let database = interrupt.clone().or(open(&arguments)).await??;
    interrupt.reset();
    let session = database.session();
    let is_stdin_free = !interactive && scripts.iter().all(|script| matches!(script, Source::Text(_)));
    let mut runner = Runner::new(session, arguments.format, interrupt, is_stdin_free);
    if interactive {
        shell::run(&mut runner).await?;
    } else {
        match run_scripts(&mut runner, scripts).await {
            Err(Failure::Terminated) => termination::end_by_itself(),
            ran => ran?,
        }
    }
    // Closing may take a snapshot, which may be interrupted: the log has everything.
    runner.interrupt.reset();
    let closed = async {
        runner.session.close().await?;
        database.close().await
    };
    Ok(runner.interrupt.clone().or(closed).await??)
}

async fn run_scripts(runner: &mut Runner, scripts: Vec<Source>) -> Result<(), Failure> {
    for script in scripts {
        match script {
            Source::Text(text) => script::run_argument(runner, &text).await?,
            Source::File(path) => {
                script::run_file(runner, path, Origin::default()).await?;
            }
        }
    }
    Ok(())
}

/// Whether a database would be created in a directory that does not exist, or has files of others. One that is empty
/// was made for it.
fn is_new(directory: &Path) -> bool {
    let has_files = || std::fs::read_dir(directory).is_ok_and(|mut files| files.next().is_some());
    !directory.exists() || !is_database(directory) && has_files()
}

/// Asks the user of a shell whether a database is to be created: its path may be mistyped.
///
/// # Errors
/// If it is not to be.
fn confirm(directory: &Path) -> Result<(), Failure> {
    let near = similar(directory).map(|near| format!("; did you mean {}?", near.display())).unwrap_or_default();
    let other = if directory.exists() { ": the directory has other files" } else { "" };
    let mut stderr = std::io::stderr().lock();
    let _nobody_listens =
        write!(stderr, "There is no database {}{other}{near}\nCreate it? [y/N] ", directory.display())
            .and_then(|()| stderr.flush());
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| Failure::Failed(format!("terminal: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Failed(format!("database {} is not created", directory.display()))),
    }
}

/// A database beside a path whose name is similar.
fn similar(directory: &Path) -> Option<PathBuf> {
    let parent = directory.parent()?;
    let beside = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let paths = std::fs::read_dir(beside).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let names: Vec<String> = paths
        .filter(|path| is_database(path))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    let near = nearest(directory.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(parent.join(near))
}

fn is_database(directory: &Path) -> bool {
    DATABASE_FILES.iter().any(|file| directory.join(file).exists())
}

/// Files by which a directory is known as a database's.
const DATABASE_FILES: [&str; 5] = ["lock", "catalog.sql", "rows.id", "settings.sql", "rows/control"];

/// Opens the database with the settings of the command line.
async fn open(arguments: &SqlArgs) -> Result<Database, Failure> {
    for (name, value) in &arguments.settings {
        check_setting(name, value).map_err(|error| match Failure::from(error) {
            Failure::Failed(message) => Failure::Usage(message),
            other => other,
        })?;
    }
    let options = OpenOptions {
        directory: arguments.directory.clone(),
        settings: arguments.settings.clone(),
        allocated: Some(crate::heap::allocated_bytes),
        ..OpenOptions::default()
    };
    let mut progress = RecoveryLine::new(arguments.directory.as_deref());
    Ok(Database::open(options, move |state| progress.show(state)).await?)
}

/// `3 rows, 0.012 s`.
pub fn summary(finished: Finished, timing: bool) -> String {
    let rows = match (finished.rows, finished.affected) {
        (Some(rows), _) => counted(rows, finished.shown),
        (None, Some(changed)) if changed > 0 => format!("{} changed", counted(changed, Shown::default())),
        _ => "done".to_owned(),
    };
    if timing { format!("{rows}, {}", seconds(finished.time)) } else { rows }
}

/// `0.012 s`.
pub fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};
    use super::*;

    #[test]
    fn scripts_run_in_the_order_given() {
        let arguments = ["thermocline", "sql", "db", "-c", "1", "-f", "2", "--format", "csv", "-c", "3", "--file=4"];
        let Ok(Command::Sql(sql)) = parse(arguments.iter().map(Into::into)) else { panic!("does not parse") };
        let order: Vec<_> = sql
            .scripts
            .iter()
            .map(|script| match script {
                Source::Text(text) => text.clone(),
                Source::File(path) => format!("file {}", path.display()),
            })
            .collect();
        assert_eq!(order, ["1", "file 2", "3", "file 4"]);
    }

    #[test]
    fn settings_are_assignments() {
        assert_eq!(assignment("a.b = c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert!(assignment("mode").is_err());
        assert!(assignment("=x").is_err());
    }
}
