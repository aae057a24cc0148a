//! Objects in the file system.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::encode::{Format, encode};
use super::run::GenerateError;
use super::source::Source;
use super::table::Table;

/// Creates the folder of `table` under `out` and returns its path.
///
/// # Errors
/// [`GenerateError::NotEmpty`] if it exists with anything in it.
pub(super) fn create_folder(out: &Path, table: Table) -> Result<PathBuf, GenerateError> {
    let folder = out.join(table.name());
    let io = |source| GenerateError::Io { path: folder.clone(), source };
    fs::create_dir_all(&folder).map_err(io)?;
    match fs::read_dir(&folder).map_err(io)?.next() {
        None => Ok(folder),
        Some(entry) => Err(GenerateError::NotEmpty { path: entry.map_err(io)?.path() }),
    }
}

/// Writes object `number` of `source` into `folder` and returns its size in bytes.
///
/// The bytes go to a hidden temporary name first, so that a killed run leaves no truncated
/// object under the final name. They are not synced: generated data can be generated again.
///
/// # Errors
/// [`GenerateError::Write`] or [`GenerateError::Io`] with the path at fault; the temporary file
/// is gone then.
pub(super) fn write_object(
    folder: &Path,
    number: usize,
    source: &dyn Source,
    units: Range<u64>,
    format: Format,
    on_rows: &dyn Fn(u64),
) -> Result<u64, GenerateError> {
    let name = format!("{}-{number:05}.{}", source.table(), format.extension());
    let temporary = folder.join(format!(".{name}.tmp"));
    let path = folder.join(name);
    let written = write_file(&temporary, source, units, format, on_rows).and_then(|bytes| {
        let renamed = fs::rename(&temporary, &path);
        renamed.map_err(|source| GenerateError::Io { path: path.clone(), source })?;
        Ok(bytes)
    });
    if written.is_err() {
        // The first error is the one to report; the file may not even exist.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_file(
    path: &Path,
    source: &dyn Source,
    units: Range<u64>,
    format: Format,
    on_rows: &dyn Fn(u64),
) -> Result<u64, GenerateError> {
    let file = File::create(path).map_err(|source| GenerateError::Io { path: path.to_path_buf(), source })?;
    encode(source, units, format, file, on_rows)
        .map_err(|source| GenerateError::Write { path: path.to_path_buf(), source })
}
