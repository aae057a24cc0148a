use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use thermocline_machine::{self as machine, Clock, EventCount, Step, Wait};
use thermocline_tables::table::Budget;
use thermocline_types::{Error, Result};

/// The thread that returns memory to the system, which the allocator would keep; dropping ends it.
///
/// ```text
///  Budget: working memory given back, a quarter of the limit in sum --> Trimmer: trim
/// ```
///
/// Rows have mappings of their own, which go back with their last row. Working memory comes from the allocator, where
/// one statement that is kept behind a result of 60 MB keeps its pages resident. Trimming takes time by what was given
/// back, so it comes by that as well and not by a timer: it costs a part of what making that memory has cost, and
/// a system that is busy does not delay it.
///
/// Invariant: of working memory that was given back, no more than a quarter of the limit and what comes during
/// one trim is resident besides what [`machine::trim`] leaves.
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
