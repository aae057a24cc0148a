//! Output directory of figures.

use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err};

/// Arguments of every bench that draws.
#[derive(Debug, Clone, clap::Args)]
pub struct FiguresArgs {
    /// Write figures as SVG to this directory
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// A directory for figures, or nothing.
#[derive(Debug)]
pub struct Figures {
    folder: Option<PathBuf>,
}

impl Figures {
    /// Writes to the directory, if one is given; creates it at once, and a file in it, so that a wrong path is reported
    /// before anything is measured.
    ///
    /// # Errors
    /// If it cannot be created, or nothing can be written to it.
    pub fn new(args: &FiguresArgs) -> Result<Self> {
        let folder = args.figures.clone();
        if let Some(folder) = &folder {
            let failed = |error: std::io::Error| exec_datafusion_err!("{}: {error}", folder.display());
            std::fs::create_dir_all(folder).map_err(failed)?;
            let tried = folder.join(format!(".thermocline-{}", std::process::id()));
            std::fs::File::create(&tried).and_then(|_| std::fs::remove_file(&tried)).map_err(failed)?;
        }
        Ok(Self { folder })
    }

    /// Draws and writes the figure `NAME.svg`, if figures are wanted.
    ///
    /// # Errors
    /// If it has no points or cannot be written.
    pub fn write(&self, name: &str, draw: impl FnOnce() -> Result<String>) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, draw()?).map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
    }
}
