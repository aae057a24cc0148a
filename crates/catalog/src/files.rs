//! Files of readable SQL in a database's directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};

/// First line of the catalog.
const CATALOG_HEADER: &str =
    "-- Thermocline catalog. Written by the database; edit it only while no session has it open.\n";

/// Name of the catalog: the definitions of external tables, views and indexes.
const CATALOG: &str = "catalog.sql";

/// A file of statements in one database directory, or in a backup of one.
#[derive(Debug)]
pub struct SqlFile {
    path: PathBuf,
    header: &'static str,
}

impl SqlFile {
    /// The catalog of the database in `directory`, which is made if it is not there.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn catalog(directory: &Path) -> Result<Self> {
        Self::open(directory, CATALOG, CATALOG_HEADER)
    }

    /// The file of this name in `directory`, which is made if it is not there; the file itself is not. `header` is its
    /// first line, a comment.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(directory: &Path, name: &str, header: &'static str) -> Result<Self> {
        if directory.is_file() {
            return exec_err!("database {}: it is a file, not a directory", directory.display());
        }
        fs::create_dir_all(directory)
            .map_err(|error| exec_datafusion_err!("database {}: {error}", directory.display()))?;
        Ok(Self { path: directory.join(name), header })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is one.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Its statements, as one script; empty if there are none yet.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn read(&self) -> Result<String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces all statements: written aside, synced and renamed, so that a crash leaves the old
    /// file or the new one.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn write(&self, statements: impl IntoIterator<Item = String>) -> Result<()> {
        self.replace(|file| {
            file.write_all(self.header.as_bytes())?;
            statements.into_iter().try_for_each(|statement| writeln!(file, "\n{statement}"))
        })
    }

    /// Writes the same into another directory; nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or the other directory cannot be written.
    pub fn copy_to(&self, directory: &Path) -> Result<()> {
        if !self.exists() {
            return Ok(());
        }
        let text = self.read()?;
        let name = self.path.file_name().unwrap_or_default();
        Self { path: directory.join(name), header: self.header }.replace(|file| file.write_all(text.as_bytes()))
    }

    fn replace(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        replace_file(&self.path, write).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> DataFusionError {
        // Its kind is what a caller goes by: a full disk is no defect.
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display())).into()
    }
}

/// Replaces the file at `path` by what `write` writes: aside, in a file of the same name with `.tmp` behind it, synced and
/// renamed, so that a crash leaves the old file or the new one.
///
/// # Errors
/// If the directory cannot be written, or those of `write`; then the old file stays, and nothing beside it.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".tmp");
    let renamed = (|| {
        let mut file = File::create(&aside)?;
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    })();
    if renamed.is_err() {
        // What made writing fail may keep it from going as well; the next write begins it anew.
        let _ = fs::remove_file(&aside);
    }
    renamed?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = SqlFile::catalog(directory.path()).unwrap();
        file.write(["SELECT 1;".to_owned()]).unwrap();
        let before = file.read().unwrap();
        let failed = replace_file(file.path(), |aside| {
            aside.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.read().unwrap(), before);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
