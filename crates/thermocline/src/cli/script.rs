//! Runs texts of statements and commands from the command line, files, and the shell.
//!
//! Each statement runs as soon as its end has been read, up to the first error, whether of running or of parsing:
//! everything before it is done. Only the text of `-c` is parsed completely first. This follows `psql`, except that
//! `psql` by default continues after an error of running, while here an error always ends the text. At most one
//! statement and one piece of text of a script are in memory.

use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use thermocline_database::{Part, Script, Statement};

use super::Failure;
use super::failure::notice;
use super::order::{Order, path_of};
use super::output::Format;
use super::run::Runner;
use super::source::Source;
use super::sql::summary;

/// Maximum depth of scripts that include each other, because one that includes itself never ends.
const DEPTH_MAX: usize = 16;

const HELP: &str = "\
Statements end with a semicolon and may take several lines. Tab completes.
  \\d          list tables          \\timing     show times, or not
  \\d NAME     describe a table     \\q, Ctrl-D  quit
  \\i FILE     run a script         \\ir FILE    the same, from the directory of the script that says so
Ctrl-C clears the line, or cancels the query that runs. SHOW ALL lists settings, SET changes them.";

/// Origin of a command or statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// Folder of file names relative to the script; `None` for the process's directory.
    folder: Option<&'a Path>,
    /// Number of scripts that include this one.
    depth: usize,
    /// Whether it was typed at the shell.
    is_typed: bool,
    /// Whether this script, or one that includes it, is standard input.
    is_stdin: bool,
}

impl Origin<'_> {
    /// The shell.
    pub const SHELL: Origin<'static> = Origin { folder: None, depth: 0, is_typed: true, is_stdin: false };
}

/// How a text ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of it ran.
    Done,
    /// With `\q`.
    Quit,
}

/// Runs the text of `-c`; runs nothing unless all of it parses.
///
/// # Errors
/// The first error; everything before it has run.
pub async fn run_argument(runner: &mut Runner, text: &str) -> Result<(), Failure> {
    let (mut script, mut parts) = (Script::whole(text), vec![]);
    while let Some(part) = script.part()? {
        parts.push(part);
    }
    let count = parts.iter().filter(|part| matches!(part, Part::Statement(_))).count();
    let mut number = 0;
    for part in parts {
        number += u64::from(matches!(part, Part::Statement(_)));
        let place = (count > 1).then(|| format!("statement {number} of {count}"));
        if run_part(runner, part, Origin::default(), place).await? == Ended::Quit {
            break;
        }
    }
    Ok(())
}

/// Runs text typed at the shell.
///
/// # Errors
/// The first error; everything before it has run.
pub async fn run_typed(runner: &mut Runner, text: &str) -> Result<Ended, Failure> {
    let mut script = Script::whole(text);
    while let Some(part) = script.part()? {
        if run_part(runner, part, Origin::SHELL, None).await? == Ended::Quit {
            return Ok(Ended::Quit);
        }
    }
    Ok(Ended::Done)
}

/// Runs a script while it is read; `-` is standard input.
///
/// # Errors
/// The first error, also of reading; everything before it has run.
pub fn run_file<'a>(
    runner: &'a mut Runner,
    path: PathBuf,
    from: Origin<'a>,
) -> LocalBoxFuture<'a, Result<(), Failure>> {
    async move {
        let mut source = Source::new(path);
        let ran = run_source(runner, &mut source, from).await;
        ran.map_err(|failure| if source.is_stdin() { failure } else { failure.context(source.path().display()) })
    }
    .boxed_local()
}

async fn run_source(runner: &mut Runner, source: &mut Source, from: Origin<'_>) -> Result<(), Failure> {
    let path = source.path().to_owned();
    let from = Origin { folder: path.parent(), is_stdin: from.is_stdin || source.is_stdin(), ..from };
    let (mut script, mut number, mut is_whole) = (Script::default(), 0, false);
    loop {
        while let Some(part) = script.part()? {
            let place = match &part {
                Part::Statement(statement) => {
                    number += 1;
                    Some(format!("statement {number}, line {}", statement.line()))
                }
                Part::Command(_) => None,
            };
            if run_part(runner, part, from, place).await? == Ended::Quit {
                return Ok(());
            }
        }
        if is_whole {
            return Ok(());
        }
        match source.next_piece(&mut runner.interrupt).await? {
            Some(text) => script.push(&text),
            None => {
                script.end();
                is_whole = true;
            }
        }
    }
}

/// Runs a part of a text; `place` is the position of its statement, for errors.
async fn run_part(runner: &mut Runner, part: Part, from: Origin<'_>, place: Option<String>) -> Result<Ended, Failure> {
    match part {
        Part::Statement(statement) => match (run_statement(runner, *statement, from.is_typed).await, place) {
            (Ok(()), _) => Ok(Ended::Done),
            (Err(Failure::Failed(message)), Some(place)) => Err(Failure::Failed(format!("{message}\n(in {place})"))),
            (Err(failure), _) => Err(failure),
        },
        Part::Command(command) => obey(runner, Order::of(&command).unwrap_or(Order::Unknown(&command)), from).await,
    }
}

/// Runs a command.
///
/// # Errors
/// If there is no such command, or it fails.
pub async fn obey(runner: &mut Runner, order: Order<'_>, from: Origin<'_>) -> Result<Ended, Failure> {
    match order {
        Order::Quit => return Ok(Ended::Quit),
        Order::Help => notice(format_args!("{HELP}")),
        Order::Timing => {
            runner.timing = !runner.timing;
            notice(format_args!("times are {}", if runner.timing { "shown" } else { "not shown" }));
        }
        Order::Tables => run_all(runner, "SHOW TABLES", from.is_typed).await?,
        Order::Describe(name) => run_all(runner, &format!("DESCRIBE {name}"), from.is_typed).await?,
        Order::Include { file: "", .. } => return Err(Failure::Failed("\\i needs the name of a file".to_owned())),
        Order::Include { file, .. } if from.depth == DEPTH_MAX => {
            return Err(Failure::Failed(format!("{file}: scripts include each other more than {DEPTH_MAX} deep")));
        }
        Order::Include { file, beside } => {
            let path = path_of(file, from.folder.filter(|_| beside));
            if from.is_stdin && path.as_os_str() == "-" {
                return Err(Failure::Failed("standard input cannot include itself".to_owned()));
            }
            run_file(runner, path, Origin { depth: from.depth + 1, ..from }).await?;
        }
        Order::Unknown(command) => {
            return Err(Failure::Failed(format!("there is no command {command}; \\? lists them")));
        }
    }
    Ok(Ended::Done)
}

async fn run_all(runner: &mut Runner, sql: &str, typed: bool) -> Result<(), Failure> {
    for statement in Statement::parse(sql)? {
        run_statement(runner, statement, typed).await?;
    }
    Ok(())
}

async fn run_statement(runner: &mut Runner, statement: Statement, typed: bool) -> Result<(), Failure> {
    let finished = runner.run(statement).await?;
    if typed || runner.format == Format::Table && finished.rows.is_some() {
        notice(format_args!("({})", summary(finished, runner.timing)));
    }
    if finished.was_late && !typed {
        notice(format_args!("interrupted; the statement had ended"));
        return Err(Failure::Interrupted);
    }
    Ok(())
}
