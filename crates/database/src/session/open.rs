use std::path::PathBuf;

use thermocline_compute::{SessionOptions, Settings};

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The database directory; `None` keeps everything in memory.
    pub directory: Option<PathBuf>,
    /// Settings to begin with.
    pub settings: Settings,
}

impl OpenOptions {
    pub(super) fn analytic(self) -> SessionOptions {
        SessionOptions { directory: self.directory, settings: self.settings, ..SessionOptions::default() }
    }
}
