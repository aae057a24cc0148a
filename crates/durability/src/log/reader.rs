//! Reading segments.

use thermocline_machine::ids::{DatabaseId, Sequence};
use thermocline_types::{Error, Result};

use super::segment::{
    ALIGNMENT, FORMAT_VERSION, GROUP_BYTES_MAX, GROUP_HEADER_BYTES, Group, GroupHeader, NotAHeader, ROOM_BYTES_MAX,
    SEGMENT_HEADER_BYTES, SegmentHeader, SegmentNumber, is_torn,
};
use crate::Semantics;
use crate::disk::{Disk, ReadFile};

/// Most bytes behind the last whole group of a segment, or in place of its header.
const BEHIND_BYTES_MAX: u64 = (SEGMENT_HEADER_BYTES + GROUP_HEADER_BYTES + GROUP_BYTES_MAX) as u64 + ROOM_BYTES_MAX;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Reads one segment from front to back.
#[derive(Debug)]
pub struct SegmentReader {
    name: String,
    file: Box<dyn ReadFile>,
    header: SegmentHeader,
    /// Offset of the next group.
    offset: u64,
    /// First sequence of the next group.
    next: Sequence,
    buffer: Buffer,
}

/// Next item of a segment.
#[derive(Debug)]
pub enum Next<'a> {
    /// A whole group.
    Group(Group<'a>),
    /// The segment was ended on purpose here.
    Sealed,
    /// The file ends here, behind a whole group, or has only zeros from here on.
    End,
    /// A write that did not complete begins here, and nothing follows it.
    Torn,
}

/// Result of opening a segment.
#[derive(Debug)]
pub enum Opened {
    /// Whole.
    Reader(SegmentReader),
    /// Not written completely.
    Torn,
}

impl SegmentReader {
    /// Opens a segment. Damage, a newer version and, if `database` is given, a segment of another database are errors.
    /// Its [header](Self::header) has the database's number of partitions at that time.
    pub fn open(disk: &dyn Disk, segment: SegmentNumber, database: Option<DatabaseId>) -> Result<Opened> {
        let name = segment.file_name();
        let file = disk.open(&name)?;
        let mut buffer = Buffer::default();
        let start = buffer.fill(&*file, 0, SEGMENT_HEADER_BYTES)?;
        let header = SegmentHeader::read(start);
        if matches!(header, Err(NotAHeader::Torn)) {
            check_behind(&name, &*file, 0)?;
        }
        let header = match header {
            Ok(header) => header,
            Err(NotAHeader::Torn) if is_zero_from(&*file, SEGMENT_HEADER_BYTES as u64)? => return Ok(Opened::Torn),
            Err(NotAHeader::Newer(version)) => {
                return Err(Error::cannot_open(format_args!(
                    "{name} is of version {version} of the log's format, which is newer than this program: it reads \
                     up to version {FORMAT_VERSION}"
                )));
            }
            Err(NotAHeader::NewerSemantics(semantics)) => {
                return Err(Error::cannot_open(format_args!(
                    "{name} was written with version {semantics} of the engine's semantics, which is newer than this \
                     program: it has version {}",
                    Semantics::CURRENT
                )));
            }
            Err(NotAHeader::Damaged | NotAHeader::Torn) => {
                return Err(Error::corrupt(format_args!("{name}, offset 0: damaged header")));
            }
        };
        if header.segment != segment {
            return Err(Error::corrupt(format_args!("{name} holds segment {} of the log", header.segment.0)));
        }
        match database {
            Some(database) if database != header.identity.database => {
                let other = header.identity.database;
                Err(Error::corrupt(format_args!("{name} is of database {other}, not of {database}")))
            }
            _ => {
                let (offset, next) = (SEGMENT_HEADER_BYTES as u64, header.first);
                Ok(Opened::Reader(Self { name, file, header, offset, next, buffer }))
            }
        }
    }

    /// Its header.
    pub const fn header(&self) -> SegmentHeader {
        self.header
    }

    /// Offset at which the next group begins or would begin.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The sequence of the record after those of all groups read so far.
    pub const fn next_sequence(&self) -> Sequence {
        self.next
    }

