//! A progress line for long queries, on standard error if it is a terminal.
//!
//! ```text
//! 3s [=======>            ] 4/11 partitions
//! ```
//!
//! Drawn without `indicatif`, which leaves the cursor in the last column, so that the terminal's echo of `^C` wraps,
//! and the wrong line is cleared.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thermocline_database::Session;
use tokio::task::JoinHandle;

/// Queries shorter than this show nothing.
const DELAY: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(100);
const BAR_WIDTH: usize = 20;
/// Escape sequence that returns to the first column and erases the line.
const CLEAR: &str = "\r\x1b[2K";

/// Content of the terminal's last line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Nothing yet.
    Empty,
    /// A progress line.
    Drawn,
    /// Nothing, and no more is drawn.
    Stopped,
}

/// The progress of one statement, until it is stopped or dropped.
#[derive(Debug)]
pub struct ProgressLine {
    line: Arc<Mutex<Line>>,
    task: JoinHandle<()>,
}

impl ProgressLine {
    /// Follows the next query of `session`; `None` if standard error is not a terminal, or a dumb one (`TERM`).
    pub fn follow(session: &Session) -> Option<Self> {
        if !std::io::stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return None;
        }
        let started = Instant::now();
        // The previous query stays current until the next begins.
        let before = session.current().map(|query| query.id().clone());
        let session = session.clone();
        let line = Arc::new(Mutex::new(Line::Empty));
        let shared = Arc::clone(&line);
        let task = tokio::spawn(async move {
            tokio::time::sleep(DELAY).await;
            loop {
                let query = session.current().filter(|query| Some(query.id()) != before.as_ref());
                let text = text(started.elapsed(), query.map_or((0, 0), |query| query.progress()));
                if !draw(&shared, &text) {
                    return;
                }
                tokio::time::sleep(REDRAW).await;
            }
        });
        Some(Self { line, task })
    }

    /// Clears the line for good.
    pub fn stop(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if *line == Line::Drawn {
            print(CLEAR);
        }
        *line = Line::Stopped;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.task.abort();
        self.stop();
    }
}

/// Draws `text`, unless the line was stopped.
fn draw(line: &Mutex<Line>, text: &str) -> bool {
    let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
    if *line == Line::Stopped {
        return false;
    }
    print(&format!("{CLEAR}{text}"));
    *line = Line::Drawn;
    true
}

fn print(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _nobody_looks = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The line for `done` of `total` partitions; total 0 while the query is planned, or without a scan.
fn text(elapsed: Duration, (done, total): (u64, u64)) -> String {
    let seconds = elapsed.as_secs();
    if total == 0 {
        return format!("{seconds}s ...");
    }
    let done = done.min(total);
    let filled = usize::try_from(u128::from(done) * BAR_WIDTH as u128 / u128::from(total)).unwrap_or(BAR_WIDTH);
    let bar: String = "=".repeat(filled) + if filled < BAR_WIDTH { ">" } else { "" };
    format!("{seconds}s [{bar:BAR_WIDTH$}] {done}/{total} partitions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let text = |progress| text(Duration::from_secs(3), progress);
        assert_eq!(text((0, 0)), "3s ...");
        assert_eq!(text((0, 11)), "3s [>                   ] 0/11 partitions");
        assert_eq!(text((10, 11)), "3s [==================> ] 10/11 partitions");
        assert_eq!(text((12, 11)), "3s [====================] 11/11 partitions");
    }
}
