//! Where figures go.

use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err};

/// Arguments of every bench that draws.
#[derive(Debug, Clone, clap::Args)]
pub struct FiguresArgs {
    /// Write figures to this directory, as SVG
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// A directory for figures, or nothing.
#[derive(Debug)]
pub struct Figures {
    folder: Option<PathBuf>,
}

impl Figures {
    /// Writes to the directory, if there is one, and makes it, so that a wrong one is known at once.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(args: &FiguresArgs) -> Result<Self> {
        let folder = args.figures.clone();
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).map_err(|error| exec_datafusion_err!("{}: {error}", folder.display()))?;
        }
        Ok(Self { folder })
    }

    /// Draws and writes the figure `NAME.svg`, if it is wanted.
    ///
    /// # Errors
    /// If it has nothing to show or cannot be written.
    pub fn write(&self, name: &str, draw: impl FnOnce() -> Result<String>) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, draw()?).map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
    }
}
