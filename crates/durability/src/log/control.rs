//! The control file, which says how far a log must go at least.

use crc32c::crc32c;
use thermocline_machine::ids::{DatabaseId, Identity};
use thermocline_types::{Error, Result};

use super::segment::SegmentNumber;
use crate::disk::{Disk, read_file, write_file_whole};

/// Name of the file.
pub const CONTROL: &str = "control";

/// Format version that this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 3;
/// It has four short lines.
const BYTES_MAX: u64 = 1 << 10;

/// Line for a log without a record.
const NOT_BEGUN: &str = "log not begun";
/// Prefix of the number of the newest segment.
const UP_TO: &str = "log up to segment ";
/// The same for a sealed segment.
const ENDED: &str = "log ended with segment ";

/// Identity of a directory's database, and the least extent of its log. Without it, a directory whose log was deleted
/// would look like a new database or a backup, and one whose newest segment is gone, or cut off by an incomplete copy,
/// like an older state.
///
/// ```text
/// thermocline rows, format 3
/// database 0000000000000000000000000000002a, 2 partitions
/// log up to segment 7
/// checksum 0badcafe
/// ```
///
/// A closed log has `log ended with segment 7`. Version 2 did not have that line; version 1 had `log begun` instead of
/// a segment, which means any segment from the first on.
///
/// Invariants:
/// - the file names a segment after its first group is durable, and before anybody is told of that group
/// - from then on this segment or a later one exists and has a record: a snapshot removes only earlier ones
/// - the file says that a segment has ended only after its seal is durable
/// - a backup has no such file
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// The database.
    pub identity: Identity,
    /// Least extent of its log.
    pub log: LogExtent,
}

/// Least extent of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogExtent {
    /// It has no record.
    NotBegun,
    /// It goes up to a segment with a record; only a segment that nobody was told of may be newer.
    UpTo(SegmentNumber),
    /// The same, and that segment is sealed.
    Ended(SegmentNumber),
}

impl Control {
    /// Reads the control file of a directory; `None` if it has none. A damaged file, or one of a newer version, is an
    /// error.
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        if !disk.list()?.iter().any(|name| name == CONTROL) {
            return Ok(None);
        }
        let text = String::from_utf8(read_file(disk, CONTROL, BYTES_MAX)?).unwrap_or_default();
        let version = text.strip_prefix("thermocline rows, format ").and_then(|rest| rest.lines().next());
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(version) if version > FORMAT_VERSION => Err(Error::cannot_open(format_args!(
                "{CONTROL} is of version {version} of its format, which is newer than this program: it reads up to \
                 version {FORMAT_VERSION}"
            ))),
            _ => Self::parse(&text).map(Some).ok_or_else(|| Error::corrupt(format_args!("{CONTROL} is damaged"))),
        }
    }

    /// Writes the control file of a directory in one step.
    pub fn write(self, disk: &dyn Disk) -> Result<()> {
        write_file_whole(disk, CONTROL, self.to_text().as_bytes())
    }

    fn to_text(self) -> String {
        let Identity { database, partitions } = self.identity;
        let log = match self.log {
            LogExtent::NotBegun => NOT_BEGUN.to_owned(),
            LogExtent::UpTo(segment) => format!("{UP_TO}{}", segment.0),
            LogExtent::Ended(segment) => format!("{ENDED}{}", segment.0),
        };
        let text =
            format!("thermocline rows, format {FORMAT_VERSION}\ndatabase {database}, {partitions} partitions\n{log}\n");
        let checksum = crc32c(text.as_bytes());
        format!("{text}checksum {checksum:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (text, checksum) = text.split_at_checked(text.rfind("checksum ")?)?;
        if checksum != format!("checksum {:08x}\n", crc32c(text.as_bytes())) {
            return None;
        }
        let mut lines = text.lines().skip(1);
        let (database, partitions) = lines.next()?.strip_prefix("database ")?.split_once(", ")?;
        let database = DatabaseId(u128::from_str_radix(database, 16).ok()?);
        let partitions = partitions.strip_suffix(" partitions")?.parse().ok()?;
        let segment = |number: &str| number.parse().ok().map(SegmentNumber);
        let log = match lines.next()? {
            NOT_BEGUN => LogExtent::NotBegun,
            "log begun" => LogExtent::UpTo(SegmentNumber::FIRST),
            log => match log.strip_prefix(ENDED) {
                Some(number) => LogExtent::Ended(segment(number)?),
                None => LogExtent::UpTo(segment(log.strip_prefix(UP_TO)?)?),
            },
        };
        (partitions > 0).then_some(Self { identity: Identity { database, partitions }, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Faults, SimulatedDisk};

    #[test]
    fn the_text_is_fixed_and_every_changed_bit_is_noticed() {
        let identity = Identity { database: DatabaseId(42), partitions: 2 };
        let control = Control { identity, log: LogExtent::UpTo(SegmentNumber(17)) };
        let sealed = |text: &str| format!("{text}checksum {:08x}\n", crc32c(text.as_bytes()));
        let of = "database 0000000000000000000000000000002a, 2 partitions";
        let text = sealed(&format!("thermocline rows, format 3\n{of}\nlog up to segment 17\n"));
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
        disk.overwrite(CONTROL, text.replace("format 3", "format 4").into_bytes());
        let error = Control::read(&disk).unwrap_err();
        assert!(error.to_string().contains("control is of version 4"), "{error}");
        let first = Control { log: LogExtent::UpTo(SegmentNumber::FIRST), ..control };
        let begun = sealed(&format!("thermocline rows, format 1\n{of}\nlog begun\n"));
        disk.overwrite(CONTROL, begun.into_bytes());
        assert_eq!(Control::read(&disk), Ok(Some(first)), "of version 1");
        let ended = Control { log: LogExtent::Ended(SegmentNumber(17)), ..control };
        ended.write(&disk).unwrap();
        assert_eq!(Control::read(&disk), Ok(Some(ended)));
        let of_before = sealed(&format!("thermocline rows, format 2\n{of}\nlog up to segment 17\n"));
        disk.overwrite(CONTROL, of_before.into_bytes());
        assert_eq!(Control::read(&disk), Ok(Some(control)), "of version 2");
        let new = Control { log: LogExtent::NotBegun, ..control };
        new.write(&disk).unwrap();
        assert_eq!(Control::read(&disk), Ok(Some(new)));
        for unknown in ["log up to segment x", "log ended with segment", "log perhaps", ""] {
            let text = sealed(&format!("thermocline rows, format 3\n{of}\n{unknown}\n"));
            disk.overwrite(CONTROL, text.into_bytes());
            assert!(matches!(Control::read(&disk), Err(Error::Corrupt(_))), "{unknown}");
        }
    }
}
