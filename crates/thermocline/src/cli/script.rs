//! Runs texts of statements and commands from the command line, files, and the shell.
//!
//! Each statement runs as soon as its end has been read, up to the first error, whether of running or of parsing:
//! everything before it is done. Only the text of `-c` is parsed completely first. This follows `psql`, except that
//! `psql` by default continues after an error of running, while here an error always ends the text. At most one
//! statement and one piece of text of a script are in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use thermocline_database::{Completeness, Part, Scanner, Script, Statement, Variables};

use super::Failure;
use super::browse;
use super::editor;
use super::failure::notice;
use super::order::{Mode, Order, Switch, copy_of, file_of, no_variable, path_of, script_of, words};
use super::output::{Format, Sink, flush, print};
use super::run::{Expanded, Runner};
use super::source::Source;
use super::sql::summary;

/// Maximum depth of scripts that include each other, because one that includes itself never ends.
const DEPTH_MAX: usize = 16;

/// Pause between two runs of a watched statement, unless the command says another.
const WATCH_PAUSE: Duration = Duration::from_secs(2);

const HELP: &str = "\
Statements end with a semicolon and may take several lines. Tab completes.
  \\d, .tables     list tables and views       \\dt \\dv \\di \\df   tables, views, indexes, functions
  \\d NAME         describe a table or view    \\dn \\du \\l       schemas, roles, the database
  .schema NAME    the statements that create it; names may have * and ?, as in \\dt o*
  \\i FILE         run a script                \\ir FILE         from the directory of the script that says so
  \\e [FILE]       edit the last statement     \\watch [SECONDS] repeat it, c=N times or until Ctrl-C
  \\x [auto]       a line for each value       .mode NAME        table, line, csv, json, markdown
  .maxrows N      show at most N rows, 0 for all
  \\o [FILE]       write rows to a file        \\timing          show times, or not
  \\copy ...       COPY with a file            \\echo TEXT       print a text
  \\set NAME TEXT  for :NAME, :'NAME', :\"NAME\" in statements; \\unset NAME; \\set lists all
  \\q, Ctrl-D      quit
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
    /// At the shell, where Ctrl-C came when a statement had ended: nothing behind that ran.
    Late,
}

/// Runs the text of `-c`; runs nothing unless all of it parses.
///
/// # Errors
/// The first error; everything before it has run.
pub async fn run_argument(runner: &mut Runner, text: &str) -> Result<(), Failure> {
    let (mut script, mut parts) = (Script::whole(text), vec![]);
    // Variables that the text sets before it refers to them.
    let mut variables = runner.variables.clone();
    while let Some(part) = script.part_with(&variables)? {
        if let Part::Command(command) = &part {
            match Order::of(command) {
                Some(Order::Set(rest)) => {
                    let _reported_when_it_runs = set(&mut variables, rest);
                }
                Some(Order::Unset(name)) => variables.unset(name),
                _ => {}
            }
        }
        parts.push(part);
    }
    let count = parts.iter().filter(|part| matches!(part, Part::Statement(_))).count();
    let mut number = 0;
    for part in parts {
        number += u64::from(matches!(part, Part::Statement(_)));
        let place = (count > 1).then(|| format!("statement {number} of {count}"));
        if run_part(runner, part, Origin::default(), place).await? != Ended::Done {
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
    while let Some(part) = script.part_with(&runner.variables)? {
        let ended = run_part(runner, part, Origin::SHELL, None).await?;
        if ended != Ended::Done {
            return Ok(ended);
        }
    }
    Ok(Ended::Done)
}

/// Runs a script while it is read; `-` is standard input. Its `\q` ends it alone.
///
/// # Errors
/// The first error, also of reading; everything before it has run.
pub fn run_file<'a>(
    runner: &'a mut Runner,
    path: PathBuf,
    from: Origin<'a>,
) -> LocalBoxFuture<'a, Result<Ended, Failure>> {
    async move {
        let mut source = Source::new(path);
        let ran = run_source(runner, &mut source, from).await;
        ran.map_err(|failure| if source.is_stdin() { failure } else { failure.context(source.path().display()) })
    }
    .boxed_local()
}

