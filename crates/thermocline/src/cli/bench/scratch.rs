//! Directories that go with what they were made for.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, exec_datafusion_err, plan_datafusion_err};

/// A new, empty directory, which is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
}

impl ScratchDirectory {
    /// Makes one in `parent`, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(parent: &Path) -> Result<Self> {
        let in_parent = |error| exec_datafusion_err!("{}: {error}", parent.display());
        std::fs::create_dir_all(parent).map_err(in_parent)?;
        let process = std::process::id();
        let path = (0..).map(|number| parent.join(format!("bench-{process}-{number}"))).find(|path| !path.exists());
        let path = path.ok_or_else(|| plan_datafusion_err!("no name is left in {}", parent.display()))?;
        std::fs::create_dir(&path).map_err(in_parent)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
