//! `thermocline sql`: scripts and the shell.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args};
use datafusion::common::config::ExtensionOptions;
use thermocline_database::{OpenOptions, Session};

use super::Failure;
use super::failure::notice;
use super::interrupt::Interrupt;
use super::output::Format;
use super::recovery_line::RecoveryLine;
use super::run::{Finished, Runner};
use super::shell;

/// Arguments of `thermocline sql`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// Database directory, made if it is not there; without it, nothing is kept
    #[arg(value_name = "DB")]
    directory: Option<PathBuf>,

    /// Run these statements and exit; may be repeated
    #[arg(short = 'c', long, value_name = "SQL", allow_hyphen_values = true)]
    command: Vec<String>,

    /// Run this script ('-' for standard input) and exit; -c and -f run in the order given
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Change a setting; the prefix 'thermocline.' may be left out
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,

    /// `-c` and `-f` in the order given.
    #[arg(skip)]
    scripts: Vec<Script>,
}

const EXAMPLES: &str = "\
Without -c and -f, a script is read from standard input, or a shell started if that is a terminal.
The first error ends a script, with exit code 1. Rows go to standard output, all else to standard
error. Ctrl-C cancels the query, here and at the storage nodes.

Examples:
  thermocline sql
  thermocline sql mydb -c 'CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)'
  thermocline sql mydb -c \"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/data/t'\"
  thermocline sql mydb -c 'SELECT count(*) FROM t' --set mode=pushdown
  thermocline sql mydb --format csv -f report.sql > report.csv
  echo 'SELECT * FROM system.settings' | thermocline sql --format json";

/// A script's source.
#[derive(Debug, Clone)]
enum Script {
    /// The argument of `-c`.
    Text(String),
    /// The argument of `-f`; `-` is standard input.
    File(PathBuf),
}

impl SqlArgs {
    /// Puts `-c` and `-f` in the order of the command line, which `matches` knows.
    pub fn order_scripts(&mut self, matches: &ArgMatches) {
        let texts = self.command.iter().cloned().map(Script::Text);
        let files = self.file.iter().cloned().map(Script::File);
        let indices = |id| matches.indices_of(id).into_iter().flatten();
        let mut scripts: Vec<_> = indices("command").zip(texts).chain(indices("file").zip(files)).collect();
        scripts.sort_by_key(|(index, _)| *index);
        self.scripts = scripts.into_iter().map(|(_, script)| script).collect();
    }
}

/// A name and a value.
///
/// # Errors
/// A sentence, for anything else.
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
        scripts.push(Script::File("-".into()));
    }
    let mut interrupt = Interrupt::listen(!interactive)?;
    let session = interrupt.clone().or(open(&arguments)).await??;
    interrupt.reset();
    let mut runner = Runner { session, format: arguments.format, interrupt };
    if interactive {
        shell::run(&mut runner).await?;
    } else {
        for script in scripts {
            run_source(&mut runner, script).await?;
        }
    }
    Ok(runner.session.close().await?)
}

async fn run_source(runner: &mut Runner, script: Script) -> Result<(), Failure> {
    match script {
        Script::Text(text) => run_script(runner, &text).await,
        Script::File(path) => {
            let text = read(&mut runner.interrupt, path.clone()).await?;
            let name = path.display();
            run_script(runner, &text).await.map_err(|failure| match name.to_string().as_str() {
                "-" => failure,
                name => failure.context(name),
            })
        }
    }
}

/// Opens the session with the settings of the command line.
async fn open(arguments: &SqlArgs) -> Result<Session, Failure> {
    let mut options = OpenOptions { directory: arguments.directory.clone(), ..OpenOptions::default() };
    let wrong = |error: datafusion::common::DataFusionError| match Failure::from(error) {
        Failure::Failed(message) => Failure::Usage(message),
        other => other,
    };
    let mut others = vec![];
    for (name, value) in &arguments.settings {
        // Ours count from the start: restoring tables obeys the timeout already.
        match name.strip_prefix("thermocline.").or_else(|| (!name.contains('.')).then_some(name.as_str())) {
            Some(name) => options.settings.set(name, value).map_err(wrong)?,
            None => others.push((name, value)),
        }
    }
    let mut progress = RecoveryLine::new(arguments.directory.as_deref());
    let session = Session::open(options, move |state| progress.show(state)).await?;
    for (name, value) in others {
        if name.starts_with("datafusion.runtime.") {
            // Not options of the session, so only the statement knows them.
            let sql = format!("SET {name} = '{}'", value.replace('\'', "''"));
            session.run(&sql).await.map_err(wrong)?;
        } else {
            session.set(name, value).map_err(wrong)?;
        }
    }
    Ok(session)
}

/// The text of a script, unless Ctrl-C is pressed first: standard input may never end.
async fn read(interrupt: &mut Interrupt, path: PathBuf) -> Result<String, Failure> {
    let name = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
    let text = tokio::task::spawn_blocking(move || {
        if path.as_os_str() == "-" {
            let mut bytes = vec![];
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(path)
        }
    });
    match interrupt.or(text).await? {
        Ok(Ok(bytes)) => {
            let text = utf8(bytes).map_err(|why| Failure::Failed(format!("{name}: {why}")))?;
            Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
        }
        Ok(Err(error)) => Err(Failure::Failed(format!("{name}: {error}"))),
        Err(error) => Err(Failure::Failed(format!("{name}: {error}"))),
    }
}

/// A script's text; an error names the line that is none.
fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = 1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
        let found = bytes.get(at).copied().unwrap_or_default();
        format!("line {line} is not UTF-8 text: byte 0x{found:02x}")
    })
}

/// Runs a script up to its first error.
async fn run_script(runner: &mut Runner, text: &str) -> Result<(), Failure> {
    let statements = Session::parse(text)?;
    let count = statements.len();
    for (i, statement) in statements.into_iter().enumerate() {
        let finished = runner.run(statement).await.map_err(|failure| match failure {
            Failure::Failed(message) if count > 1 => {
                Failure::Failed(format!("{message}\n(in statement {} of {count})", i + 1))
            }
            other => other,
        })?;
        if runner.format == Format::Table && finished.rows.is_some() {
            notice(format_args!("({})", summary(finished, true)));
        }
    }
    Ok(())
}

/// `3 rows, 0.012 s`.
pub fn summary(finished: Finished, timing: bool) -> String {
    let count = |rows| if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
    let rows = match (finished.rows, finished.affected) {
        (Some(rows), _) => count(rows),
        (None, Some(changed)) if changed > 0 => format!("{} changed", count(changed)),
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
                Script::Text(text) => text.clone(),
                Script::File(path) => format!("file {}", path.display()),
            })
            .collect();
        assert_eq!(order, ["1", "file 2", "3", "file 4"]);
    }

    #[test]
    fn scripts_are_utf8() {
        assert_eq!(utf8("größe".into()), Ok("größe".to_owned()));
        assert_eq!(utf8(b"a\nb\n\xe4;".to_vec()), Err("line 3 is not UTF-8 text: byte 0xe4".to_owned()));
        assert_eq!(utf8(vec![0xc3]), Err("line 1 is not UTF-8 text: byte 0xc3".to_owned()));
    }

    #[test]
    fn settings_are_assignments() {
        assert_eq!(assignment("a.b = c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert!(assignment("mode").is_err());
        assert!(assignment("=x").is_err());
    }
}
