//! Ctrl-C, for as long as no line is edited; SIGTERM; and the signal that ends processes whose files are too large.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::Failure;
use super::output;

/// Longest time for output that is being written to end after Ctrl-C.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);
/// Time that a statement has to clean up after SIGTERM.
const TERMINATION_WAIT: Duration = Duration::from_secs(1);
/// Exit code of a process that SIGTERM ended.
const TERMINATED: i32 = 143;

/// Hears of Ctrl-C. While a line is edited the terminal sends a character instead of a signal.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// Number of times that Ctrl-C was pressed; only grows.
    presses: watch::Receiver<u64>,
}

impl Interrupt {
    /// Starts to listen. From then on, Ctrl-C does not end the process by itself; with
    /// `insistent`, a second one does, and so does the first one while output waits for its reader:
    /// whoever writes cannot hear of it.
    ///
    /// SIGTERM stops the statement as Ctrl-C does, so that no staged file stays behind, and then ends the
    /// process.
    ///
    /// # Errors
    /// If a signal cannot be listened to.
    pub fn listen(insistent: bool) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Failed(format!("no signals: {error}")));
        let (mut signals, mut termination) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let (sender, presses) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    pressed = signals.recv() => if pressed.is_none() { break },
                    _ = termination.recv() => {
                        sender.send_modify(|presses| *presses += 1);
                        tokio::time::sleep(TERMINATION_WAIT).await;
                        std::process::exit(TERMINATED);
                    }
                }
                sender.send_modify(|presses| *presses += 1);
                if !insistent {
                    continue;
                }
                if *sender.borrow() > 1 {
                    std::process::exit(130);
                }
                tokio::spawn(async {
                    tokio::time::sleep(OUTPUT_WAIT).await;
                    if output::blocked_for() >= OUTPUT_WAIT {
                        std::process::exit(130);
                    }
                });
            }
        });
        Ok(Self { presses })
    }

    /// Forgets what was pressed before.
    pub fn reset(&mut self) {
        self.presses.mark_unchanged();
    }

    /// Whether Ctrl-C was pressed since the last reset.
    pub fn pressed(&self) -> bool {
        self.presses.has_changed().unwrap_or(false)
    }

    /// Waits for Ctrl-C; returns at once if it was pressed since the last reset.
    pub async fn wait(&mut self) {
        if self.presses.changed().await.is_err() {
            // Nobody listens any more, so nobody will press.
            std::future::pending::<()>().await;
        }
    }

    /// `work`, unless Ctrl-C is pressed first.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            () = self.wait() => Err(Failure::Interrupted),
        }
    }
}

/// `SIGXFSZ`: the same number on every system that this runs on.
const FILE_SIZE_LIMIT: i32 = 25;

/// From now on a write beyond the limit on files' sizes (`ulimit -f`) is an error, which can be reported,
/// rather than the end of the process.
///
/// # Errors
/// If the signal cannot be listened to.
pub fn survive_file_limits() -> Result<(), Failure> {
    // Whoever listens once is never ended by the signal again.
    signal(SignalKind::from_raw(FILE_SIZE_LIMIT))
        .map(drop)
        .map_err(|error| Failure::Failed(format!("no signals: {error}")))
}