async fn run_source(runner: &mut Runner, source: &mut Source, from: Origin<'_>) -> Result<Ended, Failure> {
    let path = source.path().to_owned();
    let from = Origin { folder: path.parent(), is_stdin: from.is_stdin || source.is_stdin(), ..from };
    let (mut script, mut number, mut is_whole) = (Script::default(), 0, false);
    loop {
        while let Some(part) = script.part_with(&runner.variables)? {
            let place = match &part {
                Part::Statement(statement) => {
                    number += 1;
                    Some(format!("statement {number}, line {}", statement.line()))
                }
                Part::Command(_) => None,
            };
            match run_part(runner, part, from, place).await? {
                Ended::Done => {}
                Ended::Quit => return Ok(Ended::Done),
                Ended::Late => return Ok(Ended::Late),
            }
        }
        if is_whole {
            return Ok(Ended::Done);
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
            (Ok(ended), _) => Ok(ended),
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
        Order::Timing(switch) => {
            runner.timing = match switch {
                Switch::Toggle | Switch::Auto => !runner.timing,
                Switch::On => true,
                Switch::Off => false,
            };
            notice(format_args!("times are {}", if runner.timing { "shown" } else { "not shown" }));
        }
        Order::Expanded(switch) => {
            runner.expanded = match (switch, runner.expanded) {
                (Switch::Auto, _) => Expanded::Auto,
                (Switch::On, _) | (Switch::Toggle, Expanded::Off) => Expanded::On,
                (Switch::Off, _) | (Switch::Toggle, Expanded::On | Expanded::Auto) => Expanded::Off,
            };
            notice(format_args!(
                "{}",
                match runner.expanded {
                    Expanded::Off => "a line for each row",
                    Expanded::On => "a line for each value",
                    Expanded::Auto => "a line for each value, if a row is wider than the terminal",
                }
            ));
        }
        Order::List(listing, pattern) => browse::list(runner, listing, pattern).await?,
        Order::Describe(pattern) => browse::describe(runner, pattern).await?,
        Order::Definitions(pattern) => browse::definitions(runner, pattern).await?,
        Order::Mode(None) => {
            let format = runner.format.to_possible_value();
            notice(format_args!("rows are shown as {}", format.as_ref().map_or("", PossibleValue::get_name)));
        }
        Order::Mode(Some(mode)) => {
            (runner.format, runner.expanded) = match mode {
                Mode::Rows(format) => (format, Expanded::Off),
                Mode::Lines => (Format::Table, Expanded::On),
            };
        }
        Order::RowsMax(count) => runner.rows_max = Some(count).filter(|count| *count > 0),
        Order::Output("") => runner.sink = Sink::Standard,
        Order::Output(file) if file.starts_with('|') => {
            return Err(Failure::Failed("\\o takes the name of a file, not a command".to_owned()));
        }
        Order::Output(file) => runner.sink = Sink::create(&path_of(&named("\\o", file_of(file))?, None))?,
        Order::Set("") => {
            for (name, value) in runner.variables.iter() {
                runner.sink.print(format!("{name} = '{}'\n", value.replace('\'', "''")).as_bytes())?;
            }
            runner.sink.flush()?;
        }
        Order::Set(rest) => set(&mut runner.variables, rest)?,
        Order::Unset(name) => runner.variables.unset(name),
        Order::Echo(rest) => {
            print(format!("{}\n", words(rest).join(" ")).as_bytes())?;
            flush()?;
        }
        Order::Copy(rest) => {
            let text = named("\\copy", copy_of(rest))?;
            return match Script::whole(&text).part_with(&Variables::default())? {
                Some(Part::Statement(statement)) => run_statement(runner, *statement, from.is_typed).await,
                _ => Ok(Ended::Done),
            };
        }
        Order::Watch(rest) => return watch(runner, rest, from).await,
        Order::Edit(_) if !from.is_typed => {
            return Err(Failure::Failed("\\e is for the shell: a script has nobody who edits".to_owned()));
        }
        Order::Edit(file) => {
            let last = runner.last.as_ref().map(|last| format!("{};\n", last.text)).unwrap_or_default();
            let edited = editor::edited(&named("\\e", script_of(file))?, &last).await?;
            // Ctrl-C was meant for the editor.
            runner.interrupt.reset();
            let Some(text) = edited else {
                notice(format_args!("not changed, and not run"));
                return Ok(Ended::Done);
            };
            let text = text.trim_end();
            notice(format_args!("{text}"));
            let mut scanner = Scanner::new(true);
            scanner.push(text);
            scanner.push("\n");
            if scanner.completeness() == Completeness::Open {
                notice(format_args!("nothing has run yet: end it with a semicolon, or clear it with Ctrl-C"));
                runner.begun = Some(text.to_owned());
                return Ok(Ended::Done);
            }
            return run_edited(runner, text.to_owned()).await;
        }
        Order::Include { file: "", .. } => return Err(Failure::Failed("\\i needs the name of a file".to_owned())),
        Order::Include { file, .. } if from.depth == DEPTH_MAX => {
            return Err(Failure::Failed(format!("{file}: scripts include each other more than {DEPTH_MAX} deep")));
        }
        Order::Include { file, beside } => {
            let path = path_of(&named("\\i", script_of(file))?, from.folder.filter(|_| beside));
            if from.is_stdin && path.as_os_str() == "-" {
                return Err(Failure::Failed("standard input cannot include itself".to_owned()));
            }
            return run_file(runner, path, Origin { depth: from.depth + 1, ..from }).await;
        }
        Order::Wrong(command, takes) => return Err(Failure::Failed(format!("{command}: expected {takes}"))),
        Order::Unknown(command) => {
            return Err(Failure::Failed(format!("there is no command {command}; \\? lists them")));
        }
    }
    Ok(Ended::Done)
}

/// The name in a command, or the failure of the command.
fn named(command: &str, name: Result<String, String>) -> Result<String, Failure> {
    name.map_err(|why| Failure::Failed(format!("{command}: {why}")))
}

fn run_edited(runner: &mut Runner, text: String) -> LocalBoxFuture<'_, Result<Ended, Failure>> {
    async move { run_typed(runner, &text).await }.boxed_local()
}

