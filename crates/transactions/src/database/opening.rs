//! Opening of a database in two parts: a quick look at its files, and recovery.

use std::fmt;
use std::sync::Arc;

use thermocline_durability::disk::{Device, DirectoryLock, Disk};
use thermocline_durability::recovery::{Plan, Progress};
use thermocline_machine as machine;
use thermocline_machine::interrupt::Interrupt;
use thermocline_procedures::Registration;
use thermocline_types::{Class, Result};

use super::row_engine::RowEngine;
use super::settings::Settings;

/// A database about to be opened: its directory is locked and its files are known, but rows and log have not been read.
///
/// ```text
///  new: lock, look at the files ----> finish: read the snapshot, replay the log ----> RowEngine
///       milliseconds; refuses                 as long as they are; can be stopped
/// ```
///
/// A program can do other work while the rows are read.
pub struct Opening {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: Settings,
    pub(super) lock: Box<dyn DirectoryLock>,
    pub(super) plan: Plan,
    /// What [`Opening::finish`] has measured of the disk, to be kept if the database is not read-only.
    pub(super) measured: Option<Device>,
    /// Procedures taken out of the settings.
    pub(super) procedures: Arc<Vec<Arc<Registration>>>,
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Opening {
    /// Locks the directory and looks at its files.
    ///
    /// # Errors
    /// Errors of [`RowEngine::open`] that show without reading all rows.
    pub fn new(disk: Arc<dyn Disk>, mut settings: Settings) -> Result<Self> {
        if settings.partitions == 0 {
            return Err(Class::InvalidParameter.error("a database has at least one partition"));
        }
        machine::limit_memory(settings.memory_bytes_max);
        let lock = disk.lock()?;
        let plan = Plan::make(&*disk)?;
        plan.check()?;
        let procedures = std::mem::take(&mut settings.procedures).into_iter().map(Arc::new).collect();
        Ok(Self { disk, settings, lock, plan, procedures: Arc::new(procedures), measured: None })
    }

    /// Executor partitions that the database has, or will have if it is new or will be repartitioned.
    pub fn partitions(&self) -> u16 {
        if self.is_repartitioned() {
            return self.settings.partitions;
        }
        self.plan.identity().map_or(self.settings.partitions, |identity| identity.partitions)
    }

    /// Approximate bytes of files to be read.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        self.plan.bytes(&*self.disk)
    }

    /// Lets `interrupt` stop the opening: then [`Opening::finish`] fails with SQLSTATE 57014 and changes nothing.
    #[must_use]
    pub fn with_interrupt(self, interrupt: &Arc<Interrupt>) -> Self {
        Self { plan: self.plan.with_interrupt(interrupt), ..self }
    }

    /// Opens the database and reports progress. Measures the disk first if nobody has, which takes a fraction of a
    /// second; [`Opening::new`] does not wait for that.
    ///
    /// # Errors
    /// As [`RowEngine::open`].
    pub fn finish(mut self, progress: &mut dyn FnMut(&Progress)) -> Result<RowEngine> {
        self.measured = self.settings.adapt_to(&*self.disk, self.plan.wrong().is_none());
        RowEngine::opened(self.repartitioned(progress)?, progress)
    }
}
