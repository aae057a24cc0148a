//! Ctrl-C while no line is edited, SIGTERM, and SIGXFSZ, which would end a process whose files are too large.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::Failure;
use super::output;
use super::termination;

/// Longest wait for a write of output after Ctrl-C.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);
/// Time for a statement to clean up after SIGTERM.
const TERMINATION_WAIT: Duration = Duration::from_secs(1);

/// Receives Ctrl-C. While a line is edited the terminal sends a character instead of a signal.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// Number of times that Ctrl-C was pressed; only grows.
    presses: watch::Receiver<u64>,
}

impl Interrupt {
    /// Starts to listen. From then on, Ctrl-C does not end the process by itself. With `insistent`, a second one does,
    /// and so does the first one while output waits for its reader, because a blocked write does not notice it.
    ///
    /// SIGTERM stops the statement like Ctrl-C, so that no staged file remains, and then ends the process, unless that
    /// [ends by itself](termination::end_by_itself).
    ///
    /// # Errors
    /// If a signal handler cannot be installed.
    pub fn listen(insistent: bool) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Failed(format!("no signals: {error}")));
        let (mut signals, mut termination) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let (sender, presses) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    pressed = signals.recv() => if pressed.is_none() { break },
                    _ = termination.recv() => {
                        termination::note();
                        sender.send_modify(|presses| *presses += 1);
                        tokio::time::sleep(TERMINATION_WAIT).await;
                        if !termination::ends_by_itself() {
                            std::process::exit(termination::TERMINATED.into());
                        }
                        continue;
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

    /// Forgets earlier presses.
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
            // The listener is gone, so there will be no press.
            std::future::pending::<()>().await;
        }
    }

    /// Runs `work`, unless Ctrl-C is pressed first.
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

/// `SIGXFSZ`, which has the same number on every supported system.
const FILE_SIZE_LIMIT: i32 = 25;

/// Makes a write beyond the file size limit (`ulimit -f`) a reported error instead of the end of the process.
///
/// # Errors
/// If the signal handler cannot be installed.
pub fn survive_file_limits() -> Result<(), Failure> {
    // Once there is a handler, the signal never ends the process.
    signal(SignalKind::from_raw(FILE_SIZE_LIMIT))
        .map(drop)
        .map_err(|error| Failure::Failed(format!("no signals: {error}")))
}
