//! The rows of one partition in a file.

use crc32c::{crc32c, crc32c_append, crc32c_combine};
use thermocline_machine::ids::{DatabaseId, LoadId, PartitionId, Sequence};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::TupleId;
use thermocline_types::{Error, Result};

use super::manifest::{PartitionRows, SnapshotFile};
use crate::disk::{Disk, ReadFile};
use crate::log::{Bytes, put_at, put_counted};

/// Row file format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 2;
/// Oldest format that it reads, which had no rows of loads.
const FIRST_VERSION: u32 = 1;

/// Bytes of rows after which a chunk is complete; it exceeds them by one row at most.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of the header of a row file.
///
/// ```text
/// 0        8       12        14   16       32       40   60       64
/// THERMROW version partition zero database position zero checksum | chunks
///
/// chunk: 0      4        8     12    16
///        length checksum table count | load (8), if it is of one | tuple (4), counted image; for each row
/// ```
///
/// Rows of a load that was not over are in chunks of their own, whose table number has the highest bit set.
/// All numbers are little-endian. Length is of the whole chunk, its checksum CRC-32C of all its other
/// bytes. Length, checksum and number of rows of the whole file are in the manifest.
const HEADER_BYTES: usize = AT_CHECKSUM + 4;

const MAGIC: &[u8; 8] = b"THERMROW";
const AT_VERSION: usize = MAGIC.len();
const AT_PARTITION: usize = AT_VERSION + 4;
const AT_DATABASE: usize = AT_PARTITION + 4;
const AT_POSITION: usize = AT_DATABASE + 16;
const AT_CHECKSUM: usize = AT_POSITION + 28;
const _: () = assert!(HEADER_BYTES == 64);

const CHUNK_HEADER_BYTES: usize = AT_COUNT + 4;
const AT_CHUNK_CHECKSUM: usize = 4;
const AT_TABLE: usize = AT_CHUNK_CHECKSUM + 4;
const AT_COUNT: usize = AT_TABLE + 4;
/// Flag in a table number: the rows belong to a load.
const OF_LOAD: u32 = 1 << 31;
const LOAD_BYTES: usize = 8;
/// Maximum bytes of a chunk.
const CHUNK_BYTES_MAX: usize =
    CHUNK_HEADER_BYTES + LOAD_BYTES + CHUNK_BYTES + 8 + thermocline_tables::table::ROW_BYTES_MAX;

/// Header of a row file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsHeader {
    /// Its database.
    pub database: DatabaseId,
    /// The snapshot's place in the log.
    pub position: Sequence,
    /// Partition of the rows.
    pub partition: PartitionId,
}

impl RowsHeader {
    /// Its bytes.
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        self.to_bytes_of(FORMAT_VERSION)
    }

    fn to_bytes_of(self, version: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put_at(&mut bytes, 0, MAGIC);
        put_at(&mut bytes, AT_VERSION, &version.to_le_bytes());
        put_at(&mut bytes, AT_PARTITION, &self.partition.0.to_le_bytes());
        put_at(&mut bytes, AT_DATABASE, &self.database.0.to_le_bytes());
        put_at(&mut bytes, AT_POSITION, &self.position.0.to_le_bytes());
        let checksum = crc32c(bytes.get(..AT_CHECKSUM).unwrap_or_default());
        put_at(&mut bytes, AT_CHECKSUM, &checksum.to_le_bytes());
        bytes
    }
}

/// Collects rows into a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkBuilder {
    bytes: Vec<u8>,
    /// Table of the rows; `None` before the first.
    table: Option<TableId>,
    /// Load of the rows; `None` for visible rows.
    load: Option<LoadId>,
    count: u32,
}

impl ChunkBuilder {
    /// A builder for rows of an unfinished load.
    pub fn of_load(load: LoadId) -> Self {
        Self { load: Some(load), ..Self::default() }
    }

    /// Adds a row; returns the previous chunk if that is complete or of another table. A new chunk takes the memory of
    /// `spare`.
    pub fn push(&mut self, table: TableId, tuple: TupleId, image: &[u8], spare: &mut Vec<u8>) -> Option<Vec<u8>> {
        let complete = self.bytes.len() >= CHUNK_BYTES || self.table != Some(table);
        let chunk = if complete { self.take() } else { None };
        if self.bytes.is_empty() {
            if self.bytes.capacity() == 0 {
                self.bytes = std::mem::take(spare);
            }
            self.bytes.resize(CHUNK_HEADER_BYTES, 0);
            self.bytes.extend(self.load.iter().flat_map(|load| load.0.to_le_bytes()));
            self.table = Some(table);
        }
        let needed = 8 + image.len();
        if self.bytes.len() > CHUNK_BYTES / 4 && self.bytes.capacity() - self.bytes.len() < needed {
            // Grows to the end of the chunk instead of doubling.
            self.bytes.reserve_exact(CHUNK_BYTES.saturating_sub(self.bytes.len()) + needed);
        }
        self.bytes.extend_from_slice(&tuple.0.to_le_bytes());
        put_counted(&mut self.bytes, image);
        self.count += 1;
        chunk
    }

