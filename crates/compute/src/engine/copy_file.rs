//! Files of COPY TO, which are there whole or not at all.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::common::Result;
use datafusion::logical_expr::dml::CopyTo;
use thermocline_pushdown::{QueryId, external};
use thermocline_types::Class;

/// Refuses two columns of one name where a file has columns by their names.
///
/// # Errors
/// 42701.
pub(super) fn check_columns(copy: &CopyTo) -> Result<()> {
    if copy.file_type.get_ext() == "csv" {
        return Ok(());
    }
    let mut seen = HashSet::new();
    match copy.input.schema().fields().iter().find(|field| !seen.insert(field.name())) {
        Some(field) => {
            let message = format!("column \"{}\" specified more than once: name the columns of the file", field.name());
            Err(external(Class::DuplicateColumn.error(message)))
        }
        None => Ok(()),
    }
}

/// Has a COPY write beside its target, if that is one file of this machine; `None` for directories and buckets, where
/// files are added. DataFusion ends a file of an interrupted query as if it were whole.
pub(super) fn copy_file(copy: &mut CopyTo, query: &QueryId) -> Option<CopyFile> {
    let path = copy.output_url.strip_prefix("file://").unwrap_or(&copy.output_url);
    let target = Path::new(path);
    let is_file = !path.contains("://") && !path.ends_with('/') && target.extension().is_some() && !target.is_dir();
    if !is_file || !copy.partition_by.is_empty() {
        return None;
    }
    let file = CopyFile::beside(target.to_owned(), query)?;
    copy.output_url = file.path().to_str()?.to_owned();
    Some(file)
}

/// A file beside the target of a COPY, which it takes the place of when it is whole.
#[derive(Debug)]
pub struct CopyFile {
    beside: PathBuf,
    target: PathBuf,
}

impl CopyFile {
    /// The file beside `target` that only the statement `id` writes; `None` if the target's name is no text.
    pub fn beside(target: PathBuf, id: &dyn fmt::Display) -> Option<Self> {
        let name = target.file_name()?.to_str()?;
        let beside = target.with_file_name(format!(".{id}.{name}"));
        Some(Self { beside, target })
    }

    /// Where the rows go.
    pub fn path(&self) -> &Path {
        &self.beside
    }

    /// Where they go when all are there.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.beside, &self.target)
    }
}

impl Drop for CopyFile {
    fn drop(&mut self) {
        // It is in its place, or it is not to be. Its parts are there until it is whole.
        let (Some(directory), Some(name)) = (self.beside.parent(), self.beside.file_name()) else { return };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
