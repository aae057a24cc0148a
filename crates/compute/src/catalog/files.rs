//! `DB/catalog.sql`: the definitions as readable SQL.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};

/// First line of the file.
const HEADER: &str = "-- Thermocline catalog. Written by the database; edit it only while no session has it open.\n";

/// The catalog file of one database directory.
#[derive(Debug)]
pub struct CatalogFile {
    path: PathBuf,
}

impl CatalogFile {
    /// The catalog of the database in `directory`, which is made if it is not there.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(directory: &Path) -> Result<Self> {
        if directory.is_file() {
            return exec_err!("database {}: it is a file, not a directory", directory.display());
        }
        fs::create_dir_all(directory)
            .map_err(|error| exec_datafusion_err!("database {}: {error}", directory.display()))?;
        Ok(Self { path: directory.join("catalog.sql") })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its statements, as one script; empty if there are none yet.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn read(&self) -> Result<String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces all statements: written aside, synced and renamed, so that a crash leaves the old
    /// catalog or the new one.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn write(&self, statements: impl IntoIterator<Item = String>) -> Result<()> {
        let aside = self.path.with_extension("sql.tmp");
        let written = (|| {
            let mut file = fs::File::create(&aside)?;
            file.write_all(HEADER.as_bytes())?;
            for statement in statements {
                writeln!(file, "\n{statement}")?;
            }
            file.sync_all()?;
            fs::rename(&aside, &self.path)?;
            match self.path.parent() {
                Some(directory) => fs::File::open(directory)?.sync_all(),
                None => Ok(()),
            }
        })();
        written.map_err(|error: std::io::Error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> DataFusionError {
        exec_datafusion_err!("catalog {}: {error}", self.path.display())
    }
}
