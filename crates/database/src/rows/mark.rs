use std::path::{Path, PathBuf};

use thermocline_transactions::disk::{RealDisk, read_file, write_file_whole};
use thermocline_transactions::ids::DatabaseId;
use thermocline_transactions::log::list_segments;
use thermocline_transactions::snapshot::list_snapshots;
use thermocline_transactions::{Error, Result};

use super::files::ROWS;

/// The name of the file.
const FILE: &str = "rows.id";
/// What this program writes, and the newest that it reads.
const VERSION: u32 = 1;
/// Bytes of the file at most.
const BYTES_MAX: u64 = 4096;

/// What a database's directory says of its row tables outside of their own: that there are any.
///
/// Without it a database whose `rows` is gone would open as one that never had row tables. Written once
/// the first record of the log is durable, before the statement is answered:
///
/// ```text
///              first record durable                    restore
///   (no file) ----------------------> log yes   (no file) --> log no -- first record durable --> log yes
/// ```
///
/// From then on there is always a segment of the log: the last one is kept when a snapshot covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowMark {
    /// The database whose files have to be there.
    pub database: DatabaseId,
    /// Whether they include a log; a restored backup has only a snapshot.
    pub has_log: bool,
}

impl RowMark {
    /// Reads that of a database's directory; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is of a newer version.
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
            Ok(VERSION) => {}
            Ok(newer) if newer > VERSION => {
                return Err(Error::cannot_open(format_args!(
                    "{} is of version {newer}, which is newer than this program",
                    path.display()
                )));
            }
            _ => return Err(wrong("version", version)),
        }
        let (database, log) = (field("database")?, field("log")?);
        let id = u128::from_str_radix(database, 16).map_err(|_| wrong("database", database))?;
        let has_log = match log {
            "yes" => true,
            "no" => false,
            other => return Err(wrong("log", other)),
        };
        Ok(Some(Self { database: DatabaseId(id), has_log }))
    }

    /// Writes it into a database's directory, so that a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, directory: &Path) -> Result<()> {
        let log = if self.has_log { "yes" } else { "no" };
        let text = format!(
            "This database has row tables, in {ROWS}/. Without this file nobody would notice that they are gone.\n\
             version {VERSION}\ndatabase {}\nlog {log}\n",
            self.database
        );
        write_file_whole(&RealDisk::open(directory)?, FILE, text.as_bytes())
    }

    /// An error that says what is missing, unless what the mark promises is there.
    ///
    /// # Errors
    /// As said, and if the directory cannot be read.
    pub fn check_present(self, directory: &Path) -> Result<()> {
        let rows = directory.join(ROWS);
        let missing = if !rows.exists() {
            format!("{} is missing", rows.display())
        } else {
            let disk = RealDisk::open(&rows)?;
            match (list_segments(&disk)?.is_empty(), list_snapshots(&disk)?.is_empty()) {
                (false, _) => return Ok(()),
                (true, false) if !self.has_log => return Ok(()),
                (true, true) => format!("{} has neither log nor snapshot", rows.display()),
                (true, false) => format!("{} has no log (log-*)", rows.display()),
            }
        };
        Err(Error::cannot_open(format_args!("cannot open {}: {missing}. {}", directory.display(), way_out(directory))))
    }

    /// An error unless the files that were opened are this database's.
    ///
    /// # Errors
    /// As said.
    pub fn check_same(self, directory: &Path, opened: DatabaseId) -> Result<()> {
        if self.database == opened {
            return Ok(());
        }
        let (rows, own) = (directory.join(ROWS), self.database);
        Err(Error::cannot_open(format_args!(
            "cannot open {}: {} is of database {opened}, not of {own}. {}",
            directory.display(),
            rows.display(),
            way_out(directory)
        )))
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
        for has_log in [false, true] {
            let mark = RowMark { database: DatabaseId(0xabc << 100 | 7), has_log };
            mark.write(directory.path()).unwrap();
            assert_eq!(RowMark::read(directory.path()), Ok(Some(mark)));
        }
    }

    #[test]
    fn files_that_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        for (text, said) in [
            ("", "no line 'version ...'"),
            ("version 2\n", "newer"),
            ("version x\n", "'version x' is not understood"),
            ("version 1\ndatabase g\nlog yes\n", "'database g'"),
            ("version 1\ndatabase 1\nlog perhaps\n", "'log perhaps'"),
            ("version 1\ndatabase 1\n", "no line 'log ...'"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = RowMark::read(directory.path()).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(path.to_str().unwrap()), "{text}: {error}");
        }
        std::fs::write(&path, vec![b'x'; 5000]).unwrap();
        assert!(RowMark::read(directory.path()).unwrap_err().to_string().contains("5000 bytes"));
    }
}
