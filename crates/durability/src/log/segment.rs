//! Segments: the files of the log, and the groups in them.

use crc32c::crc32c;
use thermocline_machine::ids::{DatabaseId, Identity, Sequence};

use super::bytes::{Bytes, put_at};
use super::record::{self, Record};
use crate::Semantics;
use crate::disk::SECTOR;

/// Segment format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 2;
/// Last format whose segments do not name the engine's semantics.
const WITHOUT_SEMANTICS: u32 = 1;

/// Bytes of the header of a segment.
///
/// ```text
/// 0        8       12         14   16       32      40             48        52   60       64
/// THERMLOG version partitions zero database segment first sequence semantics zero checksum | groups
/// ```
///
/// The checksum is CRC-32C of what stands before it. Magic and version keep their places in all
/// versions. Version 1 had zeros in place of the [`Semantics`].
pub const SEGMENT_HEADER_BYTES: usize = AT_CHECKSUM + 4;

const SEGMENT_MAGIC: &[u8; 8] = b"THERMLOG";
const AT_VERSION: usize = SEGMENT_MAGIC.len();
const AT_PARTITIONS: usize = AT_VERSION + 4;
const AT_DATABASE: usize = AT_PARTITIONS + 4;
const AT_SEGMENT: usize = AT_DATABASE + 16;
const AT_FIRST: usize = AT_SEGMENT + 8;
const AT_SEMANTICS: usize = AT_FIRST + 8;
const AT_CHECKSUM: usize = AT_SEMANTICS + 12;
const _: () = assert!(SEGMENT_HEADER_BYTES == 64);

/// Bytes in front of the records of a group.
///
/// ```text
/// 0     4     8              16      24     28       32
/// magic count first sequence segment length checksum | records | zeros | trailer (8)
/// ```
///
/// The length is of all behind the header; zeros make it a multiple of 8. The checksum is CRC-32C of
/// the header before it; records have their own. The magic is `recs`, or `seal` for the group without
/// records that ends a segment.
///
/// Zeros may follow the last group: room for the next ones.
///
/// A group is written after the one before it is durable, and is acknowledged as a whole. So an incomplete group can
/// only be the last thing in the last segment (a torn tail, which nobody was told of); anywhere else it is damage.
pub const GROUP_HEADER_BYTES: usize = AT_GROUP_CHECKSUM + 4;

/// Trailer of a group. It is not zero, so that it shows whether the disk wrote the group's end.
pub const GROUP_TRAILER: &[u8; 8] = b"groupend";

const AT_GROUP_CHECKSUM: usize = 28;
const _: () = assert!(GROUP_HEADER_BYTES == 32);
const _: () = assert!(!matches!(GROUP_TRAILER, [.., 0]));
/// Header, padding and trailer are multiples of this, so that no sector holds a smaller piece of a group.
pub(super) const ALIGNMENT: usize = 8;
const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(ALIGNMENT) && GROUP_HEADER_BYTES.is_multiple_of(ALIGNMENT));

/// Maximum bytes behind a group's header: a full buffer and one more record.
pub const GROUP_BYTES_MAX: usize = 1 << 30;

/// Maximum bytes of [room](super::LogSettings::room_bytes).
pub const ROOM_BYTES_MAX: u64 = 256 << 20;

/// The number of a segment, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// The first.
    pub const FIRST: Self = Self(1);

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The name of its file.
    pub fn file_name(self) -> String {
        format!("log-{:020}", self.0)
    }

    /// The segment of a file with this name.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let number = Self(name.strip_prefix("log-")?.parse().ok()?);
        (number.file_name() == name).then_some(number)
    }
}

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its database.
    pub identity: Identity,
    /// Its own number.
    pub segment: SegmentNumber,
    /// Sequence that its first record has or would have.
    pub first: Sequence,
    /// Semantics that its commands ran with.
    pub semantics: Semantics,
}

/// Reason why bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAHeader {
    /// Its format version is newer than this program.
    Newer(u32),
    /// Its version of the engine's semantics is newer than this program.
    NewerSemantics(Semantics),
    /// Not written completely: nobody was told of anything after it.
    Torn,
    /// Written and changed afterwards.
    Damaged,
}

