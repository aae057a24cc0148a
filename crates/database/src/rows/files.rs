use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use thermocline_catalog::SqlFile;
use thermocline_transactions::disk::{DirectoryLock, Disk, RealDisk};

use crate::bridge::external;

/// Where in a database's directory row tables are.
pub const ROWS: &str = "rows";
/// The file that a process locks which has the database; it stays.
pub const LOCK: &str = "lock";

/// A database directory that this process has to itself.
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
    /// Takes a directory, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made or written, or if another process has it; the error names it.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            return exec_err!("database {}: it is a file, not a directory", path.display());
        }
        std::fs::create_dir_all(path).map_err(|error| exec_datafusion_err!("database {}: {error}", path.display()))?;
        Self::open_existing(path)
    }

    /// Takes a directory that is there.
    ///
    /// # Errors
    /// As [`DatabaseFiles::open`], and if it is not there.
    pub fn open_existing(path: &Path) -> Result<Self> {
        let lock = RealDisk::open(path).and_then(|disk| disk.lock()).map_err(external)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its external tables, views and their indexes.
    ///
    /// # Errors
    /// If the directory is gone and cannot be made again.
    pub fn catalog(&self) -> Result<SqlFile> {
        SqlFile::catalog(&self.path)
    }

    /// The directory of row tables.
    pub fn rows(&self) -> PathBuf {
        self.path.join(ROWS)
    }

    /// Whether there is one.
    pub fn has_rows(&self) -> bool {
        self.rows().exists()
    }

    /// The directory of row tables as the row engine uses it, made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn disk(&self) -> thermocline_transactions::Result<Arc<dyn Disk>> {
        Ok(Arc::new(RealDisk::open_or_create(self.rows())?))
    }

    /// Removes what a database has in its directory, of one that was never whole.
    ///
    /// # Errors
    /// If something cannot be removed.
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
