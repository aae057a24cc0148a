//! Files that are written and read without the system's page cache, so that memory for rows is not taken twice, and a
//! memory limit is one.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_types::Result;

use super::aligned::Aligned;
use super::ring::{Read, Ring};
use super::{RealFile, failed};
use crate::disk::{AppendFile, ReadFile, WhenRead, read_then};

thread_local! {
    /// Aligned memory through which bytes go.
    static BOUNCE: RefCell<Aligned> = RefCell::default();
}

/// Memory of a thread that is kept between two transfers.
const KEPT_BYTES: usize = 256 << 10;
/// Bytes of a transfer: more, as of a block with a long row, go one after the other.
const TRANSFER_BYTES: usize = 1 << 20;

/// A file of whole pages that is written. Appends must be of whole pages, too.
#[derive(Debug)]
pub(super) struct DirectAppend {
    file: RealFile,
}

impl DirectAppend {
    /// Creates a file. Where the file system does not support it, the page cache is used.
    pub fn create(path: PathBuf) -> Result<Self> {
        let mut created = open_direct(OpenOptions::new().write(true).create_new(true), &path);
        if is_unsupported(&created) {
            // It may have been created nevertheless.
            created = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        }
        let file = created.map_err(|error| failed("create", &path, &error))?;
        Ok(Self { file: RealFile::new(file, path) })
    }
}

/// A file of which whole pages are read.
#[derive(Debug)]
pub(super) struct DirectRead {
    file: Arc<RealFile>,
    /// Where several reads go on at once; `None` where a thread waits for each.
    ring: Option<Arc<Ring>>,
}

impl DirectRead {
    /// Opens a file. Where the file system does not support it, the page cache is used.
    pub fn open(path: PathBuf, ring: Option<Arc<Ring>>) -> Result<Self> {
        let mut opened = open_direct(OpenOptions::new().read(true), &path);
        if is_unsupported(&opened) {
            opened = File::open(&path);
        }
        let file = opened.map_err(|error| failed("open", &path, &error))?;
        Ok(Self { file: Arc::new(RealFile::new(file, path)), ring })
    }
}

/// Whether a file is read without the page cache.
pub(super) fn is_direct(path: &Path) -> bool {
    open_direct(OpenOptions::new().read(true), path).is_ok()
}

fn is_unsupported(opened: &io::Result<File>) -> bool {
    matches!(opened, Err(error) if error.kind() == ErrorKind::InvalidInput)
}

/// Opens a file with `O_DIRECT`; `InvalidInput` where the file system does not support it.
fn open_direct(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(libc::O_DIRECT).open(path)
}

/// Calls `transfer` with aligned memory of this many bytes.
fn with_aligned<T>(bytes: usize, transfer: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    BOUNCE.with_borrow_mut(|memory| {
        memory.set_length(bytes);
        let done = transfer(memory.as_mut_slice());
        if memory.memory_bytes() > KEPT_BYTES {
            *memory = Aligned::default();
        }
        done
    })
}

impl AppendFile for DirectAppend {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        bytes.chunks(TRANSFER_BYTES).try_for_each(|part| {
            with_aligned(part.len(), |aligned| {
                aligned.copy_from_slice(part);
                self.file.append(aligned)
            })
        })
    }

    fn make_room(&mut self, _: u64) -> Result<()> {
        // Its bytes are never synced one after the other.
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}

impl ReadFile for DirectRead {
    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut read_before = 0;
        for part in buffer.chunks_mut(TRANSFER_BYTES) {
            let read = with_aligned(part.len(), |aligned| {
                let read = self.file.read_at(offset + read_before as u64, aligned)?;
                if let (Some(to), Some(from)) = (part.get_mut(..read), aligned.get(..read)) {
                    to.copy_from_slice(from);
                }
                Ok(read)
            })?;
            read_before += read;
            if read < part.len() {
                break;
            }
        }
        Ok(read_before)
    }

    fn is_asynchronous(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.works())
    }

    fn start_read(&self, offset: u64, length: usize, done: WhenRead) {
        match &self.ring {
            Some(ring) => ring.push(Read { file: Arc::clone(&self.file), offset, length, done }),
            None => read_then(self, offset, length, done),
        }
    }
}