impl SegmentHeader {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        put_at(&mut bytes, 0, SEGMENT_MAGIC);
        put_at(&mut bytes, AT_VERSION, &FORMAT_VERSION.to_le_bytes());
        put_at(&mut bytes, AT_PARTITIONS, &self.identity.partitions.to_le_bytes());
        put_at(&mut bytes, AT_DATABASE, &self.identity.database.0.to_le_bytes());
        put_at(&mut bytes, AT_SEGMENT, &self.segment.0.to_le_bytes());
        put_at(&mut bytes, AT_FIRST, &self.first.0.to_le_bytes());
        put_at(&mut bytes, AT_SEMANTICS, &self.semantics.0.to_le_bytes());
        let checksum = crc32c(bytes.get(..AT_CHECKSUM).unwrap_or_default());
        put_at(&mut bytes, AT_CHECKSUM, &checksum.to_le_bytes());
        bytes
    }

    /// Reads the start of a segment.
    pub fn read(start: &[u8]) -> Result<Self, NotAHeader> {
        Self::parse(start).unwrap_or(Err(NotAHeader::Damaged)).map_err(|why| match why {
            // The header lies within one sector, which is written whole or reads as zeros.
            NotAHeader::Damaged if start.len() < SEGMENT_HEADER_BYTES || start.iter().all(|byte| *byte == 0) => {
                NotAHeader::Torn
            }
            other => other,
        })
    }

    fn parse(start: &[u8]) -> Option<Result<Self, NotAHeader>> {
        let mut bytes = Bytes::new(start.get(..SEGMENT_HEADER_BYTES)?);
        if bytes.array()? != *SEGMENT_MAGIC {
            return None;
        }
        let version = bytes.u32()?;
        if version > FORMAT_VERSION {
            return Some(Err(NotAHeader::Newer(version)));
        }
        let (partitions, _) = (bytes.u16()?, bytes.u16()?);
        let identity = Identity { database: DatabaseId(u128::from_le_bytes(bytes.array()?)), partitions };
        let (segment, first) = (SegmentNumber(bytes.u64()?), Sequence(bytes.u64()?));
        let semantics = match bytes.u32()? {
            _ if version <= WITHOUT_SEMANTICS => Semantics::FIRST,
            semantics => Semantics(semantics),
        };
        bytes.take(AT_CHECKSUM - AT_SEMANTICS - 4)?;
        if bytes.u32()? != crc32c(start.get(..AT_CHECKSUM)?) {
            return None;
        }
        let newer = semantics > Semantics::CURRENT;
        Some(if newer {
            Err(NotAHeader::NewerSemantics(semantics))
        } else {
            Ok(Self { identity, segment, first, semantics })
        })
    }
}
const _: () = assert!(SEGMENT_HEADER_BYTES as u64 <= SECTOR);

/// Completes a group whose records follow room for its header: fills in sequences, checksums and the header, and
/// appends the trailer.
pub(super) fn seal_group(group: &mut Vec<u8>, segment: SegmentNumber, first: Sequence) {
    let count = record::seal(group.get_mut(GROUP_HEADER_BYTES..).unwrap_or_default(), first);
    finish_group(group, *b"recs", count, segment, first);
}

/// The group that ends a segment; `next` is the sequence of the record that comes first in the next.
pub fn end_of_segment(segment: SegmentNumber, next: Sequence) -> Vec<u8> {
    let mut group = vec![0; GROUP_HEADER_BYTES];
    finish_group(&mut group, *b"seal", 0, segment, next);
    group
}

fn finish_group(group: &mut Vec<u8>, magic: [u8; 4], count: u64, segment: SegmentNumber, first: Sequence) {
    group.resize(group.len().next_multiple_of(ALIGNMENT), 0);
    group.extend_from_slice(GROUP_TRAILER);
    // Both are far below 2^32: see `GROUP_BYTES_MAX`.
    let length = u32::try_from(group.len() - GROUP_HEADER_BYTES).unwrap_or(u32::MAX);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut header = [0; GROUP_HEADER_BYTES];
    put_at(&mut header, 0, &magic);
    put_at(&mut header, 4, &count.to_le_bytes());
    put_at(&mut header, 8, &first.0.to_le_bytes());
    put_at(&mut header, 16, &segment.0.to_le_bytes());
    put_at(&mut header, 24, &length.to_le_bytes());
    let checksum = crc32c(header.get(..AT_GROUP_CHECKSUM).unwrap_or_default());
    put_at(&mut header, AT_GROUP_CHECKSUM, &checksum.to_le_bytes());
    put_at(group, 0, &header);
}

