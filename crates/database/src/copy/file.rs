//! Files of COPY TO, which are there whole or not at all.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use thermocline_types::Class;

use crate::bridge::external;

/// Target of a COPY TO. Rows go into a file beside it, which takes its place when it is whole; a target that is no file,
/// such as a device or a pipe, gets the rows itself.
#[derive(Debug)]
pub struct CopyFile {
    target: PathBuf,
    /// `None` where the rows go into the target, or are there.
    beside: Option<PathBuf>,
}

impl CopyFile {
    /// Creates the file for the rows.
    ///
    /// # Errors
    /// Those of the file system, with the path.
    pub fn create(path: PathBuf) -> Result<(Self, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // What a link leads to is replaced, not the link.
        let target = fs::canonicalize(&path).unwrap_or(path);
        let is_file = fs::metadata(&target).map_or(true, |found| found.is_file());
        let name = target.file_name().and_then(|name| name.to_str()).filter(|_| is_file);
        let Some(name) = name else {
            let file = File::create(&target).map_err(|error| of_file(&target, &error))?;
            return Ok((Self { target, beside: None }, file));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = target.with_file_name(format!(".{}-{number}.{name}", std::process::id()));
        let file = File::create(&beside).map_err(|error| of_file(&target, &error))?;
        let copy = Self { target, beside: Some(beside) };
        if let (Some(beside), Ok(before)) = (&copy.beside, fs::metadata(&copy.target)) {
            fs::set_permissions(beside, before.permissions()).map_err(|error| of_file(&copy.target, &error))?;
        }
        Ok((copy, file))
    }

    /// Puts the rows into their place.
    ///
    /// # Errors
    /// Those of the file system, with the path.
    pub fn finish(mut self) -> Result<()> {
        let Some(beside) = self.beside.take() else { return Ok(()) };
        let placed =
            File::open(&beside).and_then(|file| file.sync_all()).and_then(|()| fs::rename(&beside, &self.target));
        placed.map_err(|error| {
            let _ = fs::remove_file(&beside);
            of_file(&self.target, &error)
        })
    }
}

impl Drop for CopyFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
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
