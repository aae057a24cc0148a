//! The user's editor, for `\e`.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use super::Failure;
use super::order::path_of;

/// Environment variables that name an editor, the first one that is set.
const EDITORS: [&str; 3] = ["PSQL_EDITOR", "VISUAL", "EDITOR"];

/// The text of a file after the user has edited it; if no file is named, of one that begins with the text `last`.
/// `None` if a named file was not saved, or the text is still `last`.
///
/// # Errors
/// If the editor cannot be run or fails, or the file cannot be written or read.
pub async fn edited(file: &str, last: &str) -> Result<Option<String>, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("\\e: {error}"));
    let temporary = match file {
        "" => {
            let mut made = tempfile::Builder::new().prefix("thermocline-").suffix(".sql").tempfile().map_err(failed)?;
            made.write_all(last.as_bytes()).map_err(failed)?;
            Some(made)
        }
        _ => None,
    };
    let path = temporary.as_ref().map_or_else(|| path_of(file, None), |made| made.path().to_owned());
    let set = EDITORS.iter().find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()));
    let editor = set.unwrap_or_else(|| "vi".to_owned());
    // The variable may have arguments, which a shell takes apart.
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&path);
    let before = state(&path);
    let status = command.status().await.map_err(failed)?;
    if !status.success() {
        return Err(Failure::Failed(format!("\\e: {editor} failed ({status}); nothing has run")));
    }
    if temporary.is_none() && state(&path) == before {
        return Ok(None);
    }
    let text =
        std::fs::read_to_string(&path).map_err(|error| Failure::Failed(format!("\\e: {}: {error}", path.display())))?;
    Ok(Some(text).filter(|text| temporary.is_none() || text != last))
}

/// What changes when a file is saved: its time and its length. `None` if there is no such file.
fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
