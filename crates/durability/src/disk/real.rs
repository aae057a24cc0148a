//! The real disk.

mod aligned;
mod direct;
mod measure;
mod ring;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, OnceLock};

use direct::{DirectAppend, DirectRead};
use ring::Ring;
use thermocline_types::{Error, Result};

use crate::disk::{AppendFile, Device, DirectoryLock, Disk, ReadFile};

/// The file whose lock is the directory's. It stays when the lock is given back: removing it would let two processes
/// lock two different files of that name.
const LOCK: &str = "lock";

/// Threads that read blocks side by side: each waits for the device nearly all of the time.
const READS_AT_ONCE: usize = 16;

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// For files of blocks, from the first that is read on; `None` where the kernel has none, or is not to be asked.
    ring: OnceLock<Option<Arc<Ring>>>,
}

impl RealDisk {
    /// Opens an existing directory.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let metadata = fs::metadata(&path).map_err(|error| refused("open", &path, &error))?;
        if !metadata.is_dir() {
            return Err(Error::cannot_open(format_args!("cannot open {}: not a directory", path.display())));
        }
        Ok(Self { path, ring: OnceLock::new() })
    }

    /// Has threads wait for each read, also where the kernel can do several at once.
    #[must_use]
    pub fn without_ring(self) -> Self {
        Self { ring: OnceLock::from(None), ..self }
    }

    /// Opens a directory, or creates it if it does not exist; the parent must exist, so that a mistyped path is an
    /// error.
    pub fn open_or_create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        match fs::create_dir(&path) {
            Ok(()) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                sync_directory(parent.unwrap_or(Path::new(".")))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused("create", &path, &error)),
        }
        Self::open(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn ring(&self) -> Option<&Arc<Ring>> {
        self.ring.get_or_init(|| Ring::start().ok()).as_ref()
    }

    /// Locks the directory by this file of it.
    fn locked(&self, file: File, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        match file.try_lock() {
            Ok(()) => {
                // The process id, for the message that a refused process prints; failing to write it does no harm.
                let _unknown =
                    file.set_len(0).and_then(|()| file.write_all_at(process::id().to_string().as_bytes(), 0));
                Ok(Box::new(RealLock { _file: Some(file) }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let known = (&file).take(32).read_to_string(&mut holder).is_ok() && !holder.is_empty();
                let holder = if known { format!("process {holder}") } else { "another process".to_owned() };
                let message = format!("cannot open {}: {holder} has it open", self.path.display());
                Err(Error::CannotOpen(message.into()))
            }
            Err(TryLockError::Error(error)) => Err(refused("lock", path, &error)),
        }
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(Error::internal(format_args!("\"{}\" is no name for a file", name.escape_debug())));
        }
        Ok(self.path.join(name))
    }
}

impl Disk for RealDisk {
    fn location(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| failed("list", &self.path, &error))? {
            let entry = entry.map_err(|error| failed("list", &self.path, &error))?;
            let is_file = entry.file_type().map_err(|error| failed("list", &entry.path(), &error))?.is_file();
            // A name that is not UTF-8 is not ours.
            if let (true, Ok(name)) = (is_file, entry.file_name().into_string())
                && name != LOCK
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        let path = self.file(name)?;
        // Not in append mode: that ignores the position at which room is made.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Box::new(RealFile::new(file, path))),
            Err(error) => Err(failed("create", &path, &error)),
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        let path = self.file(name)?;
        match File::open(&path) {
            Ok(file) => Ok(Box::new(RealFile::new(file, path))),
            Err(error) => Err(failed("open", &path, &error)),
        }
    }

    fn create_direct(&self, name: &str) -> Result<Box<dyn AppendFile>> {
        Ok(Box::new(DirectAppend::create(self.file(name)?)?))
    }

    fn open_direct(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        Ok(Box::new(DirectRead::open(self.file(name)?, self.ring().cloned())?))
    }

    fn is_asynchronous(&self) -> bool {
        self.ring().is_some_and(|ring| ring.works())
    }

    fn reads_at_once(&self) -> usize {
        READS_AT_ONCE
    }

    fn measure(&self) -> Result<Option<Device>> {
        measure::measure(self)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.file(from)?, self.file(to)?);
        fs::rename(&from, to).map_err(|error| failed("rename", &from, &error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name)?;
        fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
    }

    fn sync_directory(&self) -> Result<()> {
        sync_directory(&self.path)
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let path = self.file(LOCK)?;
        let file = open_lock(&path).map_err(|error| refused("lock", &path, &error))?;
        self.locked(file, &path)
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        let path = self.file(LOCK)?;
        match open_lock(&path) {
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => match File::open(&path) {
                // Elsewhere the same files may be mounted to be written.
                Ok(file) => self.locked(file, &path),
                Err(_) => Ok(Box::new(RealLock { _file: None })),
            },
            _ => self.lock(),
        }
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
    /// Bytes appended so far, which is also the file's position.
    appended: u64,
    /// End of the file, including room.
    end: u64,
}

impl RealFile {
    /// A file at its beginning.
    const fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, appended: 0, end: 0 }
    }
}