/// Header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupHeader {
    /// Whether it ends the segment.
    pub seal: bool,
    /// Number of records.
    pub count: u32,
    /// Sequence of the first.
    pub first: Sequence,
    /// Bytes behind the header.
    pub length: usize,
}

impl GroupHeader {
    /// Reads a header; `None` if the bytes are not the header of a group of this segment that begins with this
    /// sequence.
    pub fn read(start: &[u8], segment: SegmentNumber, first: Sequence) -> Option<Self> {
        Self::read_any(start).filter(|(header, of)| (*of, header.first) == (segment, first)).map(|(header, _)| header)
    }

    /// Reads the header of any group, and the number of its segment.
    pub fn read_any(start: &[u8]) -> Option<(Self, SegmentNumber)> {
        let mut bytes = Bytes::new(start.get(..GROUP_HEADER_BYTES)?);
        let seal = match &bytes.array::<4>()? {
            b"recs" => false,
            b"seal" => true,
            _ => return None,
        };
        let count = bytes.u32()?;
        let (first, segment) = (Sequence(bytes.u64()?), SegmentNumber(bytes.u64()?));
        let length = usize::try_from(bytes.u32()?).ok()?;
        let whole = bytes.u32()? == crc32c(start.get(..AT_GROUP_CHECKSUM)?)
            && (GROUP_TRAILER.len()..=GROUP_BYTES_MAX).contains(&length);
        whole.then_some((Self { seal, count, first, length }, segment))
    }
}

/// Records of a group that was checked as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    records: &'a [u8],
    count: u32,
}

impl<'a> Group<'a> {
    /// Checks the bytes behind a header and returns how many of them are records; the error is the offset of the first
    /// wrong byte from the end of the header.
    pub(super) fn check(header: GroupHeader, behind: &[u8]) -> Result<usize, usize> {
        let mut rest = behind;
        let mut sequence = header.first;
        for _ in 0..header.count {
            record::check(&mut rest, sequence).ok_or(behind.len() - rest.len())?;
            sequence = sequence.next();
        }
        let place = behind.len() - rest.len();
        let padding = place.next_multiple_of(ALIGNMENT) - place;
        let right = rest.len() == padding + GROUP_TRAILER.len()
            && rest.ends_with(GROUP_TRAILER)
            && rest.iter().take(padding).all(|byte| *byte == 0);
        if right { Ok(place) } else { Err(place) }
    }

    /// Records of a [checked](Self::check) group.
    pub(super) const fn of_checked(header: GroupHeader, records: &'a [u8]) -> Self {
        Self { records, count: header.count }
    }

    /// Bytes of the records.
    pub const fn bytes(&self) -> &'a [u8] {
        self.records
    }

    /// The records of these [bytes](Self::bytes) of a group, in order.
    pub fn records_of(bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> {
        let mut rest = bytes;
        std::iter::from_fn(move || record::read_checked(&mut rest))
    }

    /// Number of records.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Each record, in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> {
        Self::records_of(self.records)
    }
}

