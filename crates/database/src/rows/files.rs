//! The files of a database directory, and its lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use thermocline_catalog::SqlFile;
use thermocline_transactions::disk::{DirectoryLock, Disk, RealDisk};

use crate::bridge::external;

/// Directory of row tables within a database directory.
pub const ROWS: &str = "rows";
/// The lock file of the process that has the database open; it is never removed.
pub const LOCK: &str = "lock";

/// A database directory locked by this process.
///
/// ```text
/// DB/lock          held while the database is open; says which process has it
/// DB/catalog.sql   external tables, views and their indexes
/// DB/settings.sql  settings that ALTER DATABASE SET has changed
/// DB/rows/         log and snapshots of row tables; there is none before the first row table
/// DB/rows.id       says of which database DB/rows is, so that it is noticed if that is gone
/// ```
#[derive(Debug)]
pub struct DatabaseFiles {
    path: PathBuf,
    _lock: Box<dyn DirectoryLock>,
}

impl DatabaseFiles {
    /// Locks a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created or written, or another process has it open, which the error names.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            return exec_err!("database {}: it is a file, not a directory", path.display());
        }
        std::fs::create_dir_all(path).map_err(|error| exec_datafusion_err!("database {}: {error}", path.display()))?;
        let lock = RealDisk::open(path).and_then(|disk| disk.lock()).map_err(external)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Locks an existing directory, of which nothing will be changed.
    ///
    /// # Errors
    /// If it does not exist, or another process has it open, which the error names.
    pub fn open_to_read(path: &Path) -> Result<Self> {
        let lock = RealDisk::open(path).and_then(|disk| disk.lock_to_read()).map_err(external)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The catalog: external tables, views and their indexes.
    ///
    /// # Errors
    /// If the directory was removed and cannot be created again.
    pub fn catalog(&self) -> Result<SqlFile> {
        SqlFile::catalog(&self.path)
    }

    /// The directory of row tables.
    pub fn rows(&self) -> PathBuf {
        self.path.join(ROWS)
    }

    /// Whether the directory of row tables exists.
    pub fn has_rows(&self) -> bool {
        self.rows().exists()
    }

    /// The directory of row tables, opened for the row engine and created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn disk(&self) -> thermocline_transactions::Result<Arc<dyn Disk>> {
        Ok(Arc::new(RealDisk::open_or_create(self.rows())?))
    }

    /// Removes the contents of the directory, for a database that was never complete.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false if entry.file_name() == LOCK => {}
                false => std::fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}
