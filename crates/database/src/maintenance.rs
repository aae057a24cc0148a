//! Backups of open databases; checks and restores of closed ones.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use thermocline_catalog::SqlFile;
use thermocline_pushdown::{user_err, user_error};
use thermocline_transactions::backup;
use thermocline_transactions::check::Report;
use thermocline_transactions::database::{RestoreTo, RowEngine};
use thermocline_transactions::disk::{Disk, RealDisk};
use thermocline_transactions::recovery::Progress;
use thermocline_transactions::snapshot::{Manifest, list_snapshots};

use crate::bridge::external;
use crate::error::Error;
use crate::rows::{DatabaseFiles, LOCK, ROWS, RowMark, RowStore};
use crate::settings::SettingsFile;
use crate::statement::Statement;

/// Writes a backup into a new directory: the catalog and the settings, and a consistent snapshot of the rows, whose
/// directory is marked as incomplete until all is there.
///
/// # Errors
/// If the database has no directory, or the backup directory exists already or cannot be written.
pub fn backup(rows: &RowStore, into: &Path) -> Result<()> {
    let Some(files) = rows.files() else {
        return user_err!(NotInState, "a database without a directory has no backup");
    };
    let catalog = files.catalog()?;
    let rows = rows.started();
    if rows.is_none() && !catalog.exists() {
        return user_err!(
            NotInState,
            "there is nothing to back up: no row tables, and no definitions of external ones"
        );
    }
    let failed = |error: std::io::Error| user_error!(NotInState, "backup {}: {error}", into.display());
    match std::fs::create_dir(into) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return exists(into),
        created => created.map_err(failed)?,
    }
    let marked = || -> thermocline_transactions::Result<RealDisk> {
        let disk = RealDisk::open_or_create(into.join(ROWS))?;
        backup::Copying::Backup.begin(&disk)?;
        Ok(disk)
    };
    let disk = rows.as_ref().map(|_| marked()).transpose().map_err(external);
    let copied = disk.and_then(|disk| {
        copy_definitions(&catalog, files.path(), into)?;
        match rows.zip(disk) {
            Some((rows, disk)) => rows.backup(&disk).map(|_| ()).map_err(external),
            None => Ok(()),
        }
    });
    if copied.is_err()
        && let Err(error) = std::fs::remove_dir_all(into)
    {
        // The directory was created here, so it contains no other files.
        tracing::warn!("what was copied is no backup, and is left in {}: {error}", into.display());
    }
    copied
}

/// Error for a backup into a directory, or over a file, that is there.
fn exists(into: &Path) -> Result<()> {
    let is_interrupted = RealDisk::open(into.join(ROWS)).is_ok_and(|rows| backup::check_whole(&rows).is_err());
    if is_interrupted {
        return user_err!(
            NotInState,
            "an earlier backup into {} was interrupted and is not whole: remove this directory and repeat the BACKUP, \
             or choose another one",
            into.display()
        );
    }
    user_err!(
        NotInState,
        "{} is there already, and a backup makes a new directory: choose another one, or remove it",
        into.display()
    )
}

