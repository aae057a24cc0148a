use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use thermocline_transactions::Error;
use thermocline_transactions::disk::{DirectoryLock, Disk, RealDisk, read_file, write_file_whole};
use thermocline_transactions::ids::DatabaseId;

/// Where in a database's directory row tables are.
pub const ROWS: &str = "rows";
const ROWS_ID: &str = "rows.id";

/// A database directory that this process has to itself.
///
/// ```text
/// DB/lock          held while the database is open; says which process has it
/// DB/catalog.sql   external tables, views and their indexes
/// DB/rows/         log and snapshots of row tables; there is none before the first row table
/// DB/rows.id       which they are; there from the first row table on, so that a directory of row tables that
///                  somebody has deleted is missed
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
        let locked = RealDisk::open(path).and_then(|disk| disk.lock());
        let lock = locked.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of row tables.
    pub fn rows(&self) -> PathBuf {
        self.path.join(ROWS)
    }

    /// Whether there is one.
    pub fn has_rows(&self) -> bool {
        self.rows().exists()
    }

    /// The directory of row tables as the row engine uses it, made if there never was one.
    ///
    /// # Errors
    /// If it cannot be made, or if there was one and it is gone.
    pub fn disk(&self) -> thermocline_transactions::Result<Arc<dyn Disk>> {
        self.check_rows()?;
        Ok(Arc::new(RealDisk::open_or_create(self.rows())?))
    }

    /// # Errors
    /// If there were row tables and their directory is gone.
    pub fn check_rows(&self) -> thermocline_transactions::Result<()> {
        if self.has_rows() || !self.path.join(ROWS_ID).exists() {
            return Ok(());
        }
        Err(Error::cannot_open(format_args!(
            "cannot open {}: there is no {ROWS} in it, where its row tables were; without {ROWS_ID} it is opened \
             without them",
            self.path.display()
        )))
    }

    /// Notes whose row tables there are from now on.
    ///
    /// # Errors
    /// If there were other ones, or if it cannot be written.
    pub fn keep_rows(&self, database: DatabaseId) -> thermocline_transactions::Result<()> {
        let (disk, text) = (RealDisk::open(&self.path)?, format!("{database}\n"));
        if !self.path.join(ROWS_ID).exists() {
            return write_file_whole(&disk, ROWS_ID, text.as_bytes());
        }
        let known = read_file(&disk, ROWS_ID, text.len() as u64)?;
        if known == text.as_bytes() {
            return Ok(());
        }
        Err(Error::cannot_open(format_args!(
            "cannot open {}: {ROWS} has the row tables of database {database}, and {ROWS_ID} says {}",
            self.path.display(),
            String::from_utf8_lossy(&known).trim_end().escape_debug()
        )))
    }
}
