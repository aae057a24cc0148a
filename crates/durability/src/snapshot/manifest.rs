//! Manifests: the description of a snapshot, written last. Files without one are no snapshot.

use std::fmt::Write;

use crc32c::crc32c;
use thermocline_machine::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_tables::table::BlockNumber;
use thermocline_types::{Error, Result};

use crate::Semantics;
use crate::blocks::{References, Segment, SegmentExtent};
use crate::disk::{Disk, read_file};

/// Manifest format that this version writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 3;
/// Last format whose manifests do not name the engine's semantics.
const WITHOUT_SEMANTICS: u32 = 1;
/// Last format whose snapshots have all rows in their own files.
const WITHOUT_BLOCKS: u32 = 2;

/// Maximum bytes of a manifest, which has a line for each possible partition and each file of blocks.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Description of a snapshot; a text file, so that people can read it.
///
/// ```text
/// thermocline snapshot, format 3
/// semantics 2
/// database 0000000000000000000000000000002a
/// position 1234
/// transaction 5678
/// timestamp 1700000000000000
/// definitions: 345 bytes, checksum 0badcafe
/// partition 0: 2 rows, 96 bytes, checksum 0badcafe
/// partition 1: 0 rows, 64 bytes, checksum 0badcafe
/// next block 77
/// blocks-00001-00000000000000000005: 8192 bytes, checksum 0badcafe
/// checksum 0badcafe
/// ```
///
/// Checksums are CRC-32C, the last one of all lines before it. Files of blocks may be longer than the snapshot knows.
/// Formats 1 and 2 had no lines of blocks, and format 1 none of the [`Semantics`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Semantics with which its rows and definitions were made.
    pub semantics: Semantics,
    /// Its database.
    pub database: DatabaseId,
    /// It holds the effects of all records up to this one, and of none after it.
    pub position: Sequence,
    /// Last transaction number given out by then.
    pub transaction: TransactionId,
    /// Timestamp of that transaction.
    pub timestamp: Micros,
    /// Bytes and checksum of the definitions.
    pub definitions: (u64, u32),
    /// The rows of each partition, in the order of their numbers.
    pub partitions: Vec<PartitionRows>,
    /// Blocks with rows to which it refers.
    pub references: References,
}

/// The row file of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRows {
    /// Number of rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Checksum of all its bytes.
    pub checksum: u32,
}

/// File of the snapshot at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotFile {
    /// The manifest.
    Manifest(Sequence),
    /// Tables, indexes and procedures as SQL.
    Definitions(Sequence),
    /// Rows of a partition.
    Rows(Sequence, PartitionId),
}

impl SnapshotFile {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Manifest(position) => format!("snapshot-{:020}.manifest", position.0),
            Self::Definitions(position) => format!("snapshot-{:020}.sql", position.0),
            Self::Rows(position, partition) => format!("snapshot-{:020}-{:05}.rows", position.0, partition.0),
        }
    }

    /// The snapshot file with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("snapshot-")?;
        let (position, rest) = rest.split_at_checked(20)?;
        let position = Sequence(position.parse().ok()?);
        let file = match rest {
            ".manifest" => Self::Manifest(position),
            ".sql" => Self::Definitions(position),
            _ => {
                let partition = rest.strip_prefix('-')?.strip_suffix(".rows")?;
                Self::Rows(position, PartitionId(partition.parse().ok()?))
            }
        };
        (file.name() == name).then_some(file)
    }

    /// Position of its snapshot.
    pub const fn position(self) -> Sequence {
        match self {
            Self::Manifest(position) | Self::Definitions(position) | Self::Rows(position, _) => position,
        }
    }
}

/// The positions of snapshots that have a manifest, ascending.
pub fn list_snapshots(disk: &dyn Disk) -> Result<Vec<Sequence>> {
    let names = disk.list()?;
    let mut positions: Vec<Sequence> = names
        .iter()
        .filter_map(|name| match SnapshotFile::of_name(name)? {
            SnapshotFile::Manifest(position) => Some(position),
            _ => None,
        })
        .collect();
    positions.sort_unstable();
    Ok(positions)
}

