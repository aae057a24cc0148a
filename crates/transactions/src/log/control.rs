//! The file that says that there has to be a log.

use crc32c::crc32c;

use crate::disk::{Disk, read_file, write_file_whole};
use crate::ids::{DatabaseId, Identity};
use crate::{Error, Result};

/// Its name.
pub const CONTROL: &str = "control";

/// The version of the format that this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;
/// It has four short lines.
const BYTES_MAX: u64 = 1 << 10;

/// Which database a directory is of, and whether it has a log. Without it, a directory whose log somebody has
/// deleted would be a new database, or a backup.
///
/// ```text
/// thermocline rows, format 1
/// database 0000000000000000000000000000002a, 2 partitions
/// log begun
/// checksum 0badcafe
/// ```
///
/// Invariants:
/// - `begun` is written after the first group of the log is durable, and before anybody is told of it
/// - from then on there is a segment with a record: of the log, a snapshot removes all but the last
/// - a backup has none
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// The database.
    pub identity: Identity,
    /// Whether its log has a record.
    pub begun: bool,
}

impl Control {
    /// That of a directory; `None` if it has none. A damaged one, or one of a newer version, is an error.
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        if !disk.list()?.iter().any(|name| name == CONTROL) {
            return Ok(None);
        }
        let text = String::from_utf8(read_file(disk, CONTROL, BYTES_MAX)?).unwrap_or_default();
        let version = text.strip_prefix("thermocline rows, format ").and_then(|rest| rest.lines().next());
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(version) if version > FORMAT_VERSION => Err(Error::cannot_open(format_args!(
                "{CONTROL} is of version {version} of its format, which is newer than this program"
            ))),
            _ => Self::parse(&text).map(Some).ok_or_else(|| Error::corrupt(format_args!("{CONTROL} is damaged"))),
        }
    }

    /// Makes it that of a directory, in one step.
    pub fn write(self, disk: &dyn Disk) -> Result<()> {
        write_file_whole(disk, CONTROL, self.to_text().as_bytes())
    }

    fn to_text(self) -> String {
        let Identity { database, partitions } = self.identity;
        let begun = if self.begun { "begun" } else { "not begun" };
        let text = format!(
            "thermocline rows, format {FORMAT_VERSION}\ndatabase {database}, {partitions} partitions\nlog {begun}\n"
        );
        let checksum = crc32c(text.as_bytes());
        format!("{text}checksum {checksum:08x}\n")
    }

    /// Accepts exactly what [`Control::to_text`] writes.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let (database, partitions) = lines.next()?.strip_prefix("database ")?.split_once(", ")?;
        let database = DatabaseId(u128::from_str_radix(database, 16).ok()?);
        let partitions = partitions.strip_suffix(" partitions")?.parse().ok()?;
        let begun = lines.next()? == "log begun";
        let control = Self { identity: Identity { database, partitions }, begun };
        (partitions > 0 && control.to_text() == text).then_some(control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Faults, SimulatedDisk};

    #[test]
    fn the_text_is_fixed_and_every_changed_bit_is_noticed() {
        let control = Control { identity: Identity { database: DatabaseId(42), partitions: 2 }, begun: true };
        let text = "thermocline rows, format 1\ndatabase 0000000000000000000000000000002a, 2 partitions\nlog begun\n";
        let text = format!("{text}checksum {:08x}\n", crc32c(text.as_bytes()));
        let disk = SimulatedDisk::new(1, Faults::default());
        assert_eq!(Control::read(&disk), Ok(None));
        control.write(&disk).unwrap();
        assert_eq!(read_file(&disk, CONTROL, 1 << 10).unwrap(), text.as_bytes());
        assert_eq!(Control::read(&disk), Ok(Some(control)));
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            disk.overwrite(CONTROL, changed);
            assert!(matches!(Control::read(&disk), Err(Error::Corrupt(_) | Error::CannotOpen(_))), "bit {bit}");
        }
        disk.overwrite(CONTROL, text.replace("format 1", "format 3").into_bytes());
        let error = Control::read(&disk).unwrap_err();
        assert!(error.to_string().contains("control is of version 3"), "{error}");
        let new = Control { begun: false, ..control };
        new.write(&disk).unwrap();
        assert_eq!(Control::read(&disk), Ok(Some(new)));
    }
}
