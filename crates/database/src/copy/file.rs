//! Files of COPY TO, which are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use flate2::Compression;
use flate2::write::GzEncoder;
use thermocline_compute::CopyFile;
use thermocline_types::Class;

use crate::bridge::external;

/// Opens the target of a COPY TO: a file beside it, which takes its place when it is whole, or, if the target is no file
/// but a device or a pipe, the target itself.
///
/// # Errors
/// Those of the file system, with the path.
pub fn create(path: PathBuf) -> Result<(Option<CopyFile>, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let open = |path: &Path, target: &Path| File::create(path).map_err(|error| of_file(target, &error));
    // A link stays, and the file that it leads to is replaced.
    let target = fs::canonicalize(&path).unwrap_or(path);
    let before = fs::metadata(&target).ok();
    let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let is_file = before.as_ref().is_none_or(fs::Metadata::is_file);
    let Some(copy) = is_file.then(|| CopyFile::beside(target.clone(), &id)).flatten() else {
        return Ok((None, open(&target, &target)?));
    };
    let file = open(copy.path(), &target)?;
    if let Some(before) = before {
        file.set_permissions(before.permissions()).map_err(|error| of_file(&target, &error))?;
    }
    Ok((Some(copy), file))
}

/// Destination of rows.
pub enum Output {
    /// As they are.
    Plain(Box<dyn Write + Send>),
    /// Compressed.
    Gzip(Box<GzEncoder<Box<dyn Write + Send>>>),
}

impl Output {
    /// Rows that are compressed, or not.
    pub fn new(output: Box<dyn Write + Send>, is_gzip: bool) -> Self {
        if !is_gzip {
            return Self::Plain(output);
        }
        Self::Gzip(Box::new(GzEncoder::new(output, Compression::default())))
    }

    /// Writes what follows the last row.
    ///
    /// # Errors
    /// I/O errors.
    pub fn end(self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }
}

/// Puts the rows into their place, durably: they replace what was there.
///
/// # Errors
/// Those of the file system, with the path.
pub fn finish(copy: CopyFile) -> Result<()> {
    let target = copy.target().to_owned();
    let placed = File::open(copy.path()).and_then(|file| file.sync_all()).and_then(|()| copy.finish());
    placed.map_err(|error| of_file(&target, &error))
}

/// An error of the file system about a file of COPY.
pub fn of_file(path: &Path, error: &std::io::Error) -> DataFusionError {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => external(Class::UndefinedFile.error(format_args!("{path}: {error}"))),
        ErrorKind::PermissionDenied => external(Class::InsufficientPrivilege.error(format_args!("{path}: {error}"))),
        _ => exec_datafusion_err!("{path}: {error}"),
    }
}
