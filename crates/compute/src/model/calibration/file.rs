//! The file of a database's calibrations.
//!
//! ```text
//! thermocline calibration 1 sha256 HEX LF     version of the format, SHA-256 of all that follows
//! JSON LF                                     the calibrations, an array
//! ```
//!
//! Invariant: the first line is equal to what would be written before the rest of the file, so that no byte can change.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thermocline_catalog::replace_file;
use thermocline_pushdown::ContentDigest;

use super::error::{CalibrationFileError, Cause};
use super::record::Calibration;

/// Name of the file in a database's directory.
pub const CALIBRATION_FILE: &str = "calibration.json";
/// Beginning of the file, up to the version.
const MAGIC: &str = "thermocline calibration ";
/// Version of the format.
const VERSION: u32 = 1;
/// Bytes of the largest file that is read: thousands of nodes.
const BYTES_MAX: u64 = 16 << 20;

/// The file in one database directory.
#[derive(Debug, Clone)]
pub struct CalibrationFile {
    path: PathBuf,
}

impl CalibrationFile {
    /// The file of the database in `directory`, whether it is there or not.
    pub fn of(directory: &Path) -> Self {
        Self { path: directory.join(CALIBRATION_FILE) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The calibrations; none if there is no file.
    ///
    /// # Errors
    /// If the file is damaged, of a newer version, or cannot be read; the error names it.
    pub fn read(&self) -> Result<Vec<Calibration>, CalibrationFileError> {
        let failed = |cause| CalibrationFileError::new(&self.path, cause);
        let mut bytes = vec![];
        let opened = fs::metadata(&self.path).and_then(|metadata| match metadata.is_file() {
            true => File::open(&self.path),
            // Opening a pipe may never end.
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(failed(Cause::Unreadable(error))),
        };
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(Cause::Unreadable(error)))?;
        parse(&bytes).map_err(failed)
    }

    /// Replaces all calibrations: written aside, synced and renamed, so that a crash leaves the old file or the new one.
    ///
    /// # Errors
    /// If a number of a calibration is impossible, or the directory cannot be written; then the old file stays, and
    /// nothing beside it.
    pub fn write(&self, calibrations: &[Calibration]) -> io::Result<()> {
        let text = print(calibrations).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why));
        let written = text.and_then(|text| replace_file(&self.path, |file| file.write_all(text.as_bytes())));
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

fn header(body: &str) -> String {
    format!("{MAGIC}{VERSION} sha256 {}\n", ContentDigest::of(body.as_bytes()))
}

fn print(calibrations: &[Calibration]) -> Result<String, String> {
    calibrations.iter().try_for_each(Calibration::check)?;
    let mut body = serde_json::to_string_pretty(calibrations).map_err(|error| error.to_string())?;
    body.push('\n');
    Ok(header(&body) + &body)
}

fn parse(bytes: &[u8]) -> Result<Vec<Calibration>, Cause> {
    let damaged = |how: &str| Cause::Damaged(how.to_owned());
    // The first line comes first: what follows it may have another form in a newer version.
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = std::str::from_utf8(first).map_err(|_| damaged("its first line is not text"))?;
    let rest = first.strip_prefix(MAGIC).ok_or_else(|| damaged("its first line is not that of a calibration"))?;
    let version = rest.split(' ').next().unwrap_or_default();
    match version.parse::<u32>() {
        Ok(VERSION) => {}
        Ok(found) if found > VERSION => return Err(Cause::Newer { found, known: VERSION }),
        _ => return Err(Cause::Damaged(format!("its format has version '{version}', which never existed"))),
    }
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Cause::Damaged(format!("it has more than {BYTES_MAX} bytes, which no calibration has")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let (_, body) = text.split_once('\n').ok_or_else(|| damaged("its first line is incomplete"))?;
    if header(body).trim_end_matches('\n') != first {
        return Err(damaged("its content does not match its checksum"));
    }
    let calibrations: Vec<Calibration> =
        serde_json::from_str(body).map_err(|error| Cause::Damaged(error.to_string()))?;
    calibrations.iter().try_for_each(Calibration::check).map_err(Cause::Damaged)?;
    Ok(calibrations)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::calibration;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        assert_eq!(file.read().unwrap(), []);
        for written in [vec![], vec![calibration("a:1")], vec![calibration("a:1"), calibration("b:2")]] {
            file.write(&written).unwrap();
            assert_eq!(file.read().unwrap(), written);
        }
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [CALIBRATION_FILE], "nothing is left aside");
    }

    #[test]
    fn what_cannot_be_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        file.write(&[calibration("a:1")]).unwrap();
        let mut wrong = calibration("a:1");
        wrong.rates.slowness = f64::INFINITY;
        let error = file.write(&[wrong]).unwrap_err().to_string();
        assert!(error.contains(CALIBRATION_FILE) && error.contains("slowness"), "{error}");
        assert_eq!(file.read().unwrap(), [calibration("a:1")]);
    }