/// Sets a variable: the first word is its name, and the others, without blanks between them, its value.
fn set(variables: &mut Variables, rest: &str) -> Result<(), Failure> {
    let value = rest.split_once(char::is_whitespace).map_or("", |(_, value)| value.trim_start());
    let is_reference = |name: &str| name.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '"'));
    if value.strip_prefix(':').is_some_and(is_reference) {
        return Err(Failure::Failed(format!("\\set: {}", no_variable(value))));
    }
    let mut words = words(rest).into_iter();
    let name = words.next().unwrap_or_default();
    if variables.set(&name, &words.collect::<String>()) {
        return Ok(());
    }
    let takes = "letters, digits and underscores";
    Err(Failure::Failed(format!("\\set: a variable has a name of {takes}, not \"{name}\"; SET changes a setting")))
}

/// Repeats the last statement.
async fn watch(runner: &mut Runner, rest: &str, from: Origin<'_>) -> Result<Ended, Failure> {
    let (mut pause, mut times) = (WATCH_PAUSE, None);
    for word in words(rest) {
        let wrong = || Failure::Failed(format!("\\watch: expected [i=]SECONDS and c=COUNT, not {word}"));
        match word.split_once('=') {
            Some(("c" | "count", count)) => {
                times = Some(count.parse::<u64>().ok().filter(|count| *count > 0).ok_or_else(wrong)?);
            }
            Some(("i" | "interval", seconds)) => pause = duration(seconds).ok_or_else(wrong)?,
            None => pause = duration(&word).ok_or_else(wrong)?,
            Some(_) => return Err(wrong()),
        }
    }
    let Some(statement) = runner.last.clone() else {
        return Err(Failure::Failed("\\watch repeats the last statement, and none has run".to_owned()));
    };
    let mut left = times;
    loop {
        let ended = run_statement(runner, statement.clone(), from.is_typed).await?;
        left = left.map(|left| left - 1);
        if ended != Ended::Done || left == Some(0) {
            return Ok(ended);
        }
        match runner.interrupt.or(tokio::time::sleep(pause)).await {
            // That is how it ends.
            Err(Failure::Interrupted) if from.is_typed => return Ok(Ended::Done),
            ended => ended?,
        }
    }
}

fn duration(seconds: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

async fn run_statement(runner: &mut Runner, statement: Statement, typed: bool) -> Result<Ended, Failure> {
    let finished = runner.run(statement).await?;
    if typed || runner.format == Format::Table && finished.rows.is_some() {
        notice(format_args!("({})", summary(finished, runner.timing)));
    }
    if !finished.was_late {
        return Ok(Ended::Done);
    }
    notice(format_args!("interrupted; the statement had ended"));
    if typed { Ok(Ended::Late) } else { Err(Failure::Interrupted) }
}
