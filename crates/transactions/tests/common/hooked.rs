//! A disk that tests can make fail, wait or panic.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_transactions::disk::{AppendFile, Device, DirectoryLock, Disk, ReadFile, SimulatedDisk};
use thermocline_transactions::{Error, Result};

/// An operation on a file, or on the directory, which has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Append,
    MakeRoom,
    Sync,
    Remove,
    Read,
    /// Of the device.
    Measure,
}

type Hook = dyn Fn(Operation, &str) -> Result<()> + Send + Sync;

/// A disk that calls a hook before it writes, and before it reads a part of a file.
pub struct Hooked {
    disk: SimulatedDisk,
    hook: Arc<Hook>,
}

impl Hooked {
    pub fn new(disk: &SimulatedDisk, hook: impl Fn(Operation, &str) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { disk: disk.clone(), hook: Arc::new(hook) }
    }

    /// A disk without room for files whose names contain `part`, as long as `full` is set.
    pub fn full(disk: &SimulatedDisk, full: &Arc<AtomicBool>, part: &'static str) -> Self {
        let full = Arc::clone(full);
        Self::new(disk, move |operation, name| {
            if operation == Operation::Append && name.contains(part) && full.load(Ordering::Relaxed) {
                return Err(Error::DiskFull(format!("cannot write {name}: no space is left").into()));
            }
            Ok(())
        })
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooked").field(&self.disk).finish()
    }
}

struct HookedFile<F: ?Sized> {
    file: Box<F>,
    name: String,
    hook: Arc<Hook>,
}

impl<F: ?Sized + fmt::Debug> fmt::Debug for HookedFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedFile").field(&self.file).finish()
    }
}

impl AppendFile for HookedFile<dyn AppendFile> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        (self.hook)(Operation::Append, &self.name)?;
        self.file.append(bytes)
    }

    fn make_room(&mut self, bytes: u64) -> Result<()> {
        (self.hook)(Operation::MakeRoom, &self.name)?;
        self.file.make_room(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        (self.hook)(Operation::Sync, &self.name)?;
        self.file.sync()
    }
}

impl ReadFile for HookedFile<dyn ReadFile> {
    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        (self.hook)(Operation::Read, &self.name)?;
        self.file.read_at(offset, buffer)
    }
}

impl Disk for Hooked {
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        (self.hook)(Operation::Create, name)?;
        let file = self.disk.create(name)?;
        Ok(Box::new(HookedFile { file, name: name.to_owned(), hook: Arc::clone(&self.hook) }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        let file = self.disk.open(name)?;
        Ok(Box::new(HookedFile { file, name: name.to_owned(), hook: Arc::clone(&self.hook) }))
    }

    fn measure(&self) -> Result<Option<Device>> {
        (self.hook)(Operation::Measure, "")?;
        self.disk.measure()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        (self.hook)(Operation::Remove, name)?;
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        (self.hook)(Operation::Sync, "")?;
        self.disk.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.disk.lock()
    }
}
