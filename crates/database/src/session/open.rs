use std::path::PathBuf;

use thermocline_compute::{SessionOptions, Settings};

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The database directory; `None` keeps everything in memory.
    pub directory: Option<PathBuf>,
    /// Settings to begin with.
    pub settings: Settings,
    /// How many bytes are allocated in the process; queries that take more than they may are ended by that, see
    /// [`HeapGauges`](thermocline_compute::HeapGauges). `None` if nobody counts.
    pub allocated: Option<fn() -> usize>,
}

impl OpenOptions {
    pub(super) fn analytic(self) -> SessionOptions {
        SessionOptions { directory: self.directory, settings: self.settings, ..SessionOptions::default() }
    }
}