/// Verifies all checksums and invariants of a database's row tables, and that its catalog parses and its settings are valid;
/// `None` if it has no row tables.
///
/// # Errors
/// If the database cannot be read, another process has it open, or its row tables are missing.
pub fn check(database: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<Option<Report>, Error> {
    let files = DatabaseFiles::open_to_read(database)?;
    let catalog = files.catalog()?;
    Statement::parse(&catalog.read()?).map_err(|error| error.context(catalog.path().display().to_string()))?;
    SettingsFile::open(database)?.check()?;
    if let Some(mark) = RowMark::read(database).map_err(external)? {
        mark.check(database).map_err(external)?;
    }
    if !files.has_rows() {
        return Ok(None);
    }
    let disk = RealDisk::open(files.rows()).map_err(external)?;
    Ok(RowEngine::check(Arc::new(disk), vec![], progress).map(Some)?)
}

/// Creates a new database with the row tables of a state of another database, or of a backup, and the current catalog and
/// settings. The source must be closed and is not changed. Returns a line for each block whose rows are lost.
///
/// # Errors
/// If there is no such state, or the new database exists already. A partly written database is removed.
pub fn restore_state(
    from: &Path,
    database: &Path,
    to: RestoreTo,
    progress: &mut dyn FnMut(&Progress),
) -> Result<String, Error> {
    if !from.join(ROWS).is_dir() {
        return Err(user_error!(
            NotInState,
            "{} has no row tables, so there is no state of them to restore",
            from.display()
        )
        .into());
    }
    let source = DatabaseFiles::open_to_read(from)?;
    let definitions = || copy_definitions(&source.catalog()?, from, database);
    let restored = |files: &DatabaseFiles| restore_rows_to(&source, files, definitions, to, progress);
    Ok(new_database(database, true, restored)?)
}

fn restore_rows_to(
    from: &DatabaseFiles,
    files: &DatabaseFiles,
    definitions: impl FnOnce() -> Result<()>,
    to: RestoreTo,
    progress: &mut dyn FnMut(&Progress),
) -> Result<String> {
    let rows: Arc<dyn Disk> = Arc::new(RealDisk::open(from.rows()).map_err(external)?);
    // The mark is written first, as in [`restore`].
    if let Some(mark) = RowMark::read(from.path()).map_err(external)? {
        mark.write(files.path()).map_err(external)?;
    }
    definitions()?;
    let disk = files.disk().map_err(external)?;
    let restored = RowEngine::restore_until(&rows, disk, vec![], to, progress).map_err(external)?;
    RowMark { database: restored.manifest.identity().database }.write(files.path()).map_err(external)?;
    Ok(restored.to_string())
}

/// Copies the catalog and the settings of one database's directory into another.
fn copy_definitions(catalog: &SqlFile, from: &Path, into: &Path) -> Result<()> {
    catalog.copy_to(into)?;
    SettingsFile::open(from)?.copy_to(into)
}

/// Creates and locks the directory of a new database, and has `restore` fill it. If that fails, what was created is
/// removed; if the process ends before, a directory of row tables is marked as incomplete.
fn new_database<T>(database: &Path, has_rows: bool, restore: impl FnOnce(&DatabaseFiles) -> Result<T>) -> Result<T> {
    let is_new = !database.exists();
    let mut entries = database.read_dir().into_iter().flatten();
    if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != LOCK)) {
        return user_err!(NotInState, "{} is in the way: what is restored needs a new directory", database.display());
    }
    let files = DatabaseFiles::open(database)?;
    let marked = || if has_rows { backup::Copying::Restore.begin(&*files.disk()?) } else { Ok(()) };
    let restored = marked().map_err(external).and_then(|()| restore(&files));
    if restored.is_err() {
        // A lock alone would open as an empty database.
        let cleared = if is_new { std::fs::remove_dir_all(database) } else { files.clear() };
        if let Err(error) = cleared {
            tracing::warn!("what was restored is not whole, and is left in {}: {error}", database.display());
        }
    }
    restored
}

/// Creates a new database from a backup.
///
/// # Errors
/// If the backup is incomplete, or the database exists already. A partly written database is removed.
pub fn restore(from: &Path, database: &Path) -> Result<(), Error> {
    if !from.is_dir() {
        return Err(user_error!(NotInState, "{} is no backup: there is no such directory", from.display()).into());
    }
    let (from_rows, from_catalog) = (from.join(ROWS), SqlFile::catalog(from)?);
    if !from_rows.exists() && !from_catalog.exists() {
        return Err(user_error!(
            NotInState,
            "{} is no backup: it has neither row tables nor a catalog",
            from.display()
        )
        .into());
    }
    let definitions = || copy_definitions(&from_catalog, from, database);
    let has_rows = from_rows.exists();
    let restored = |files: &DatabaseFiles| match has_rows {
        true => restore_rows(&from_rows, files, definitions),
        false => definitions(),
    };
    Ok(new_database(database, has_rows, restored)?)
}

fn restore_rows(from: &Path, files: &DatabaseFiles, definitions: impl FnOnce() -> Result<()>) -> Result<()> {
    let backup = RealDisk::open(from).map_err(external)?;
    // The mark is removed last, so that an incomplete copy opens neither as an empty database nor as one without its
    // definitions.
    let begun = || {
        if let Some(position) = list_snapshots(&backup)?.last() {
            let manifest = Manifest::read(&backup, *position)?;
            RowMark { database: manifest.identity().database }.write(files.path())?;
        }
        files.disk()
    };
    let disk = begun().map_err(external)?;
    definitions()?;
    backup::restore(&backup, &*disk).map(|_| ()).map_err(external)
}
