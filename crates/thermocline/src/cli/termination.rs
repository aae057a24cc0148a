//! The end of the process by SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process whose work SIGTERM has stopped.
pub const TERMINATED: u8 = 143;

/// Whether SIGTERM came, and whether the process ends by itself then.
static HAS_COME: AtomicBool = AtomicBool::new(false);
static ENDS_BY_ITSELF: AtomicBool = AtomicBool::new(false);

/// Notes that SIGTERM came.
pub fn note() {
    HAS_COME.store(true, Ordering::Release);
}

/// Whether SIGTERM came.
pub fn has_come() -> bool {
    HAS_COME.load(Ordering::Acquire)
}

/// Lets the process end by itself, however long that takes: SIGTERM has stopped nothing, and a database is being closed.
pub fn end_by_itself() {
    ENDS_BY_ITSELF.store(true, Ordering::Release);
}

/// Whether the process [ends by itself](end_by_itself).
pub fn ends_by_itself() -> bool {
    ENDS_BY_ITSELF.load(Ordering::Acquire)
}
