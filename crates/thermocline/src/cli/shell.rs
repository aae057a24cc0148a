//! The interactive shell.

use std::path::PathBuf;

use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Editor};
use thermocline_database::Session;

use super::Failure;
use super::completion::Words;
use super::failure::notice;
use super::run::Runner;
use super::sql::{seconds, summary};
use super::statement::{Completeness, completeness};

const PROMPT: &str = "thermocline> ";
const PROMPT_MORE: &str = "        ...> ";
const _: () = assert!(PROMPT.len() == PROMPT_MORE.len());

const HISTORY_MAX: usize = 10_000;

const HELP: &str = "\
Statements end with a semicolon and may take several lines. Tab completes.
  \\d          list tables          \\timing     show times, or not
  \\d NAME     describe a table     \\q, Ctrl-D  quit
Ctrl-C clears the line, or cancels the query that runs. SHOW ALL lists settings, SET changes them.";

type LineEditor = Editor<Words, FileHistory>;

/// Reads statements and runs them until the user quits.
///
/// # Errors
/// If the terminal or standard output fails; a statement that fails does not end the shell.
pub async fn run(runner: &mut Runner) -> Result<(), Failure> {
    let mut editor = editor()?;
    let history = History::open(&mut editor);
    let mut timing = true;
    notice(format_args!("Thermocline {}. \\? for help, \\q to quit.", env!("CARGO_PKG_VERSION")));
    loop {
        if let Some(words) = editor.helper_mut() {
            words.refresh(&runner.session);
        }
        let text = match read(&mut editor)? {
            Input::Text(text) => text,
            Input::Cleared => continue,
            Input::End => return Ok(()),
        };
        history.add(&mut editor, &text);
        match Order::of(&text) {
            Order::Quit => return Ok(()),
            Order::Help => notice(format_args!("{HELP}")),
            Order::Timing => {
                timing = !timing;
                notice(format_args!("times are {}", if timing { "shown" } else { "not shown" }));
            }
            Order::Tables => run_text(runner, "SHOW TABLES", timing).await?,
            Order::Describe(name) => run_text(runner, &format!("DESCRIBE {name}"), timing).await?,
            Order::Unknown => notice(format_args!("error: there is no command {}; \\? lists them", text.trim())),
            Order::Sql => run_text(runner, &text, timing).await?,
        }
    }
}

/// Runs statements up to the first that fails.
async fn run_text(runner: &mut Runner, text: &str, timing: bool) -> Result<(), Failure> {
    let statements = match Session::parse(text) {
        Ok(statements) => statements,
        Err(error) => {
            Failure::from(error).report();
            return Ok(());
        }
    };
    for statement in statements {
        // Ctrl-C pressed at the prompt was for the line.
        runner.interrupt.reset();
        let started = std::time::Instant::now();
        match runner.run(statement).await {
            Ok(finished) => notice(format_args!("({})", summary(finished, timing))),
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(Failure::Interrupted) => {
                notice(format_args!("canceled after {}", seconds(started.elapsed())));
                return Ok(());
            }
            Err(failure) => {
                failure.report();
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What the user gave.
enum Input {
    /// Whole statements or a command.
    Text(String),
    /// Ctrl-C.
    Cleared,
    /// Ctrl-D.
    End,
}

/// Reads lines until they are whole statements.
fn read(editor: &mut LineEditor) -> Result<Input, Failure> {
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { PROMPT } else { PROMPT_MORE }) {
            Ok(line) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&line);
            }
            Err(ReadlineError::Interrupted) => return Ok(Input::Cleared),
            Err(ReadlineError::Eof) => return Ok(Input::End),
            // The window changed its size.
            Err(ReadlineError::Signal(_)) => continue,
            Err(error) => return Err(Failure::Failed(format!("terminal: {error}"))),
        }
        let state = completeness(&text);
        if state == Completeness::Blank {
            text.clear();
        } else if state == Completeness::Complete || !matches!(Order::of(&text), Order::Sql) {
            return Ok(Input::Text(text));
        }
    }
}

/// What a text asks for.
#[derive(Debug, PartialEq, Eq)]
enum Order<'a> {
    Quit,
    Help,
    Timing,
    Tables,
    Describe(&'a str),
    Unknown,
    Sql,
}

impl<'a> Order<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match (word.to_ascii_lowercase().as_str(), rest.trim()) {
            ("\\q" | "quit" | "exit", "") => Self::Quit,
            ("\\?" | "\\h" | "help", "") => Self::Help,
            ("\\timing", "") => Self::Timing,
            ("\\d" | "\\dt", "") => Self::Tables,
            ("\\d", name) => Self::Describe(name),
            (word, _) if word.starts_with('\\') => Self::Unknown,
            _ => Self::Sql,
        }
    }
}

fn editor() -> Result<LineEditor, Failure> {
    let failed = |error: ReadlineError| Failure::Failed(format!("terminal: {error}"));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_MAX)
        .and_then(|config| config.history_ignore_dups(true))
        .map_err(failed)?
        .build();
    let mut editor = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Words::default()));
    Ok(editor)
}

/// Lines of earlier shells, in a file; without one they last as long as the shell.
struct History {
    /// `None` if there is no place for it.
    path: Option<PathBuf>,
}

impl History {
    fn open(editor: &mut LineEditor) -> Self {
        let state = std::env::var_os("XDG_STATE_HOME")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
        let path = state.map(|state| state.join("thermocline/history"));
        if let Some(path) = &path
            && let Err(error) = Self::load(editor, path)
        {
            tracing::warn!("history is not kept in {}: {error}", path.display());
            return Self { path: None };
        }
        Self { path }
    }

    fn load(editor: &mut LineEditor, path: &std::path::Path) -> Result<(), ReadlineError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if path.exists() { editor.load_history(path) } else { Ok(()) }
    }

    /// Keeps a text at once, so that a killed shell forgets nothing and two do not overwrite each other.
    fn add(&self, editor: &mut LineEditor, text: &str) {
        let added = editor.add_history_entry(text);
        if let (Ok(true), Some(path)) = (added, &self.path)
            && let Err(error) = editor.append_history(path)
        {
            tracing::debug!("history: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        for (text, expected) in [
            ("\\q", Order::Quit),
            ("exit;", Order::Quit),
            ("QUIT", Order::Quit),
            ("\\d", Order::Tables),
            ("\\d lineorder ", Order::Describe("lineorder")),
            ("\\d system.queries;", Order::Describe("system.queries")),
            ("\\x", Order::Unknown),
            ("exit from x", Order::Sql),
            ("select 1;", Order::Sql),
        ] {
            assert_eq!(Order::of(text), expected, "{text}");
        }
    }
}
