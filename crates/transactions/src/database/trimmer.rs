//! The thread that returns freed memory to the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use thermocline_machine::{self as machine, Clock, EventCount, Step, Wait};
use thermocline_tables::table::Budget;
use thermocline_types::{Error, Result};

/// The thread that returns freed memory to the system, which the allocator would keep; dropping it ends the thread.
///
/// ```text
///  Budget: working memory given back, a share of the limit in sum --> Trimmer: trim
/// ```
///
/// Rows have mappings of their own, which are unmapped with their last row. Working memory comes from the allocator,
/// where one small statement allocated after a result of 60 MB keeps its pages resident. Trimming takes time in
/// proportion to the freed memory, so the amount freed triggers it, and not a timer: it costs a fraction of what
/// filling that memory cost, and a busy system does not delay it.
///
/// Invariant: besides what [`machine::trim`] leaves, at most [this share](Budget::trim_bytes) of the limit and the memory freed during one
/// trim stay resident after being freed.
#[derive(Debug)]
pub(super) struct Trimmer {
    stop: Arc<AtomicBool>,
    due: Arc<EventCount>,
    thread: Option<JoinHandle<()>>,
}

impl Trimmer {
    pub fn start(budget: &Arc<Budget>) -> Result<Self> {
        let (stop, due) = (Arc::new(AtomicBool::new(false)), Arc::clone(budget.trim_due()));
        let (stopped, budget) = (Arc::clone(&stop), Arc::clone(budget));
        let step = move || {
            let wait = Wait::new(budget.trim_due(), budget.trim_due().seen());
            if stopped.load(Ordering::SeqCst) {
                return Step::Over(());
            }
            if !budget.take_trim() {
                return Step::Wait(wait);
            }
            machine::trim();
            Step::Go
        };
        let thread = std::thread::Builder::new().name("memory".into());
        let thread = thread.spawn(move || machine::run_steps(&Clock::real(), step));
        let thread = thread.map_err(|error| Error::Io(format!("cannot start the memory's thread: {error}").into()))?;
        Ok(Self { stop, due, thread: Some(thread) })
    }
}

impl Drop for Trimmer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.due.advance();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "the memory's thread does not panic");
        }
    }
}
