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

use thermocline_pushdown::ContentDigest;

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
    /// If the file is damaged, of another version, or cannot be read; the error names it.
    pub fn read(&self) -> io::Result<Vec<Calibration>> {
        let mut bytes = vec![];
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(self.failed(&error)),
        };
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| self.failed(&error))?;
        parse(&bytes).map_err(|why| self.failed(&io::Error::new(io::ErrorKind::InvalidData, why)))
    }

    /// Replaces all calibrations: written aside, synced and renamed, so that a crash leaves the old file or the new one.
    ///
    /// # Errors
    /// If a number of a calibration is impossible, or the directory cannot be written.
    pub fn write(&self, calibrations: &[Calibration]) -> io::Result<()> {
        let aside = self.path.with_extension("json.tmp");
        let written = (|| {
            let text = print(calibrations).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
            let mut file = File::create(&aside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&aside, &self.path)?;
            match self.path.parent() {
                Some(directory) => File::open(directory)?.sync_all(),
                None => Ok(()),
            }
        })();
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

fn parse(bytes: &[u8]) -> Result<Vec<Calibration>, String> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes, which no calibration has"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is damaged: it is no text".to_owned())?;
    let (first, body) = text.split_once('\n').ok_or("it is damaged: it has no whole line")?;
    let rest = first.strip_prefix(MAGIC).ok_or("it is damaged, or no calibration: its first line is another one")?;
    let version = rest.split(' ').next().unwrap_or_default();
    match version.parse::<u32>() {
        Ok(version) if version == VERSION => {}
        Ok(version) => return Err(format!("its format is version {version}, and this program knows {VERSION}")),
        Err(_) => return Err("it is damaged: its version is no number".to_owned()),
    }
    if header(body).trim_end_matches('\n') != first {
        return Err("it is damaged: its checksum is that of another content".to_owned());
    }
    let calibrations: Vec<Calibration> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    calibrations.iter().try_for_each(Calibration::check)?;
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
        let later = String::from_utf8(good).unwrap().replacen("calibration 1 ", "calibration 2 ", 1);
        fs::write(file.path(), later).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
    }
}
