//! Temporary directories.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, exec_datafusion_err, plan_datafusion_err};

/// A new, empty directory, which is removed with its content on drop.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
}

impl ScratchDirectory {
    /// Creates one in `parent`, which is created if missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(parent: &Path) -> Result<Self> {
        let in_parent = |error| exec_datafusion_err!("{}: {error}", parent.display());
        std::fs::create_dir_all(parent).map_err(in_parent)?;
        let process = std::process::id();
        let path = (0..).map(|number| parent.join(format!("bench-{process}-{number}"))).find(|path| !path.exists());
        let path = path.ok_or_else(|| plan_datafusion_err!("no name is left in {}", parent.display()))?;
        std::fs::create_dir(&path).map_err(in_parent)?;
        Ok(Self { path })
    }

    /// Its path.
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