    /// The rows so far as a chunk; `None` if there are none.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let table = self.table.filter(|_| self.count > 0)?;
        let mut bytes = std::mem::take(&mut self.bytes);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        put_at(&mut bytes, 0, &length.to_le_bytes());
        let of_load = if self.load.is_some() { OF_LOAD } else { 0 };
        put_at(&mut bytes, AT_TABLE, &(table.0 | of_load).to_le_bytes());
        put_at(&mut bytes, AT_COUNT, &std::mem::take(&mut self.count).to_le_bytes());
        Some(bytes)
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
const _: () = assert!(CHUNK_BYTES_MAX < u32::MAX as usize);

/// Fills in the checksum of a chunk and returns its number of rows.
pub(super) fn seal_chunk(chunk: &mut [u8]) -> u64 {
    let checksum = checksum_of(chunk);
    put_at(chunk, AT_CHUNK_CHECKSUM, &checksum.to_le_bytes());
    Bytes::new(chunk.get(AT_COUNT..).unwrap_or_default()).u32().unwrap_or(0).into()
}

fn checksum_of(chunk: &[u8]) -> u32 {
    let (length, rest) = chunk.split_at_checked(AT_TABLE).unwrap_or_default();
    crc32c_append(crc32c(length.get(..AT_CHUNK_CHECKSUM).unwrap_or_default()), rest)
}

/// Rows of one table, checked.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The table.
    pub table: TableId,
    /// Load of the rows; `None` for visible rows.
    pub load: Option<LoadId>,
    /// Number of rows.
    pub count: u32,
    rows: Bytes<'a>,
}

impl<'a> Chunk<'a> {
    /// Each row and its image, in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = (TupleId, &'a [u8])> {
        let mut bytes = self.rows;
        std::iter::from_fn(move || Some((TupleId(bytes.u32()?), bytes.counted()?)))
    }

    /// The chunk in bytes that a [`RowFileReader`] has read; `None` for other bytes.
    pub fn of_read(chunk: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes::new(chunk.get(AT_TABLE..)?);
        let (table, count) = (bytes.u32()?, bytes.u32()?);
        let load = if table & OF_LOAD == 0 { None } else { Some(LoadId(bytes.u64()?)) };
        Some(Self { table: TableId(table & !OF_LOAD), load, count, rows: bytes })
    }

    /// Checks a chunk; also returns the checksum of the bytes after its own checksum.
    fn parse(chunk: &'a [u8]) -> Option<(Self, u32)> {
        let parsed = Self::of_read(chunk)?;
        let mut rows = parsed.rows;
        for _ in 0..parsed.count {
            rows.u32()?;
            rows.counted()?;
        }
        let (head, rest) = chunk.split_at_checked(AT_TABLE)?;
        let (length, checksum) = head.split_at_checked(AT_CHUNK_CHECKSUM)?;
        // Computed once for two checksums.
        let behind = crc32c(rest);
        let is_whole = Bytes::new(checksum).u32()? == crc32c_combine(crc32c(length), behind, rest.len());
        (rows.is_empty() && is_whole).then_some((parsed, behind))
    }
}

/// Reads a row file from front to back.
#[derive(Debug)]
pub struct RowFileReader {
    name: String,
    file: Box<dyn ReadFile>,
    expected: PartitionRows,
    offset: u64,
    rows: u64,
    checksum: u32,
    /// Whether chunks were skipped, so that the whole file's checksum and row count are unknown.
    is_partial: bool,
    buffer: Vec<u8>,
}

impl RowFileReader {
    /// Opens the file that a manifest describes; any other file is an error.
    pub fn open(disk: &dyn Disk, header: RowsHeader, expected: PartitionRows) -> Result<Self> {
        let name = SnapshotFile::Rows(header.position, header.partition).name();
        let file = disk.open(&name)?;
        let mut start = [0; HEADER_BYTES];
        file.read_at(0, &mut start)?;
        let version = Bytes::new(start.get(AT_VERSION..).unwrap_or_default()).u32().unwrap_or(0);
        if start.starts_with(MAGIC) && version > FORMAT_VERSION {
            return Err(Error::cannot_open(format_args!(
                "{name} is of version {version} of the row files' format, which is newer than this program: it reads \
                 up to version {FORMAT_VERSION}"
            )));
        }
        if version < FIRST_VERSION || start != header.to_bytes_of(version) {
            return Err(Error::corrupt(format_args!("{name}, offset 0: not the header of this row file")));
        }
        if file.length()? != expected.bytes {
            let length = file.length()?;
            return Err(Error::corrupt(format_args!(
                "{name} has {length} bytes, {} in the snapshot's manifest",
                expected.bytes
            )));
        }
        let (offset, checksum) = (HEADER_BYTES as u64, crc32c(&start));
        Ok(Self { name, file, expected, offset, rows: 0, checksum, is_partial: false, buffer: Vec::new() })
    }