/// Zeros written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl AppendFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed("write to", &self.path, &error))?;
        self.appended += bytes.len() as u64;
        self.end = self.end.max(self.appended);
        Ok(())
    }

    /// Writes zeros instead of only allocating: a file system tracks which allocated blocks were written.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let end = self.appended.saturating_add(bytes);
        while self.end < end {
            let piece = usize::try_from(end - self.end).unwrap_or(usize::MAX).min(ZEROS.len());
            let zeros = ZEROS.get(..piece).unwrap_or_default();
            self.file.write_all_at(zeros, self.end).map_err(|error| failed("write to", &self.path, &error))?;
            self.end += piece as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        // Also syncs the file's length, which is the only metadata that reading needs.
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))
    }
}

impl ReadFile for RealFile {
    fn length(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| failed("read", &self.path, &error))?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", &self.path, &error)),
            }
        }
        Ok(read)
    }
}

/// The kernel drops the lock with the file, also when the process is killed.
#[derive(Debug)]
struct RealLock {
    /// `None` for a directory without one, on a file system that nobody can change from here.
    _file: Option<File>,
}

impl DirectoryLock for RealLock {}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed("sync", path, &error))
}

/// An error of a directory that is in use.
fn failed(operation: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {operation} {}: {}", path.display(), reason(error)).into();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull(message),
        _ => Error::Io(message),
    }
}

/// An error that keeps a directory from being opened.
fn refused(operation: &str, path: &Path, error: &io::Error) -> Error {
    match failed(operation, path, error) {
        Error::Io(message) => Error::CannotOpen(message),
        other => other,
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it does not exist".into(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        ErrorKind::StorageFull => "no space is left".into(),
        ErrorKind::QuotaExceeded => "the disk quota is used up".into(),
        ErrorKind::AlreadyExists => "it exists already".into(),
        ErrorKind::FileTooLarge => "the file would be larger than the process or the file system allows".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_file, write_file_whole};

    #[test]
    fn a_file_is_written_and_read() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open_or_create(directory.path().join("db")).unwrap();
        let mut file = disk.create("b").unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"there").unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();

        let reader = disk.open("b").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(reader.length().unwrap(), 11);
        assert_eq!(reader.read_at(6, &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"there");

        let mut roomy = disk.create("roomy").unwrap();
        for (append, room, left) in [
            (&b"one "[..], 10, &b"one \0\0\0\0\0\0\0\0\0\0"[..]),
            (b"two", 3, b"one two\0\0\0\0\0\0\0"),
            (b" and three", 2, b"one two and three\0\0"),
        ] {
            roomy.append(append).unwrap();
            roomy.make_room(room).unwrap();
            roomy.sync().unwrap();
            assert_eq!(read_file(&disk, "roomy", 99).unwrap(), left);
        }
        disk.remove("roomy").unwrap();

        write_file_whole(&disk, "a", b"whole").unwrap();
        write_file_whole(&disk, "a", b"again").unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "b"]);
        assert_eq!(read_file(&disk, "a", 5).unwrap(), b"again");
        assert_eq!(read_file(&disk, "a", 4).unwrap_err().sqlstate(), "XX001");

        disk.rename("b", "c").unwrap();
        disk.remove("a").unwrap();
        assert_eq!(disk.list().unwrap(), ["c"]);
    }

    #[test]
    fn errors_say_what_and_why() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let error = RealDisk::open(&missing).unwrap_err();
        assert!(matches!(&error, Error::CannotOpen(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("cannot open {}: it does not exist", missing.display()));
        assert!(matches!(RealDisk::open_or_create(missing.join("deeper")), Err(Error::CannotOpen(_))));

        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(RealDisk::open(&file).unwrap_err().to_string().contains("not a directory"));

        let disk = RealDisk::open(directory.path()).unwrap();
        assert!(disk.create("file").unwrap_err().to_string().contains("exists already"));
        assert!(matches!(disk.open("../file"), Err(Error::Internal(_))));

        let full = failed("write to", &file, &ErrorKind::StorageFull.into());
        assert_eq!((full.sqlstate(), full.to_string().ends_with("no space is left")), ("53100", true));
        let read_only = refused("lock", &file, &ErrorKind::ReadOnlyFilesystem.into());
        assert!(matches!(&read_only, Error::CannotOpen(message) if message.contains("read-only")));
    }

    #[test]
    fn one_holder_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let lock = disk.lock().unwrap();
        let error = RealDisk::open(directory.path()).unwrap().lock().unwrap_err();
        assert!(
            matches!(&error, Error::CannotOpen(message) if message.contains(&format!("process {} has it open", process::id())))
        );
        drop(lock);
        disk.lock().unwrap();
        assert_eq!(disk.list().unwrap(), [""; 0], "the lock is no file of the database");
    }
}
