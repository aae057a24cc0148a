//! Stopping running or waiting work from outside.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thermocline_types::{Error, Result};

/// Cancellation polling interval of waits that an interrupt does not wake up.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interrupt of a request, checked by its client and by the thread that runs it.
///
/// ```text
///             start                    (answered)
///  Waiting ---------> Running ---------------------->
///     | stop             | stop: seen by the next check, or too late
///     v                  v
///  Withdrawn          Stopping
///  (never runs)       (rolled back, or committed before it was seen)
/// ```
///
/// Requests that count as one statement share an interrupt: each is `Waiting` again after the previous one. A deadline
/// is a stop that comes by itself. Replay has no interrupts: stopped transactions are in no log.
#[derive(Debug)]
pub struct Interrupt {
    state: AtomicU8,
    deadline: Option<(Instant, Duration)>,
    /// Time for which its request has held partitions, in nanoseconds.
    held_ns: AtomicU64,
}

/// Reason why a request is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The user cancelled it.
    User,
    /// It took too long.
    Timeout,
}

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;
const BY_TIMEOUT: u8 = 4;

impl Interrupt {
    /// Interrupt of a request with this time limit, including waiting; `None` for no limit.
    pub fn new(timeout: Option<Duration>) -> Self {
        // A timeout too long for the clock never comes.
        let deadline = timeout.and_then(|timeout| Some((Instant::now().checked_add(timeout)?, timeout)));
        Self { state: AtomicU8::new(WAITING), deadline, held_ns: AtomicU64::new(0) }
    }

    /// Its deadline; `None` without one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.map(|(deadline, _)| deadline)
    }

    /// Time for which its request has held partitions so far, so that nothing else ran there.
    pub fn held(&self) -> Duration {
        Duration::from_nanos(self.held_ns.load(Ordering::Relaxed))
    }

    /// Adds to the time for which it has held partitions.
    pub fn add_held(&self, held: Duration) {
        self.held_ns.fetch_add(u64::try_from(held.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Marks the request as running, perhaps again over more partitions; an error if it was stopped.
    pub fn start(&self) -> Result<()> {
        self.state.fetch_or(RUNNING, Ordering::SeqCst);
        self.check()
    }

    /// Reuses the interrupt for the next work, which waits for its turn.
    pub fn wait_again(&self) {
        self.state.fetch_and(!RUNNING, Ordering::SeqCst);
    }

    /// An error once the request is to stop.
    pub fn check(&self) -> Result<()> {
        let state = self.state.load(Ordering::SeqCst);
        if state & STOPPED == 0 {
            if self.deadline().is_none_or(|deadline| Instant::now() < deadline) {
                return Ok(());
            }
            self.stop(Cause::Timeout);
        }
        Err(self.error())
    }

    /// Stops the request. Returns true if it will never run; otherwise it stops at its next check, unless it is over by
    /// then. The first cause counts.
    pub fn stop(&self, cause: Cause) -> bool {
        let bits = if cause == Cause::Timeout { STOPPED | BY_TIMEOUT } else { STOPPED };
        let stopped = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| (state & STOPPED == 0).then_some(state | bits));
        let before = stopped.unwrap_or_else(|state| state);
        before & RUNNING == 0
    }

    /// Stops the request if its deadline has passed; returns whether it was stopped, now or earlier, before it ran.
    pub fn withdraws_now(&self) -> bool {
        if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.stop(Cause::Timeout);
        }
        self.is_withdrawn()
    }

    /// Whether it was stopped before it ran.
    pub fn is_withdrawn(&self) -> bool {
        self.state.load(Ordering::SeqCst) & (STOPPED | RUNNING) == STOPPED
    }

    /// Error for its client.
    pub fn error(&self) -> Error {
        Error::Cancelled(match self.deadline {
            Some((_, timeout)) if self.state.load(Ordering::SeqCst) & BY_TIMEOUT != 0 => {
                format!("the statement took longer than its timeout of {timeout:?}").into()
            }
            _ => "at the user's request".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_withdrawn_or_stopped() {
        let waiting = Interrupt::new(None);
        assert!(waiting.check().is_ok() && waiting.stop(Cause::User) && waiting.is_withdrawn());
        assert_eq!(waiting.start().unwrap_err().to_string(), "cancelled: at the user's request");

        let running = Interrupt::new(None);
        running.start().unwrap();
        assert!(!running.stop(Cause::User) && !running.is_withdrawn());
        assert_eq!(running.check().unwrap_err().sqlstate(), "57014");

        let several = Interrupt::new(None);
        several.start().unwrap();
        several.wait_again();
        assert!(several.stop(Cause::User) && several.is_withdrawn() && several.start().is_err());

        let late = Interrupt::new(Some(Duration::ZERO));
        assert!(late.start().unwrap_err().to_string().contains("timeout of 0"));
        assert!(Interrupt::new(Some(Duration::MAX)).check().is_ok());
    }

    #[test]
    fn either_it_runs_or_it_is_withdrawn() {
        for _ in 0..1000 {
            let interrupt = Interrupt::new(None);
            std::thread::scope(|scope| {
                let stopped = scope.spawn(|| interrupt.stop(Cause::User));
                let started = interrupt.start().is_ok();
                // Never both: otherwise it would run although its client was told that it would not.
                assert!(!(stopped.join().unwrap() && started));
            });
        }
    }
}
