//! The disk of a database in memory: a directory without files.

use thermocline_types::{Class, Error, Result};

use super::{AppendFile, DirectoryLock, Disk, ReadFile};

/// An empty directory that accepts no files, for a database that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyDisk;

/// Lock of a directory that no other process can use.
#[derive(Debug)]
struct Unlocked;

impl DirectoryLock for Unlocked {}

fn no_files(name: &str) -> Error {
    Class::Unsupported.error(format_args!("{name}: a database in memory has no files"))
}

impl Disk for EmptyDisk {
    fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        Err(no_files(name))
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        Err(no_files(name))
    }

    fn rename(&self, from: &str, _: &str) -> Result<()> {
        Err(no_files(from))
    }

    fn remove(&self, name: &str) -> Result<()> {
        Err(no_files(name))
    }

    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(Unlocked))
    }
}