    /// The next chunk; `None` after the last. An error names file and offset.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_next(&mut buffer, |_| true);
        self.buffer = buffer;
        Ok(if read? { Chunk::of_read(&self.buffer) } else { None })
    }

    /// Reads the next chunk of a wanted table, for [`Chunk::of_read`]; returns false after the last.
    pub fn read_next(&mut self, chunk: &mut Vec<u8>, wanted: impl Fn(TableId) -> bool) -> Result<bool> {
        loop {
            let start = self.offset;
            if start == self.expected.bytes {
                let is_whole = self.rows == self.expected.rows && self.checksum == self.expected.checksum;
                if is_whole || self.is_partial {
                    return Ok(false);
                }
                return Err(self.damaged(0, "not the file of the snapshot's manifest"));
            }
            let mut header = [0; CHUNK_HEADER_BYTES];
            self.file.read_at(start, &mut header)?;
            let number = |at: usize| Bytes::new(header.get(at..).unwrap_or_default()).u32().unwrap_or(0);
            let (length, table) = (usize::try_from(number(0)).unwrap_or(usize::MAX), number(AT_TABLE));
            if !(CHUNK_HEADER_BYTES..=CHUNK_BYTES_MAX).contains(&length) {
                return Err(self.damaged(start, "the length of a chunk is damaged"));
            }
            if !wanted(TableId(table & !OF_LOAD)) {
                self.is_partial = true;
                self.offset = start.saturating_add(length as u64).min(self.expected.bytes);
                continue;
            }
            chunk.resize(length, 0);
            let read = self.file.read_at(start, chunk)?;
            let parsed = Chunk::parse(chunk.get(..read).unwrap_or_default());
            let Some((parsed, behind)) = parsed else { return Err(self.damaged(start, "a chunk is damaged")) };
            self.offset += length as u64;
            self.rows += u64::from(parsed.count);
            let head = crc32c_append(self.checksum, chunk.get(..AT_TABLE).unwrap_or_default());
            self.checksum = crc32c_combine(head, behind, length - AT_TABLE);
            return Ok(true);
        }
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(format_args!("{}, offset {offset}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored format.
    #[test]
    fn the_bytes_are_fixed() {
        let header = RowsHeader { database: DatabaseId(5), position: Sequence(6), partition: PartitionId(7) };
        let mut expected = b"THERMROW".to_vec();
        expected.extend_from_slice(&[2, 0, 0, 0, 7, 0, 0, 0]);
        expected.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[6, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[0; 20]);
        expected.extend_from_slice(&crc32c(&expected).to_le_bytes());
        assert_eq!(header.to_bytes()[..], expected);

        let mut builder = ChunkBuilder::default();
        assert_eq!(builder.push(TableId(3), TupleId(9), b"abc", &mut Vec::new()), None);
        assert_eq!(builder.push(TableId(3), TupleId(1), b"", &mut Vec::new()), None);
        let mut chunk = builder.push(TableId(4), TupleId(0), b"x", &mut Vec::new()).unwrap();
        assert_eq!(seal_chunk(&mut chunk), 2);
        let mut expected = vec![35, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0];
        expected.extend_from_slice(&[9, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c', 1, 0, 0, 0, 0, 0, 0, 0]);
        let checksum = crc32c(&expected);
        expected.splice(4..4, checksum.to_le_bytes());
        assert_eq!(chunk, expected);
        let mut builder = ChunkBuilder::of_load(LoadId(77));
        assert_eq!(builder.push(TableId(3), TupleId(9), b"abc", &mut Vec::new()), None);
        let mut hidden = builder.take().unwrap();
        seal_chunk(&mut hidden);
        assert_eq!(
            hidden[8..],
            [3, 0, 0, 128, 1, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c']
        );
        let (read, _) = Chunk::parse(&hidden).unwrap();
        assert_eq!((read.table, read.load, read.count), (TableId(3), Some(LoadId(77)), 1));
        assert_eq!(read.rows().collect::<Vec<_>>(), [(TupleId(9), &b"abc"[..])]);
        let (read, _) = Chunk::parse(&chunk).unwrap();
        assert_eq!((read.table, read.load, read.count), (TableId(3), None, 2));
        assert_eq!(read.rows().collect::<Vec<_>>(), [(TupleId(9), &b"abc"[..]), (TupleId(1), b"")]);
        for bit in 0..chunk.len() * 8 {
            let mut changed = chunk.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The reader checks the length against what it read.
            assert!(Chunk::parse(&changed).is_none(), "bit {bit}");
        }
    }
}