/// The definitions of a snapshot, checked against its manifest.
pub fn read_definitions(disk: &dyn Disk, manifest: &Manifest) -> Result<String> {
    let name = SnapshotFile::Definitions(manifest.position).name();
    let bytes = read_file(disk, &name, manifest.definitions.0)?;
    if (bytes.len() as u64, crc32c(&bytes)) != manifest.definitions {
        return Err(Error::corrupt(format_args!("{name} is not the file of the snapshot's manifest")));
    }
    String::from_utf8(bytes).map_err(|_| Error::corrupt(format_args!("{name} is not UTF-8")))
}

impl Manifest {
    /// Identity of its database.
    pub fn identity(&self) -> Identity {
        // A manifest with more does not parse.
        let partitions = u16::try_from(self.partitions.len()).unwrap_or(u16::MAX);
        Identity { database: self.database, partitions }
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        self.to_text_of(FORMAT_VERSION)
    }

    fn to_text_of(&self, version: u32) -> String {
        let mut text = format!("thermocline snapshot, format {version}\n");
        let Self { semantics, database, position, transaction, timestamp, definitions, partitions, references } = self;
        let written = (|| {
            if version > WITHOUT_SEMANTICS {
                writeln!(text, "semantics {semantics}")?;
            }
            writeln!(text, "database {database}\nposition {position}")?;
            writeln!(text, "transaction {}\ntimestamp {}", transaction.0, timestamp.0)?;
            writeln!(text, "definitions: {} bytes, checksum {:08x}", definitions.0, definitions.1)?;
            for (number, PartitionRows { rows, bytes, checksum }) in partitions.iter().enumerate() {
                writeln!(text, "partition {number}: {rows} rows, {bytes} bytes, checksum {checksum:08x}")?;
            }
            if version > WITHOUT_BLOCKS {
                writeln!(text, "next block {}", references.next_block.0)?;
            }
            for SegmentExtent { segment, bytes, checksum } in &references.segments {
                writeln!(text, "{}: {bytes} bytes, checksum {checksum:08x}", segment.file_name())?;
            }
            writeln!(text, "checksum {:08x}", crc32c(text.as_bytes()))
        })();
        debug_assert!(written.is_ok(), "a String takes all");
        text
    }

    /// Reads the manifest of a snapshot.
    pub fn read(disk: &dyn Disk, position: Sequence) -> Result<Self> {
        let name = SnapshotFile::Manifest(position).name();
        let bytes = read_file(disk, &name, MANIFEST_BYTES_MAX)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let version = text.strip_prefix("thermocline snapshot, format ").and_then(|rest| rest.lines().next());
        let version = version.and_then(|version| version.parse::<u32>().ok()).unwrap_or(0);
        if version > FORMAT_VERSION {
            return Err(Error::cannot_open(format_args!(
                "{name} is of version {version} of the snapshots' format, which is newer than this program: it reads \
                 up to version {FORMAT_VERSION}"
            )));
        }
        let manifest = Self::parse(&text, version)
            .filter(|manifest| manifest.position == position)
            .ok_or_else(|| Error::corrupt(format_args!("{name} is damaged")))?;
        if manifest.semantics > Semantics::CURRENT {
            return Err(Error::cannot_open(format_args!(
                "{name} was written with version {} of the engine's semantics, which is newer than this program: it \
                 has version {}",
                manifest.semantics,
                Semantics::CURRENT
            )));
        }
        Ok(manifest)
    }

    /// Accepts exactly what [`to_text`](Self::to_text) writes, or wrote in earlier versions.
    fn parse(text: &str, version: u32) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let mut number = |prefix: &str| lines.next()?.strip_prefix(prefix);
        let semantics = match version > WITHOUT_SEMANTICS {
            true => Semantics(number("semantics ")?.parse().ok()?),
            false => Semantics::FIRST,
        };
        let database = DatabaseId(u128::from_str_radix(number("database ")?, 16).ok()?);
        let position = Sequence(number("position ")?.parse().ok()?);
        let transaction = TransactionId(number("transaction ")?.parse().ok()?);
        let timestamp = Micros(number("timestamp ")?.parse().ok()?);
        let definitions = size_and_checksum(number("definitions: ")?)?;
        let (mut partitions, mut references) = (Vec::new(), References::default());
        for line in lines {
            if let Some(rest) = line.strip_prefix("partition ") {
                let (rows, rest) = rest.split_once(": ")?.1.split_once(" rows, ")?;
                let (bytes, checksum) = size_and_checksum(rest)?;
                partitions.push(PartitionRows { rows: rows.parse().ok()?, bytes, checksum });
            } else if let Some(number) = line.strip_prefix("next block ") {
                references.next_block = BlockNumber(number.parse().ok()?);
            } else if let Some((name, rest)) = line.split_once(": ") {
                let (segment, (bytes, checksum)) = (Segment::of_name(name)?, size_and_checksum(rest)?);
                references.segments.push(SegmentExtent { segment, bytes, checksum });
            }
        }
        let manifest =
            Self { semantics, database, position, transaction, timestamp, definitions, partitions, references };
        let right = u16::try_from(manifest.partitions.len()).is_ok_and(|count| count > 0);
        (right && version > 0 && manifest.to_text_of(version) == text).then_some(manifest)
    }
}

