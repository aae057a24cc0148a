//! Listing a local directory: a `readdir` and a `stat` per object, and more only for symbolic links.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind as IoErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object_store::path::Path as ObjectPath;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ListResponse, ObjectEntry};

use crate::listing::Listing;

/// Marks a version that is an ETag; other versions are size and modification time.
pub(crate) const ETAG: &str = "etag:";

/// Where a node keeps what is its own, below ROOT.
pub(crate) const OWN_DIRECTORY: &str = ".thermocline";

/// Whether a file or directory of this name is no data.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// Symbolic links to directories on the way to an object: links that lead to each other multiply.
const LINKS_MAX: usize = 8;
/// Why a link that leads out is skipped.
const OUTSIDE: &str = "a symbolic link that leads out of ROOT";
/// `ELOOP` on Linux: symbolic links that lead back to themselves, or too many of them.
const FILESYSTEM_LOOP: i32 = 40;

/// A directory on the way.
struct Directory {
    /// Where it is.
    path: PathBuf,
    /// Its path below ROOT, as it was reached.
    object_path: String,
    /// Its level: 1 for the one that the walk begins with.
    level: usize,
    /// Directories from which a link was followed to get here, and this one, without links.
    real: Vec<PathBuf>,
}

/// Everything below `prefix` of `root` (a canonical path), or the one object that it names, by path.
/// Hidden files and directories and empty files are skipped, and so is what a symbolic link leads to
/// outside of `root`. Of `levels` folders, the first is `prefix` itself; `None` for all below it.
///
/// # Errors
/// If `root` is gone, a directory cannot be read, or there are more objects than a listing holds; if there
/// is no memory for it, or nobody waits for it any more.
pub(crate) fn list(
    root: &Path,
    prefix: &ObjectPath,
    levels: Option<usize>,
    listing: Listing,
) -> Result<ListResponse, NodeError> {
    let mut walk = Walk { root, levels, listing, waiting: vec![] };
    walk.start(prefix)?;
    while let Some(directory) = walk.waiting.pop() {
        walk.directory(&directory)?;
    }
    let mut found = walk.listing.found;
    // A directory may have been removed while it was read, and an empty listing would not say so.
    found.missing |= found.objects.is_empty() && !root.join(prefix.as_ref()).exists();
    if found.missing && !root.is_dir() {
        let why = format!("the directory {} is not there any more", root.display());
        return Err(NodeError::new(ErrorKind::Unavailable, why));
    }
    found.objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    found.skipped.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

struct Walk<'a> {
    root: &'a Path,
    /// Levels of folders that are read; `None` for all.
    levels: Option<usize>,
    listing: Listing,
    waiting: Vec<Directory>,
}

