//! Listing a local directory: a `readdir` and a `stat` per object, and more only for symbolic links.

use std::fs::{self, Metadata};
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object_store::path::Path as ObjectPath;
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};

use crate::NodeError;
use crate::root::{ETAG, is_hidden};

/// Objects that one listing may hold.
const OBJECTS_MAX: usize = 5_000_000;
/// Symbolic links to directories on the way to an object: links that lead to each other multiply.
const LINKS_MAX: usize = 8;

/// A directory on the way.
struct Directory {
    /// Where it is.
    path: PathBuf,
    /// Its path below ROOT, as it was reached.
    object_path: String,
    /// Directories from which a link was followed to get here, and this one, without links.
    real: Vec<PathBuf>,
}

/// All objects below `prefix` of `root` (a canonical path), by path. Hidden files and directories and
/// empty files are left out, and so is what a symbolic link leads to outside of `root`. `None` if
/// `prefix` is no directory.
///
/// # Errors
/// If a directory cannot be read, a name is not one that an object can have, or there are more objects
/// than a listing holds.
pub(crate) fn list(root: &Path, prefix: &ObjectPath) -> Result<Option<Vec<ObjectEntry>>, NodeError> {
    let failed = |path: &Path, error: &std::io::Error| {
        NodeError::new(ErrorKind::Unavailable, format!("{}: cannot be listed: {error}", path.display()))
    };
    let start = root.join(prefix.as_ref());
    let real = match fs::canonicalize(&start) {
        Ok(real) if real.starts_with(root) && real.is_dir() => real,
        _ => return Ok(None),
    };
    let mut objects = vec![];
    let mut directories = vec![Directory { path: start, object_path: prefix.to_string(), real: vec![real] }];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            // Removed since it was found.
            Err(error) if error.kind() == IoErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&directory.path, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(&directory.path, &error))?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| {
                let why = "its name is not UTF-8, so that no object can have it";
                NodeError::new(ErrorKind::BadData, format!("{}: {why}", entry.path().display()))
            })?;
            if is_hidden(name) {
                continue;
            }
            let object_path = match directory.object_path.as_str() {
                "" => name.to_owned(),
                above => format!("{above}/{name}"),
            };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if error.kind() == IoErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&entry.path(), &error)),
            };
            let metadata = if kind.is_symlink() {
                // A link that leads nowhere, or out of ROOT, is no object of ROOT.
                let Some(target) = fs::canonicalize(entry.path()).ok().filter(|target| target.starts_with(root)) else {
                    continue;
                };
                let Ok(metadata) = fs::metadata(&target) else { continue };
                if metadata.is_dir() {
                    directories.extend(directory.linked(entry.path(), object_path, target));
                    continue;
                }
                metadata
            } else if kind.is_dir() {
                directories.push(directory.below(entry.path(), object_path, name));
                continue;
            } else {
                match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(error) if error.kind() == IoErrorKind::NotFound => continue,
                    Err(error) => return Err(failed(&entry.path(), &error)),
                }
            };
            if !metadata.is_file() || metadata.len() == 0 || is_staged(name) {
                continue;
            }
            if let Err(error) = ObjectPath::parse(&object_path) {
                return Err(NodeError::new(ErrorKind::BadData, error.to_string()));
            }
            if objects.len() >= OBJECTS_MAX {
                let why = format!("more than the {OBJECTS_MAX} objects that a listing holds");
                return Err(NodeError::new(ErrorKind::Refused, format!("{}: {why}", root.display())));
            }
            objects.push(ObjectEntry { path: object_path, version: version_of(&metadata), size: metadata.len() });
        }
    }
    objects.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(objects))
}

impl Directory {
    fn below(&self, path: PathBuf, object_path: String, name: &str) -> Self {
        let mut real = self.real.clone();
        if let Some(last) = real.last_mut() {
            last.push(name);
        }
        Self { path, object_path, real }
    }

    /// The directory that a link leads to; `None` if it is one on the way here, so that following it
    /// would not end.
    fn linked(&self, path: PathBuf, object_path: String, target: PathBuf) -> Option<Self> {
        let circular = self.real.iter().any(|real| real.starts_with(&target));
        if circular || self.real.len() > LINKS_MAX {
            tracing::warn!("{object_path} is left out: the link leads back, or over too many others");
            return None;
        }
        Some(Self { path, object_path, real: self.real.iter().cloned().chain([target]).collect() })
    }
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