    /// The next group. An error names file and offset.
    ///
    /// A group that is not whole is torn only if one of its sectors, or its end, shows that it was not written (see
    /// [`crate::disk`]; no trailer ends in a zero), and nothing follows it: everything before the last group was
    /// durable before that group was begun. Everything else is damage. So a flipped bit in the very last group is also
    /// found, and not mistaken for a torn write, unless that group contains a whole sector of zeros.
    pub fn next_group(&mut self) -> Result<Next<'_>> {
        let start = self.offset;
        let bytes = self.buffer.fill(&*self.file, start, GROUP_HEADER_BYTES)?;
        if bytes.is_empty() {
            return Ok(Next::End);
        }
        let Some(header) = GroupHeader::read(bytes, self.header.segment, self.next) else {
            check_behind(&self.name, &*self.file, start)?;
            if bytes.iter().all(|byte| *byte == 0) && is_zero_from(&*self.file, start)? {
                return Ok(Next::End);
            }
            let torn = is_torn(bytes, start, GROUP_HEADER_BYTES) && !self.has_group_behind(start)?;
            // At least a trailer would follow a header that was written.
            if torn || is_zero_from(&*self.file, start + GROUP_HEADER_BYTES as u64)? {
                return Ok(Next::Torn);
            }
            return Err(self.damaged(start, "the header of a log group is damaged"));
        };
        let length = GROUP_HEADER_BYTES + header.length;
        let bytes = self.buffer.fill(&*self.file, start, length)?;
        let checked = Group::check(header, bytes.get(GROUP_HEADER_BYTES..).unwrap_or_default());
        let records = match checked {
            Ok(records) => records,
            Err(place) => {
                check_behind(&self.name, &*self.file, start)?;
                let torn = is_torn(bytes, start, length) || bytes.last() == Some(&0);
                if torn && is_zero_from(&*self.file, start + length as u64)? {
                    return Ok(Next::Torn);
                }
                return Err(self.damaged(start + (GROUP_HEADER_BYTES + place) as u64, "a log record is damaged"));
            }
        };
        self.offset += length as u64;
        self.next = header.first.plus(header.count.into());
        if header.seal {
            // A segment that was ended before it was full may still have room.
            check_behind(&self.name, &*self.file, self.offset)?;
            if !is_zero_from(&*self.file, self.offset)? {
                return Err(self.damaged(self.offset, "bytes behind the end of the segment"));
            }
            return Ok(Next::Sealed);
        }
        let bytes = self.buffer.fill(&*self.file, start, length)?;
        let records = bytes.get(GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + records).unwrap_or_default();
        Ok(Next::Group(Group::of_checked(header, records)))
    }

    /// Whether a later group of this segment follows a header that cannot be read.
    fn has_group_behind(&self, start: u64) -> Result<bool> {
        let mut window = vec![0; READ_BYTES];
        let mut offset = start + ALIGNMENT as u64;
        loop {
            let read = self.file.read_at(offset, &mut window)?;
            let places = read.saturating_sub(GROUP_HEADER_BYTES - ALIGNMENT);
            for place in (0..places).step_by(ALIGNMENT) {
                let bytes = window.get(place..read).unwrap_or_default();
                let found = GroupHeader::read_any(bytes);
                if found.is_some_and(|(header, of)| of == self.header.segment && header.first > self.next) {
                    return Ok(true);
                }
            }
            if read < window.len() {
                return Ok(false);
            }
            offset += (places.next_multiple_of(ALIGNMENT)) as u64;
        }
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(format_args!("{}, offset {offset}: {what}", self.name))
    }
}

/// An error if a segment has more bytes behind its last whole group than an incomplete group and room can take. This
/// program has not written them. A file that was extended, perhaps beyond the size of any disk, is not read to its end
/// to find out.
fn check_behind(name: &str, file: &dyn ReadFile, offset: u64) -> Result<()> {
    let length = file.length()?;
    let behind = length.saturating_sub(offset);
    if behind <= BEHIND_BYTES_MAX {
        return Ok(());
    }
    Err(Error::corrupt(format_args!(
        "{name}, offset {offset}: {behind} bytes stand here, to the end of the file, and are no records; a write that was \
         cut short leaves {BEHIND_BYTES_MAX} at most"
    )))
}

/// Whether a file has only zeros from an offset on.
fn is_zero_from(file: &dyn ReadFile, start: u64) -> Result<bool> {
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = start;
    loop {
        let read = file.read_at(offset, &mut buffer)?;
        if buffer.iter().take(read).any(|byte| *byte != 0) {
            return Ok(false);
        }
        if read < buffer.len() {
            return Ok(true);
        }
        offset += read as u64;
    }
}

/// A piece of a file.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Its offset in the file.
    start: u64,
}

impl Buffer {
    /// Returns `length` bytes of the file from `offset` on; fewer only at its end.
    fn fill(&mut self, file: &dyn ReadFile, offset: u64, length: usize) -> Result<&[u8]> {
        let skip = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let held = self.bytes.get(skip..).is_some_and(|held| held.len() >= length);
        if !held {
            // A length from a damaged header must not allocate more memory than the file fills.
            let rest = usize::try_from(file.length()?.saturating_sub(offset)).unwrap_or(usize::MAX);
            self.bytes.resize(length.max(READ_BYTES).min(rest), 0);
            let read = file.read_at(offset, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = offset;
            return Ok(self.bytes.get(..length).unwrap_or(&self.bytes));
        }
        Ok(self.bytes.get(skip..skip + length).unwrap_or_default())
    }
}

/// The segments of a log, ascending.
pub fn list_segments(disk: &dyn Disk) -> Result<Vec<SegmentNumber>> {
    let names = disk.list()?;
    Ok(names.iter().filter_map(|name| SegmentNumber::of_file_name(name)).collect())
}
