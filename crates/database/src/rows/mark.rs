//! The file `DB/rows.id`, by which a lost directory of row tables is noticed.

use std::path::{Path, PathBuf};

use thermocline_transactions::backup::check_whole;
use thermocline_transactions::disk::{RealDisk, read_file, write_file_whole};
use thermocline_transactions::ids::DatabaseId;
use thermocline_transactions::log::{CONTROL, Control};
use thermocline_transactions::{Error, Result};

use super::files::ROWS;

/// File name.
const FILE: &str = "rows.id";
/// Version that this program writes, and the newest that it reads.
const VERSION: u32 = 2;
/// Limit on bytes of the file.
const BYTES_MAX: u64 = 4096;

/// Identity of the row tables in a database directory.
///
/// Without the mark, a database whose `rows` was deleted would open as one that never had row tables. It is written
/// once, when the row engine is first started or before a backup is restored; from then on the [`Control`] of `rows`,
/// which records how far the log reaches, has to name the same database.
///
/// Version 1 had an additional line, which is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowMark {
    /// The database whose files must exist.
    pub database: DatabaseId,
}

impl RowMark {
    /// Reads the mark of a database directory; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or has a newer version.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_file(&RealDisk::open(directory)?, FILE, BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes);
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.ok_or_else(|| Error::corrupt(format_args!("{}: it has no line '{name} ...'", path.display())))
        };
        let wrong = |name: &str, value: &str| {
            Error::corrupt(format_args!("{}: '{name} {value}' is not understood", path.display()))
        };
        let version = field("version")?;
        match version.parse::<u32>() {
            Ok(1..=VERSION) => {}
            Ok(newer) if newer > VERSION => {
                return Err(Error::cannot_open(format_args!(
                    "{} is of version {newer}, which is newer than this program",
                    path.display()
                )));
            }
            _ => return Err(wrong("version", version)),
        }
        let database = field("database")?;
        let id = u128::from_str_radix(database, 16).map_err(|_| wrong("database", database))?;
        Ok(Some(Self { database: DatabaseId(id) }))
    }

    /// Writes the mark atomically: a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, directory: &Path) -> Result<()> {
        let text = format!(
            "This database has row tables, in {ROWS}/. Without this file nobody would notice that they are gone.\n\
             version {VERSION}\ndatabase {}\n",
            self.database
        );
        write_file_whole(&RealDisk::open(directory)?, FILE, text.as_bytes())
    }

    /// Checks that the row tables of this database exist in its directory. Opening them checks that they are complete.
    ///
    /// # Errors
    /// If they are missing or belong to another database, or the directory cannot be read.
    pub fn check(self, directory: &Path) -> Result<()> {
        let rows = directory.join(ROWS);
        let wrong = if !rows.exists() {
            format!("{} is missing", rows.display())
        } else {
            let disk = RealDisk::open(&rows)?;
            // What an interrupted restore has not yet written is not lost.
            check_whole(&disk)?;
            match Control::read(&disk) {
                Ok(Some(control)) if control.identity.database == self.database => return Ok(()),
                Ok(Some(control)) => {
                    let (other, own) = (control.identity.database, self.database);
                    format!("{} is of database {other}, not of {own}", rows.display())
                }
                Ok(None) => format!("{} is missing", rows.join(CONTROL).display()),
                // Opening reports damage in more detail.
                Err(Error::Corrupt(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        Err(Error::cannot_open(format_args!("cannot open {}: {wrong}. {}", directory.display(), way_out(directory))))
    }
}

fn way_out(directory: &Path) -> String {
    let file: PathBuf = directory.join(FILE);
    format!(
        "Put back what was there, or restore a backup into another directory (thermocline restore); \
         removing {} gives up what is missing",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(RowMark::read(directory.path()), Ok(None));
        let mark = RowMark { database: DatabaseId(0xabc << 100 | 7) };
        mark.write(directory.path()).unwrap();
        assert_eq!(RowMark::read(directory.path()), Ok(Some(mark)));
        let path = directory.path().join(FILE);
        let before = std::fs::read_to_string(&path).unwrap().replace("version 2", "version 1") + "log yes\n";
        std::fs::write(&path, before).unwrap();
        assert_eq!(RowMark::read(directory.path()), Ok(Some(mark)));
    }

    #[test]
    fn files_that_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        for (text, said) in [
            ("", "no line 'version ...'"),
            ("version 3\n", "newer"),
            ("version 0\n", "'version 0' is not understood"),
            ("version x\n", "'version x' is not understood"),
            ("version 2\ndatabase g\n", "'database g'"),
            ("version 2\n", "no line 'database ...'"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = RowMark::read(directory.path()).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(path.to_str().unwrap()), "{text}: {error}");
        }
        std::fs::write(&path, vec![b'x'; 5000]).unwrap();
        assert!(RowMark::read(directory.path()).unwrap_err().to_string().contains("5000 bytes"));
    }
}
