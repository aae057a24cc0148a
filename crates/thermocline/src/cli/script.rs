//! Runs texts of statements and commands: those of the command line, of files, and of the shell.
//!
//! Statements run up to the first error, be it one of running or of reading the text: what stands before it is
//! done. Only the text of `-c` is read to its end first. So `psql` has it, which goes on after an error of running
//! unless it is told not to; here an error always ends the text.

use std::io::Read;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use thermocline_database::{Part, Script, Session, Statement};

use super::Failure;
use super::failure::notice;
use super::interrupt::Interrupt;
use super::order::{Order, path_of};
use super::output::Format;
use super::run::Runner;
use super::sql::summary;

/// How deep scripts may include each other; one that includes itself never ends.
const DEPTH_MAX: usize = 16;

const HELP: &str = "\
Statements end with a semicolon and may take several lines. Tab completes.
  \\d          list tables          \\timing     show times, or not
  \\d NAME     describe a table     \\q, Ctrl-D  quit
  \\i FILE     run a script         \\ir FILE    the same, from the directory of the script that says so
Ctrl-C clears the line, or cancels the query that runs. SHOW ALL lists settings, SET changes them.";

/// How a text is run.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// It.
    text: &'a str,
    /// What names of files begin with that are relative to the script; `None` for the process's directory.
    folder: Option<&'a Path>,
    /// How many scripts include this one.
    depth: usize,
    /// Whether nothing of it runs if it does not parse to its end.
    whole: bool,
    /// Whether a person waits at the shell.
    typed: bool,
}

impl<'a> Text<'a> {
    /// The text of `-c`.
    pub const fn of_argument(text: &'a str) -> Self {
        Self { text, folder: None, depth: 0, whole: true, typed: false }
    }

    /// What was typed at the shell.
    pub const fn typed(text: &'a str) -> Self {
        Self { text, folder: None, depth: 0, whole: false, typed: true }
    }
}

/// Why a text ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of it has run.
    Done,
    /// It said `\q`.
    Quit,
}

/// Runs a text up to its first error.
///
/// # Errors
/// That one, after what stands before it.
pub async fn run(runner: &mut Runner, text: Text<'_>) -> Result<Ended, Failure> {
    let Script { parts, mut error } = Script::read(text.text);
    if let Some(error) = error.take_if(|_| text.whole) {
        return Err(error.into());
    }
    let count = parts.iter().filter(|part| matches!(part, Part::Statement(_))).count();
    let mut number = 0;
    for part in parts {
        match part {
            Part::Statement(statement) => {
                number += 1;
                run_statement(runner, statement, text.typed).await.map_err(|failure| match failure {
                    Failure::Failed(message) if text.typed && text.depth == 0 => Failure::Failed(message),
                    Failure::Failed(message) if error.is_some() => {
                        Failure::Failed(format!("{message}\n(in statement {number})"))
                    }
                    Failure::Failed(message) if count > 1 => {
                        Failure::Failed(format!("{message}\n(in statement {number} of {count})"))
                    }
                    other => other,
                })?;
            }
            Part::Command(command) => {
                let order = Order::of(&command).unwrap_or(Order::Unknown(&command));
                if obey(runner, order, text).await? == Ended::Quit {
                    return Ok(Ended::Quit);
                }
            }
        }
    }
    error.map_or(Ok(Ended::Done), |error| Err(error.into()))
}

/// Does what a command asks for; `from` is what it stands in.
///
/// # Errors
/// If there is no such command, or it fails.
pub async fn obey(runner: &mut Runner, order: Order<'_>, from: Text<'_>) -> Result<Ended, Failure> {
    match order {
        Order::Quit => return Ok(Ended::Quit),
        Order::Help => notice(format_args!("{HELP}")),
        Order::Timing => {
            runner.timing = !runner.timing;
            notice(format_args!("times are {}", if runner.timing { "shown" } else { "not shown" }));
        }
        Order::Tables => run_all(runner, "SHOW TABLES", from.typed).await?,
        Order::Describe(name) => run_all(runner, &format!("DESCRIBE {name}"), from.typed).await?,
        Order::Include { file: "", .. } => return Err(Failure::Failed("\\i needs the name of a file".to_owned())),
        Order::Include { file, .. } if from.depth == DEPTH_MAX => {
            return Err(Failure::Failed(format!("{file}: scripts include each other more than {DEPTH_MAX} deep")));
        }
        Order::Include { file, beside } => {
            let path = path_of(file, from.folder.filter(|_| beside));
            run_file(runner, path, from.depth + 1, from.typed).await?;
        }
        Order::Unknown(command) => {
            return Err(Failure::Failed(format!("there is no command {command}; \\? lists them")));
        }
    }
    Ok(Ended::Done)
}

/// Runs a script; `-` is standard input.
///
/// # Errors
/// Of reading, before anything runs, and those of [`run`].
pub fn run_file(
    runner: &mut Runner,
    path: PathBuf,
    depth: usize,
    typed: bool,
) -> LocalBoxFuture<'_, Result<(), Failure>> {
    async move {
        let text = read(&mut runner.interrupt, path.clone()).await?;
        let text = Text { text: &text, folder: path.parent(), depth, whole: false, typed };
        let ended = run(runner, text).await;
        ended
            .map(|_| ())
            .map_err(|failure| if path.as_os_str() == "-" { failure } else { failure.context(path.display()) })
    }
    .boxed_local()
}

async fn run_all(runner: &mut Runner, sql: &str, typed: bool) -> Result<(), Failure> {
    for statement in Session::parse(sql)? {
        run_statement(runner, statement, typed).await?;
    }
    Ok(())
}

async fn run_statement(runner: &mut Runner, statement: Statement, typed: bool) -> Result<(), Failure> {
    let finished = runner.run(statement).await?;
    if typed || runner.format == Format::Table && finished.rows.is_some() {
        notice(format_args!("({})", summary(finished, runner.timing)));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_utf8() {
        assert_eq!(utf8("größe".into()), Ok("größe".to_owned()));
        assert_eq!(utf8(b"a\nb\n\xe4;".to_vec()), Err("line 3 is not UTF-8 text: byte 0xe4".to_owned()));
        assert_eq!(utf8(vec![0xc3]), Err("line 1 is not UTF-8 text: byte 0xc3".to_owned()));
    }
}