/// Whether bytes of a file, from `offset` on, show an incomplete write: the file ends before `length` of them, or their
/// part of some sector is all zeros.
pub(super) fn is_torn(bytes: &[u8], offset: u64, length: usize) -> bool {
    if bytes.len() < length {
        return true;
    }
    let mut rest = bytes.get(..length).unwrap_or_default();
    let mut offset = offset;
    while !rest.is_empty() {
        let in_sector = usize::try_from(SECTOR - offset % SECTOR).unwrap_or(usize::MAX).min(rest.len());
        let (share, behind) = rest.split_at(in_sector);
        if share.iter().all(|byte| *byte == 0) {
            return true;
        }
        offset += in_sector as u64;
        rest = behind;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Batch;
    use crate::log::record::tests::head;

    const HEADER: SegmentHeader = SegmentHeader {
        identity: Identity { database: DatabaseId(0x0a0b), partitions: 2 },
        segment: SegmentNumber(3),
        first: Sequence(9),
        semantics: Semantics(2),
    };

    fn group() -> Vec<u8> {
        let mut batch = Batch::default();
        batch.definition(&head(&[]), "DROP TABLE t").unwrap();
        batch.definition(&head(&[]), "DROP TABLE u").unwrap();
        let mut group = vec![0; GROUP_HEADER_BYTES];
        group.extend_from_slice(batch.as_slice());
        seal_group(&mut group, SegmentNumber(3), Sequence(9));
        group
    }

    /// The stored format.
    #[test]
    fn the_bytes_are_fixed() {
        let mut expected = b"THERMLOG".to_vec();
        expected.extend_from_slice(&[2, 0, 0, 0, 2, 0, 0, 0]);
        expected.extend_from_slice(&[0x0b, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&crc32c(&expected).to_le_bytes());
        assert_eq!(HEADER.to_bytes()[..], expected);
        assert_eq!(SegmentHeader::read(&expected), Ok(HEADER));
        // Version 1 does not name the semantics.
        let mut first = expected;
        (first[AT_VERSION], first[AT_SEMANTICS]) = (1, 0);
        reseal(&mut first);
        assert_eq!(SegmentHeader::read(&first), Ok(SegmentHeader { semantics: Semantics::FIRST, ..HEADER }));

        let group = group();
        let mut expected = b"recs".to_vec();
        expected.extend_from_slice(&[2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 144, 0, 0, 0]);
        expected.extend_from_slice(&crc32c(&expected).to_le_bytes());
        assert_eq!(group[..GROUP_HEADER_BYTES], expected);
        assert_eq!(group.len(), GROUP_HEADER_BYTES + 144);
        assert_eq!(group[group.len() - 8..], *b"groupend");

        assert_eq!(SegmentNumber(3).file_name(), "log-00000000000000000003");
        assert_eq!(SegmentNumber::of_file_name("log-00000000000000000003"), Some(SegmentNumber(3)));
        assert_eq!(SegmentNumber::of_file_name("log-3"), None);
    }

    fn reseal(header: &mut [u8]) {
        let checksum = crc32c(&header[..AT_CHECKSUM]);
        header[AT_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    #[test]
    fn headers_that_are_none() {
        let bytes = HEADER.to_bytes();
        let mut newer = bytes;
        newer[AT_VERSION] = 3;
        assert_eq!(SegmentHeader::read(&newer), Err(NotAHeader::Newer(3)));
        let mut newer = bytes;
        newer[AT_SEMANTICS] = 9;
        assert_eq!(SegmentHeader::read(&newer), Err(NotAHeader::Damaged), "its checksum is of another one");
        reseal(&mut newer);
        assert_eq!(SegmentHeader::read(&newer), Err(NotAHeader::NewerSemantics(Semantics(9))));
        assert_eq!(SegmentHeader::read(&bytes[..63]), Err(NotAHeader::Torn));
        assert_eq!(SegmentHeader::read(&[0; 64]), Err(NotAHeader::Torn));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            let read = SegmentHeader::read(&changed);
            assert!(matches!(read, Err(NotAHeader::Damaged | NotAHeader::Newer(_))), "bit {bit}: {read:?}");
        }
    }

    #[test]
    fn any_changed_bit_of_a_group_is_noticed() {
        let bytes = group();
        let read = |bytes: &[u8]| {
            let header = GroupHeader::read(bytes, SegmentNumber(3), Sequence(9))?;
            let behind = &bytes[GROUP_HEADER_BYTES..];
            let group = Group::of_checked(header, &behind[..Group::check(header, behind).ok()?]);
            Some((group.count(), group.records().map(|record| record.sequence.0).collect::<Vec<_>>()))
        };
        assert_eq!(read(&bytes), Some((2, vec![9, 10])));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), None, "bit {bit}");
        }
        assert_eq!(GroupHeader::read(&bytes, SegmentNumber(4), Sequence(9)), None);
        assert_eq!(GroupHeader::read(&bytes, SegmentNumber(3), Sequence(8)), None);
    }

    #[test]
    fn torn_is_short_or_has_a_sector_of_zeros() {
        assert!(is_torn(&[1; 99], 500, 100));
        assert!(!is_torn(&[1; 100], 500, 100));
        let mut bytes = [1; 100];
        bytes[..12].fill(0);
        assert!(is_torn(&bytes, 500, 100), "the twelve bytes in the first sector");
        assert!(!is_torn(&bytes, 499, 100));
        bytes[12] = 0;
        bytes[0] = 1;
        assert!(!is_torn(&bytes, 500, 100));
    }
}
