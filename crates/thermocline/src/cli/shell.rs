//! The interactive shell.

use std::path::PathBuf;
use std::time::Instant;

use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Editor};
use thermocline_database::{Completeness, Scanner};

use super::Failure;
use super::completion::Words;
use super::failure::notice;
use super::order::Order;
use super::run::Runner;
use super::script::{self, Ended, Origin};
use super::sql::seconds;

const PROMPT: &str = "thermocline> ";
const PROMPT_MORE: &str = "        ...> ";
const _: () = assert!(PROMPT.len() == PROMPT_MORE.len());

const HISTORY_MAX: usize = 10_000;

type LineEditor = Editor<Words, FileHistory>;

/// Reads statements and runs them until the user quits.
///
/// # Errors
/// If the terminal or standard output fails; a failed statement does not end the shell.
pub async fn run(runner: &mut Runner) -> Result<(), Failure> {
    let mut editor = editor()?;
    let history = History::open(&mut editor);
    notice(format_args!("Thermocline {}. \\? for help, \\q to quit.", env!("CARGO_PKG_VERSION")));
    loop {
        if let Some(words) = editor.helper_mut() {
            words.refresh(&runner.session);
        }
        let text = match read(&mut editor, runner.begun.take().unwrap_or_default())? {
            Input::Text(text) => text,
            Input::Cleared => continue,
            Input::End => return Ok(()),
        };
        history.add(&mut editor, &text);
        runner.columns = editor.dimensions().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
        // Ctrl-C at the prompt was meant for the line.
        runner.interrupt.reset();
        let started = Instant::now();
        let command = Order::typed(&text).map(|_| runner.variables.substituted(&text));
        let ended = match command.as_deref().and_then(Order::typed) {
            Some(order) => script::obey(runner, order, Origin::SHELL).await,
            None => script::run_typed(runner, &text).await,
        };
        match ended {
            Ok(Ended::Quit) => return Ok(()),
            Ok(Ended::Done | Ended::Late) => {}
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(Failure::Interrupted) => notice(format_args!("canceled after {}", seconds(started.elapsed()))),
            Err(failure) => {
                failure.report();
            }
        }
    }
}

/// Input of the user.
enum Input {
    /// Complete statements or a command.
    Text(String),
    /// Ctrl-C.
    Cleared,
    /// Ctrl-D.
    End,
}

/// Reads lines until they form complete statements. They go on from `begun`.
fn read(editor: &mut LineEditor, begun: String) -> Result<Input, Failure> {
    let (mut text, mut scanner) = (begun, Scanner::new(true));
    if !text.is_empty() {
        scanner.push(&text);
        scanner.push("\n");
    }
    loop {
        match editor.readline(if text.is_empty() { PROMPT } else { PROMPT_MORE }) {
            Ok(line) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&line);
                scanner.push(&line);
                scanner.push("\n");
            }
            Err(ReadlineError::Interrupted) => return Ok(Input::Cleared),
            Err(ReadlineError::Eof) => return Ok(Input::End),
            // The window was resized.
            Err(ReadlineError::Signal(_)) => continue,
            Err(error) => return Err(Failure::Failed(format!("terminal: {error}"))),
        }
        match scanner.completeness() {
            Completeness::Blank => text.clear(),
            Completeness::Open if Order::typed(&text).is_none() => {}
            Completeness::Open | Completeness::Complete => return Ok(Input::Text(text)),
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

/// History of earlier shells, in a file; without one it lasts as long as the shell.
struct History {
    /// `None` if there is no suitable place.
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

    /// Saves a text at once, so that a killed shell loses nothing and two shells do not overwrite each other.
    fn add(&self, editor: &mut LineEditor, text: &str) {
        let added = editor.add_history_entry(text);
        if let (Ok(true), Some(path)) = (added, &self.path)
            && let Err(error) = editor.append_history(path)
        {
            tracing::debug!("history: {error}");
        }
    }
}