impl Walk<'_> {
    fn start(&mut self, prefix: &ObjectPath) -> Result<(), NodeError> {
        let path = self.root.join(prefix.as_ref());
        let object_path = prefix.to_string();
        let found = fs::canonicalize(&path).and_then(|real| Ok((fs::metadata(&real)?, real)));
        match found {
            Ok((_, real)) if !real.starts_with(self.root) => {
                self.listing.skip(object_path, 0, OUTSIDE);
                self.listing.found.missing = true;
                Ok(())
            }
            Ok((metadata, real)) if metadata.is_dir() => {
                self.waiting.push(Directory { path, object_path, level: 1, real: vec![real] });
                Ok(())
            }
            Ok((metadata, _)) => self.file(object_path, &metadata),
            Err(error) if matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory) => {
                self.listing.found.missing = true;
                Ok(())
            }
            Err(error) => Err(failed(&path, &error)),
        }
    }

    fn directory(&mut self, directory: &Directory) -> Result<(), NodeError> {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            // Removed since it was found.
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(&directory.path, &error)),
        };
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.map_err(|error| failed(&directory.path, &error))?;
            self.listing.check_wanted()?;
            is_empty = false;
            match self.entry(directory, &entry) {
                Ok(done) => done?,
                Err(error) if error.kind() == IoErrorKind::NotFound => {}
                Err(error) => return Err(failed(&entry.path(), &error)),
            }
        }
        // A directory that is named like an object is taken for one by who looks for it.
        let name = directory.object_path.rsplit('/').next().unwrap_or_default();
        if is_empty && name.contains('.') {
            self.listing.skip(directory.object_path.clone(), 0, "a directory without files");
        }
        Ok(())
    }

    /// One entry of a directory. The outer result is `NotFound` for what was removed a moment ago.
    fn entry(&mut self, directory: &Directory, entry: &fs::DirEntry) -> io::Result<Result<(), NodeError>> {
        let name = entry.file_name();
        let below = |name: &str| match directory.object_path.as_str() {
            "" => name.to_owned(),
            above => format!("{above}/{name}"),
        };
        let Some(name) = name.to_str() else {
            self.listing.skip(below(&name.to_string_lossy()), 0, "its name is not UTF-8");
            return Ok(Ok(()));
        };
        let object_path = below(name);
        let kind = entry.file_type()?;
        if is_hidden(name) {
            if name != OWN_DIRECTORY {
                let size = if kind.is_file() { entry.metadata()?.len() } else { 0 };
                self.listing.skip(object_path, size, "its name begins with . or _");
            }
        } else if ObjectPath::parse(&object_path).is_err() {
            self.listing.skip(object_path, 0, "its name holds characters that no object has");
        } else if kind.is_symlink() {
            return self.link(directory, entry.path(), object_path);
        } else if kind.is_dir() && !self.goes_below(directory) {
            // Nothing there is asked for.
        } else if kind.is_dir() {
            let below = directory.below(entry.path(), object_path, name);
            if let Err(error) = self.listing.charge(below.bytes()) {
                return Ok(Err(error));
            }
            self.waiting.push(below);
        } else {
            return Ok(self.file(object_path, &entry.metadata()?));
        }
        Ok(Ok(()))
    }

    /// Whether directories in `directory` are read.
    fn goes_below(&self, directory: &Directory) -> bool {
        self.levels.is_none_or(|levels| directory.level < levels)
    }

    fn link(&mut self, directory: &Directory, path: PathBuf, object_path: String) -> io::Result<Result<(), NodeError>> {
        let target = match fs::canonicalize(&path) {
            Ok(target) => target,
            Err(error) => {
                let reason = match error.kind() {
                    IoErrorKind::NotFound | IoErrorKind::NotADirectory => "a symbolic link to what is not there",
                    _ if error.raw_os_error() == Some(FILESYSTEM_LOOP) => "a symbolic link that leads to itself",
                    _ => return Err(error),
                };
                self.listing.skip(object_path, 0, reason);
                return Ok(Ok(()));
            }
        };
        if !target.starts_with(self.root) {
            self.listing.skip(object_path, 0, OUTSIDE);
            return Ok(Ok(()));
        }
        let metadata = fs::metadata(&target)?;
        if !metadata.is_dir() {
            return Ok(self.file(object_path, &metadata));
        }
        if !self.goes_below(directory) {
            // Nothing there is asked for.
        } else if directory.real.iter().any(|real| real.starts_with(&target)) {
            self.listing.skip(object_path, 0, "a symbolic link to a directory that it is in");
        } else if directory.real.len() > LINKS_MAX {
            self.listing.skip(object_path, 0, "it lies behind too many symbolic links");
        } else {
            self.waiting.push(directory.linked(path, object_path, target));
        }
        Ok(Ok(()))
    }

    fn file(&mut self, path: String, metadata: &Metadata) -> Result<(), NodeError> {
        let size = metadata.len();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let reason = if !metadata.is_file() {
            "not a regular file"
        } else if size == 0 {
            "it is empty"
        } else if is_staged(name) {
            "its name is that of an unfinished upload"
        } else {
            let object = ObjectEntry { path, version: version_of(metadata), size };
            return self.listing.add(object, &self.root.to_string_lossy());
        };
        self.listing.skip(path, size, reason);
        Ok(())
    }
}

impl Directory {
    /// Bytes that it takes while it waits.
    fn bytes(&self) -> usize {
        let paths = self.real.iter().map(|path| size_of::<PathBuf>() + path.as_os_str().len()).sum::<usize>();
        size_of::<Self>() + self.path.as_os_str().len() + self.object_path.len() + paths
    }

    fn below(&self, path: PathBuf, object_path: String, name: &str) -> Self {
        let mut real = self.real.clone();
        if let Some(last) = real.last_mut() {
            last.push(name);
        }
        Self { path, object_path, level: self.level + 1, real }
    }

    /// The directory that a link leads to.
    fn linked(&self, path: PathBuf, object_path: String, target: PathBuf) -> Self {
        let real = self.real.iter().cloned().chain([target]).collect();
        Self { path, object_path, level: self.level + 1, real }
    }
}

fn failed(path: &Path, error: &io::Error) -> NodeError {
    NodeError::new(ErrorKind::Unavailable, format!("{}: cannot be listed: {error}", path.display()))
}

/// Whether `object_store` takes it for a part of an upload under way, and so does not read it.
fn is_staged(name: &str) -> bool {
    name.split_once('#')
        .is_some_and(|(_, suffix)| !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The version as `object_store` gives it when the object is read: an ETag of inode, time and size.
fn version_of(metadata: &Metadata) -> String {
    let modified = metadata.modified().ok();
    let modified = modified.and_then(|modified| modified.duration_since(SystemTime::UNIX_EPOCH).ok());
    let modified = modified.unwrap_or_default().as_micros();
    format!("{ETAG}{:x}-{modified:x}-{:x}", inode(metadata), metadata.len())
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}
