//! Files below one directory, as the log and snapshots need them: written once from front to back,
//! synced, then only read.
//!
//! Guarantees about a file after a crash, and nothing beyond them:
//! - Bytes that were appended before a successful [`AppendFile::sync`] are there.
//! - Of bytes appended after it, any sectors of [`SECTOR`] bytes may be there; the others are zeros
//!   or beyond the end of the file. A sector that existed before keeps its older bytes.
//! - Room that was made behind them ([`AppendFile::make_room`]) reads as zeros, or is beyond the end of
//!   the file.
//! - Creating, renaming and removing happen in order; those before a successful
//!   [`Disk::sync_directory`] have happened, of the later ones the first few.
//! - After a failed sync the bytes may be readable, until the machine stops, without being on the
//!   disk, and another sync of the file may succeed without changing that.

mod device;
mod empty;
mod real;
mod simulated;

use std::fmt::Debug;
use std::path::Path;

use crc32c::{crc32c, crc32c_append};
use thermocline_types::Result;

pub use device::Device;
pub use empty::EmptyDisk;
pub use real::RealDisk;
pub use simulated::{Crash, FaultCounts, Faults, SimulatedDisk};

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: u64 = 512;

/// One directory of files.
pub trait Disk: Debug + Send + Sync {
    /// Its path, for messages; `None` if it has none.
    fn location(&self) -> Option<&Path> {
        None
    }

    /// The names of all files, sorted.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes an empty file; an error if there is one of this name.
    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>>;

    /// Opens a file for reading.
    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>>;

    /// [`Disk::create`] for a file of whole pages of 4 KiB, which memory need not keep a copy of.
    fn create_direct(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        self.create(name)
    }

    /// [`Disk::open`] for such a file, of which whole pages are read.
    fn open_direct(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        self.open(name)
    }

    /// Whether reads of such a file are [asynchronous](ReadFile::is_asynchronous).
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Threads that may read such files side by side, each waiting for its read; 1 where reads come one after the
    /// other, so that they come in the same order each time.
    fn reads_at_once(&self) -> usize {
        1
    }

    /// Measures the device that its files are on; `None` if it has none, or it cannot be seen behind a cache.
    fn measure(&self) -> Result<Option<Device>> {
        Ok(None)
    }

    /// Gives a file another name; a file that has that name is replaced in one step.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes creations, renames and removals so far outlast a crash.
    fn sync_directory(&self) -> Result<()>;

    /// Locks the directory for this process until the lock is dropped; an error if another holder, in any process, has
    /// it.
    fn lock(&self) -> Result<Box<dyn DirectoryLock>>;

    /// [`Disk::lock`] for a process that changes nothing. There is nothing to lock where the whole file system is
    /// read-only.
    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.lock()
    }
}

/// A file being written.
pub trait AppendFile: Debug + Send {
    /// Appends bytes. After an error an unknown part of them is in the file.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Fills the file with zeros up to this many bytes behind the appended ones, if it has fewer. Later appends
    /// overwrite the zeros, so a sync does not have to make a new file length durable, which would take another write
    /// and wait. Zeros that nothing overwrites remain.
    fn make_room(&mut self, bytes: u64) -> Result<()>;

    /// Makes appended bytes so far outlast a crash. After an error the file is lost: see the contract of the
    /// [module](self).
    fn sync(&mut self) -> Result<()>;
}

/// A file being read.
pub trait ReadFile: Debug + Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> Result<u64>;

    /// Fills the buffer from this offset on; returns the number of bytes read, which is less than the buffer's length
    /// only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Whether [`start_read`](Self::start_read) returns at once, and calls what follows in another thread.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Reads this many bytes as [`read_at`](Self::read_at) does, and gives them to `done`, which must not wait.
    fn start_read(&self, offset: u64, length: usize, done: WhenRead) {
        read_then(self, offset, length, done);
    }
}

/// What follows a read. It gets fewer bytes than were wanted only at the end of the file.
pub type WhenRead = Box<dyn FnOnce(Result<&[u8]>) + Send>;

/// Reads, waits, and calls what follows.
fn read_then(file: &(impl ReadFile + ?Sized), offset: u64, length: usize, done: WhenRead) {
    let mut bytes = vec![0; length];
    done(file.read_at(offset, &mut bytes).map(|read| bytes.get(..read).unwrap_or_default()));
}

/// Right to use a directory, given back on drop.
pub trait DirectoryLock: Debug + Send + Sync {}

/// The whole content of a file; an error if it is longer than `limit`.
pub fn read_file(disk: &dyn Disk, name: &str, limit: u64) -> Result<Vec<u8>> {
    let file = disk.open(name)?;
    let length = file.length()?;
    if length > limit {
        return Err(thermocline_types::Error::corrupt(format_args!(
            "{name} has {length} bytes, more than the {limit} expected"
        )));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Gives the first bytes of a file to `each`, a piece at a time, and returns their CRC-32C; `None` if the file has fewer.
pub fn read_pieces(file: &dyn ReadFile, bytes: u64, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Option<u32>> {
    let mut buffer = vec![0; usize::try_from(bytes.min(PIECE_BYTES)).unwrap_or(usize::MAX)];
    let (mut offset, mut checksum) = (0, crc32c(&[]));
    while offset < bytes {
        let length = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..length).unwrap_or_default();
        if file.read_at(offset, piece)? < length {
            return Ok(None);
        }
        checksum = crc32c_append(checksum, piece);
        each(piece)?;
        offset += length as u64;
    }
    Ok(Some(checksum))
}

/// Writes a file so that a crash leaves either all of it or none of it under its name: under a temporary name first,
/// synced, then renamed.
pub fn write_file_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{name}{TEMPORARY}");
    if disk.list()?.contains(&temporary) {
        disk.remove(&temporary)?;
    }
    let mut file = disk.create(&temporary)?;
    file.append(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, name)?;
    disk.sync_directory()
}

/// File name suffix of an unfinished file.
pub const TEMPORARY: &str = ".tmp";