    /// Every damage is an error that names the file.
    #[test]
    fn damage_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        file.write(&[calibration("a:1")]).unwrap();
        let good = fs::read(file.path()).unwrap();
        let check = |damaged: &[u8], what: &dyn std::fmt::Display| {
            fs::write(file.path(), damaged).unwrap();
            let error = file.read().expect_err(&what.to_string()).to_string();
            assert!(error.contains(CALIBRATION_FILE), "{what}: {error}");
        };
        for length in 0..good.len() {
            check(&good[..length], &format_args!("the first {length} bytes"));
        }
        for position in 0..good.len() {
            for flipped in [0x01, 0x20, 0x80, 0xff] {
                let mut damaged = good.clone();
                damaged[position] ^= flipped;
                check(&damaged, &format_args!("byte {position} xor {flipped:#x}"));
            }
        }
        check(&[good.clone(), b"\n".to_vec()].concat(), &"one byte more");
    }

    #[test]
    fn a_newer_version_s_file_is_not_a_damaged_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        for (content, is_newer) in [
            ("thermocline calibration 2 sha256 0\n[]\n", true),
            ("thermocline calibration 17\nanother form \u{1f980}", true),
            ("thermocline calibration 2", true),
            ("thermocline calibration 0 sha256 0\n[]\n", false),
            ("thermocline calibration 1 sha256 0\n[]\n", false),
            ("thermocline calibration two\n", false),
            ("thermocline calibration 99999999999999\n", false),
            ("", false),
        ] {
            fs::write(file.path(), content).unwrap();
            let error = file.read().unwrap_err();
            assert_eq!(error.is_replaceable(), !is_newer, "{content}: {error}");
            let said = error.to_string();
            assert!(said.contains(CALIBRATION_FILE), "{said}");
            assert_eq!((said.contains("newer version"), said.contains("damaged")), (is_newer, !is_newer), "{said}");
        }
        let bytes = [b"thermocline calibration 3 \n".to_vec(), vec![0xff; BYTES_MAX as usize]].concat();
        fs::write(file.path(), bytes).unwrap();
        assert!(!file.read().unwrap_err().is_replaceable(), "whatever it has beyond its first line");
    }

    /// Permissions do not hold for root, who may run this; a directory cannot be read by anybody.
    #[test]
    fn what_cannot_be_read_is_not_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        std::os::unix::fs::symlink("/dev/zero", file.path()).unwrap();
        let error = file.read().unwrap_err();
        assert!(error.to_string().contains("not a regular file") && !error.is_replaceable(), "{error}");
        fs::remove_file(file.path()).unwrap();
        fs::create_dir(file.path()).unwrap();
        let error = file.read().unwrap_err();
        assert!(!error.is_replaceable(), "{error}");
        let said = error.to_string();
        assert!(said.contains(CALIBRATION_FILE) && said.contains("cannot be read"), "{said}");
        assert!(error.remedy().contains("move it away"));
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_aside() {
        let directory = tempfile::tempdir().unwrap();
        let file = CalibrationFile::of(directory.path());
        let names =
            || -> Vec<_> { fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
        // Nothing is renamed over a directory.
        fs::create_dir(file.path()).unwrap();
        let error = file.write(&[calibration("a:1")]).unwrap_err().to_string();
        assert!(error.contains(CALIBRATION_FILE), "{error}");
        assert_eq!(names(), [CALIBRATION_FILE]);
        fs::remove_dir(file.path()).unwrap();
        // A disk without room, where there is one.
        if Path::new("/dev/full").exists() {
            file.write(&[calibration("a:1")]).unwrap();
            std::os::unix::fs::symlink("/dev/full", directory.path().join("calibration.json.tmp")).unwrap();
            let error = file.write(&[calibration("b:2")]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
            assert_eq!(names(), [CALIBRATION_FILE]);
            assert_eq!(file.read().unwrap(), [calibration("a:1")]);
        }
    }
}
