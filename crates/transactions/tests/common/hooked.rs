//! A disk that gets full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_transactions::disk::{AppendFile, DirectoryLock, Disk, ReadFile, SimulatedDisk};
use thermocline_transactions::{Error, Result};

/// A disk without room for some files, as long as `full` is set.
#[derive(Debug)]
pub struct Full {
    pub disk: SimulatedDisk,
    pub full: Arc<AtomicBool>,
    /// What a name has to contain to find no room.
    pub part: &'static str,
}

#[derive(Debug)]
struct FullFile(Box<dyn AppendFile>, Arc<AtomicBool>);

impl AppendFile for FullFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.1.load(Ordering::Relaxed) {
            return Err(Error::DiskFull("cannot write: no space is left".into()));
        }
        self.0.append(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.0.sync()
    }
}

impl Disk for Full {
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        let file = self.disk.create(name)?;
        Ok(if name.contains(self.part) { Box::new(FullFile(file, Arc::clone(&self.full))) } else { file })
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.disk.lock()
    }
}
