//! What is done to a database that nobody has open.

use std::path::Path;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use thermocline_transactions::backup;
use thermocline_transactions::check::Report;
use thermocline_transactions::database::Database;
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::recovery::Progress;

use super::files::DatabaseFiles;

/// The definitions of external tables, in a database and in a backup of one.
const CATALOG: &str = "catalog.sql";

/// Verifies all checksums and invariants of a database's row tables, and that its catalog parses; `None`
/// if it has no row tables.
///
/// # Errors
/// If the database cannot be read, or another process has it.
pub fn check(database: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<Option<Report>> {
    let files = DatabaseFiles::open_existing(database)?;
    let catalog = database.join(CATALOG);
    if catalog.exists() {
        let text = read(&catalog)?;
        crate::Session::parse(&text).map_err(|error| error.context(catalog.display().to_string()))?;
    }
    files.check_rows().map_err(external)?;
    if !files.has_rows() {
        return Ok(None);
    }
    let disk = RealDisk::open(files.rows()).map_err(external)?;
    Database::check(&disk, vec![], progress).map(Some).map_err(external)
}

/// Makes the content of a backup a new database.
///
/// # Errors
/// If the backup is not whole, or the database is there already; what was copied then is no database.
pub fn restore(from: &Path, database: &Path) -> Result<()> {
    let (from_rows, from_catalog) = (from.join(super::files::ROWS), from.join(CATALOG));
    if !from_rows.exists() && !from_catalog.exists() {
        return exec_err!("{} is no backup: it has neither row tables nor a catalog", from.display());
    }
    let occupied = database.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return exec_err!("{} is in the way: a backup is restored into a new directory", database.display());
    }
    let files = DatabaseFiles::open(database)?;
    if from_rows.exists() {
        let backup_disk = RealDisk::open(&from_rows).map_err(external)?;
        let disk = files.disk().map_err(external)?;
        backup::restore(&backup_disk, &*disk).map_err(external)?;
    }
    if from_catalog.exists() {
        let text = read(&from_catalog)?;
        write_synced(&database.join(CATALOG), &text)?;
    }
    Ok(())
}

/// Copies the definitions of external tables into a backup.
///
/// # Errors
/// If they cannot be read or written.
pub fn copy_catalog(files: &DatabaseFiles, backup: &Path) -> Result<()> {
    let catalog = files.path().join(CATALOG);
    if catalog.exists() { write_synced(&backup.join(CATALOG), &read(&catalog)?) } else { Ok(()) }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
}

fn write_synced(path: &Path, text: &str) -> Result<()> {
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
}

fn external(error: thermocline_transactions::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