fn size_and_checksum(text: &str) -> Option<(u64, u32)> {
    let (bytes, checksum) = text.split_once(" bytes, checksum ")?;
    Some((bytes.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Faults, SimulatedDisk};

    #[test]
    fn the_text_is_fixed_and_every_changed_bit_is_noticed() {
        let manifest = Manifest {
            semantics: Semantics(2),
            database: DatabaseId(42),
            position: Sequence(1234),
            transaction: TransactionId(5678),
            timestamp: Micros(-1),
            definitions: (345, 0xbad_cafe),
            partitions: vec![
                PartitionRows { rows: 2, bytes: 96, checksum: 1 },
                PartitionRows { rows: 0, bytes: 64, checksum: u32::MAX },
            ],
            references: References {
                next_block: BlockNumber(9),
                segments: vec![SegmentExtent {
                    segment: Segment { partition: PartitionId(1), number: 5 },
                    bytes: 8192,
                    checksum: 7,
                }],
            },
        };
        let text = "thermocline snapshot, format 3
semantics 2
database 0000000000000000000000000000002a
position 1234
transaction 5678
timestamp -1
definitions: 345 bytes, checksum 0badcafe
partition 0: 2 rows, 96 bytes, checksum 00000001
partition 1: 0 rows, 64 bytes, checksum ffffffff
next block 9
blocks-00001-00000000000000000005: 8192 bytes, checksum 00000007
";
        let sealed = |text: &str| format!("{text}checksum {:08x}\n", crc32c(text.as_bytes()));
        let (unsealed, text) = (text, sealed(text));
        assert_eq!(manifest.to_text(), text);

        let disk = SimulatedDisk::new(1, Faults::default());
        let name = SnapshotFile::Manifest(Sequence(1234)).name();
        let read = |bytes: Vec<u8>| {
            disk.overwrite(&name, bytes);
            Manifest::read(&disk, Sequence(1234))
        };
        assert_eq!(read(text.clone().into_bytes()), Ok(manifest.clone()));
        let (before, _) = unsealed.split_once("next block").unwrap();
        let second = Manifest { references: References::default(), ..manifest };
        assert_eq!(read(sealed(&before.replace("format 3", "format 2")).into_bytes()), Ok(second.clone()), "version 2");
        let first = before.replace("format 3\nsemantics 2", "format 1");
        let expected = Manifest { semantics: Semantics::FIRST, ..second };
        assert_eq!(read(sealed(&first).into_bytes()), Ok(expected), "of version 1");
        let newer = sealed(&unsealed.replace("semantics 2", "semantics 9"));
        let error = read(newer.into_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("version 9 of") && error.contains(&format!("it has version {}", Semantics::CURRENT)),
            "{error}"
        );
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read(changed), Err(Error::Corrupt(_) | Error::CannotOpen(_))), "bit {bit}");
        }
        let newer = text.replace("format 3", "format 4").into_bytes();
        let error = read(newer).unwrap_err().to_string();
        assert!(error.contains("version 4 of") && error.contains("up to version 3"), "{error}");
    }

    #[test]
    fn names_and_files() {
        let position = Sequence(7);
        for file in [
            SnapshotFile::Manifest(position),
            SnapshotFile::Definitions(position),
            SnapshotFile::Rows(position, PartitionId(3)),
        ] {
            assert_eq!(SnapshotFile::of_name(&file.name()), Some(file));
            assert_eq!(SnapshotFile::of_name(&format!("{}.tmp", file.name())), None);
        }
        assert_eq!(SnapshotFile::Rows(position, PartitionId(3)).name(), "snapshot-00000000000000000007-00003.rows");
    }
}
