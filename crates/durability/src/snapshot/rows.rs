//! The rows of one partition in a file.

use crc32c::{crc32c, crc32c_append, crc32c_combine};
use thermocline_machine::ids::{DatabaseId, LoadId, PartitionId, Sequence};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{BlockEntry, BlockNumber, BlockPlace, DirectoryEntry, TupleId};
use thermocline_types::{Error, Result, Value};

use super::manifest::{PartitionRows, SnapshotFile};
use crate::disk::{Disk, ReadFile};
use crate::log::{Bytes, put_at, put_counted, put_value};

/// Row file format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 3;
/// Oldest format that it reads, which had no rows of loads; version 2 had none in blocks.
const FIRST_VERSION: u32 = 1;

/// Bytes of rows after which a chunk is complete; it exceeds them by one row at most.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of the header of a row file.
///
/// ```text
/// 0        8       12        14   16       32       40   60       64
/// THERMROW version partition zero database position zero checksum | chunks
///
/// chunk: 0      4        8                   12    16
///        length checksum load, kind, table   count | load (8), if it is of one | content
///
/// content: rows         tuple (4), counted image; for each row
///          places       block (8), count (4), tuple (4), offset (4) ...; for rows in blocks
///          blocks       number (8), segment (8), first byte (8), bytes (4), bytes of a row (4); for each
///          directories  segment (8), first byte (8), bytes (4); for each
///          layouts      first block with later rows (8), columns (4), value of further columns; for each
/// ```
///
/// Rows of a load that was not over are in chunks of their own, whose table number has the highest bit set. The three
/// bits below are of the kind. All numbers are little-endian. Length is of the whole chunk, its checksum CRC-32C of all
/// its other bytes. Length, checksum and number of rows of the whole file are in the manifest.
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
/// Place of the kind in a table number.
const KIND_SHIFT: u32 = 28;
const TABLE_MASK: u32 = (1 << KIND_SHIFT) - 1;
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

/// Kind of a chunk's content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Rows with their images.
    #[default]
    Rows,
    /// Rows that are in blocks.
    Places,
    /// Blocks with such rows.
    Blocks,
    /// Directories with the keys of such rows.
    Directories,
    /// Earlier layouts of such rows.
    Layouts,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Rows, Self::Places, Self::Blocks, Self::Directories, Self::Layouts];

    fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get((number & !OF_LOAD) as usize >> KIND_SHIFT).copied()
    }

    /// Whether its count is of rows.
    const fn counts_rows(self) -> bool {
        matches!(self, Self::Rows | Self::Places)
    }
}

/// Collects content of one kind into a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkBuilder {
    bytes: Vec<u8>,
    kind: Kind,
    /// Block of the last place, where its count is, and that count.
    run: Option<(BlockNumber, usize, u32)>,
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

    /// A builder for content of this kind.
    pub fn of_kind(kind: Kind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// A builder for places of rows of an unfinished load.
    pub fn places_of_load(load: LoadId) -> Self {
        Self { load: Some(load), ..Self::of_kind(Kind::Places) }
    }

    /// Adds the place of a row in a block; returns the previous chunk as of [`ChunkBuilder::push`].
    pub fn push_place(&mut self, table: TableId, tuple: TupleId, place: BlockPlace) -> Option<Vec<u8>> {
        let chunk = self.begin(table, &mut Vec::new());
        let (at, count) = match self.run {
            Some((block, at, count)) if block == place.block => (at, count + 1),
            _ => {
                self.bytes.extend_from_slice(&place.block.0.to_le_bytes());
                let at = self.bytes.len();
                self.bytes.extend_from_slice(&[0; 4]);
                (at, 1)
            }
        };
        self.run = Some((place.block, at, count));
        put_at(&mut self.bytes, at, &count.to_le_bytes());
        self.bytes.extend_from_slice(&tuple.0.to_le_bytes());
        self.bytes.extend_from_slice(&place.offset.to_le_bytes());
        self.count += 1;
        chunk
    }

    /// Adds a block; returns the previous chunk as of [`ChunkBuilder::push`].
    pub fn push_block(&mut self, entry: &BlockEntry) -> Option<Vec<u8>> {
        let chunk = self.begin(entry.table, &mut Vec::new());
        for number in [entry.block.0, entry.segment, entry.at] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.extend_from_slice(&entry.bytes.to_le_bytes());
        self.bytes.extend_from_slice(&entry.row_bytes.to_le_bytes());
        self.count += 1;
        chunk
    }

    /// Adds a directory; returns the previous chunk as of [`ChunkBuilder::push`].
    pub fn push_directory(&mut self, entry: &DirectoryEntry) -> Option<Vec<u8>> {
        let chunk = self.begin(TableId(0), &mut Vec::new());
        self.bytes.extend_from_slice(&entry.segment.to_le_bytes());
        self.bytes.extend_from_slice(&entry.at.to_le_bytes());
        self.bytes.extend_from_slice(&entry.bytes.to_le_bytes());
        self.count += 1;
        chunk
    }

    /// Adds an earlier layout of a table; returns the previous chunk as of [`ChunkBuilder::push`].
    pub fn push_layout(
        &mut self,
        table: TableId,
        (until, columns, fill): (BlockNumber, usize, &Value),
    ) -> Option<Vec<u8>> {
        let chunk = self.begin(table, &mut Vec::new());
        self.bytes.extend_from_slice(&until.0.to_le_bytes());
        self.bytes.extend_from_slice(&(columns as u32).to_le_bytes());
        put_value(&mut self.bytes, fill.as_ref());
        self.count += 1;
        chunk
    }

    /// Adds a row; returns the previous chunk if that is complete or of another table. A new chunk takes the memory of
    /// `spare`.
    pub fn push(&mut self, table: TableId, tuple: TupleId, image: &[u8], spare: &mut Vec<u8>) -> Option<Vec<u8>> {
        let chunk = self.begin(table, spare);
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

    /// Begins a chunk unless that of the table goes on, and returns the previous one.
    fn begin(&mut self, table: TableId, spare: &mut Vec<u8>) -> Option<Vec<u8>> {
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
        chunk
    }

    /// The content so far as a chunk; `None` if there are none.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let table = self.table.filter(|_| self.count > 0)?;
        let mut bytes = std::mem::take(&mut self.bytes);
        self.run = None;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        put_at(&mut bytes, 0, &length.to_le_bytes());
        let of_load = if self.load.is_some() { OF_LOAD } else { 0 };
        put_at(&mut bytes, AT_TABLE, &(table.0 | (self.kind as u32) << KIND_SHIFT | of_load).to_le_bytes());
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
    Chunk::of_read(chunk).map_or(0, |chunk| chunk.row_count().into())
}

fn checksum_of(chunk: &[u8]) -> u32 {
    let (length, rest) = chunk.split_at_checked(AT_TABLE).unwrap_or_default();
    crc32c_append(crc32c(length.get(..AT_CHUNK_CHECKSUM).unwrap_or_default()), rest)
}

/// Content of one table, checked.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// What it is.
    pub kind: Kind,
    /// The table; meaningless for directories.
    pub table: TableId,
    /// Load of the rows; `None` for visible rows.
    pub load: Option<LoadId>,
    count: u32,
    content: Bytes<'a>,
}

impl<'a> Chunk<'a> {
    /// Number of rows.
    pub const fn row_count(&self) -> u32 {
        if self.kind.counts_rows() { self.count } else { 0 }
    }

    /// Each row and its image, in no particular order; nothing if it is of another kind.
    pub fn rows(&self) -> impl Iterator<Item = (TupleId, &'a [u8])> {
        self.each(Kind::Rows, |bytes| Some((TupleId(bytes.u32()?), bytes.counted()?)))
    }

    /// Each row in a block and its place; nothing if it is of another kind.
    pub fn places(&self) -> impl Iterator<Item = (TupleId, BlockPlace)> {
        let mut run = (BlockNumber(0), 0);
        self.each(Kind::Places, move |bytes| {
            if run.1 == 0 {
                run = (BlockNumber(bytes.u64()?), bytes.u32()?);
            }
            run.1 = run.1.checked_sub(1)?;
            Some((TupleId(bytes.u32()?), BlockPlace { block: run.0, offset: bytes.u32()? }))
        })
    }

    /// Each block; nothing if it is of another kind.
    pub fn blocks(&self) -> impl Iterator<Item = BlockEntry> {
        let table = self.table;
        self.each(Kind::Blocks, move |bytes| {
            let (block, segment, at) = (BlockNumber(bytes.u64()?), bytes.u64()?, bytes.u64()?);
            Some(BlockEntry { block, table, segment, at, bytes: bytes.u32()?, row_bytes: bytes.u32()? })
        })
    }

    /// Each directory; nothing if it is of another kind.
    pub fn directories(&self) -> impl Iterator<Item = DirectoryEntry> {
        self.each(Kind::Directories, |bytes| {
            Some(DirectoryEntry { segment: bytes.u64()?, at: bytes.u64()?, bytes: bytes.u32()? })
        })
    }

    /// Each earlier layout of the table: see [`Table::earlier_layouts`](thermocline_tables::table::Table); nothing if it
    /// is of another kind.
    pub fn layouts(&self) -> impl Iterator<Item = (BlockNumber, usize, Value)> {
        self.each(Kind::Layouts, |bytes| {
            Some((BlockNumber(bytes.u64()?), bytes.u32()? as usize, bytes.value()?.to_value()))
        })
    }

    fn each<T>(&self, kind: Kind, mut next: impl FnMut(&mut Bytes<'a>) -> Option<T>) -> impl Iterator<Item = T> {
        let mut bytes = self.content;
        let count = if self.kind == kind { self.count } else { 0 };
        (0..count).map_while(move |_| next(&mut bytes))
    }

    /// The chunk in bytes that a [`RowFileReader`] has read; `None` for other bytes.
    pub fn of_read(chunk: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes::new(chunk.get(AT_TABLE..)?);
        let (table, count) = (bytes.u32()?, bytes.u32()?);
        let load = if table & OF_LOAD == 0 { None } else { Some(LoadId(bytes.u64()?)) };
        let (kind, table) = (Kind::of_number(table)?, TableId(table & TABLE_MASK));
        Some(Self { kind, table, load, count, content: bytes })
    }

    /// Whether its content has as many parts as it says.
    fn is_whole(&self) -> bool {
        let parts = match self.kind {
            Kind::Rows => self.rows().count(),
            Kind::Places => self.places().count(),
            Kind::Blocks => self.blocks().count(),
            Kind::Directories => self.directories().count(),
            Kind::Layouts => self.layouts().count(),
        };
        parts == self.count as usize
    }

    /// Checks a chunk; also returns the checksum of the bytes after its own checksum.
    fn parse(chunk: &'a [u8]) -> Option<(Self, u32)> {
        let parsed = Self::of_read(chunk)?;
        let (head, rest) = chunk.split_at_checked(AT_TABLE)?;
        let (length, checksum) = head.split_at_checked(AT_CHUNK_CHECKSUM)?;
        // Computed once for two checksums.
        let behind = crc32c(rest);
        let is_whole = Bytes::new(checksum).u32()? == crc32c_combine(crc32c(length), behind, rest.len());
        (is_whole && parsed.is_whole()).then_some((parsed, behind))
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
            if !wanted(TableId(table & TABLE_MASK)) {
                self.is_partial = true;
                self.offset = start.saturating_add(length as u64).min(self.expected.bytes);
                continue;
            }
            chunk.resize(length, 0);
            let read = self.file.read_at(start, chunk)?;
            let parsed = Chunk::parse(chunk.get(..read).unwrap_or_default());
            let Some((parsed, behind)) = parsed else { return Err(self.damaged(start, "a chunk is damaged")) };
            self.offset += length as u64;
            self.rows += u64::from(parsed.row_count());
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
        expected.extend_from_slice(&[3, 0, 0, 0, 7, 0, 0, 0]);
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
        assert_eq!((read.table, read.load, read.row_count()), (TableId(3), Some(LoadId(77)), 1));
        assert_eq!(read.rows().collect::<Vec<_>>(), [(TupleId(9), &b"abc"[..])]);
        let (read, _) = Chunk::parse(&chunk).unwrap();
        assert_eq!((read.table, read.load, read.row_count()), (TableId(3), None, 2));
        assert_eq!(read.rows().collect::<Vec<_>>(), [(TupleId(9), &b"abc"[..]), (TupleId(1), b"")]);
        for bit in 0..chunk.len() * 8 {
            let mut changed = chunk.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The reader checks the length against what it read.
            assert!(Chunk::parse(&changed).is_none(), "bit {bit}");
        }
    }

    /// The stored format of what snapshots say about rows in blocks.
    #[test]
    fn references_are_fixed() {
        let place = |block, offset| BlockPlace { block: BlockNumber(block), offset };
        let places = [(TupleId(1), place(5, 28)), (TupleId(2), place(5, 99)), (TupleId(9), place(1 << 40, 7))];
        let mut builder = ChunkBuilder::of_kind(Kind::Places);
        places.iter().for_each(|(tuple, place)| assert_eq!(builder.push_place(TableId(3), *tuple, *place), None));
        let mut chunk = builder.take().unwrap();
        assert_eq!(seal_chunk(&mut chunk), 3);
        assert_eq!(chunk[8..16], [3, 0, 0, 16, 3, 0, 0, 0]);
        let runs = [&[5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0][..], &[1, 0, 0, 0, 28, 0, 0, 0, 2, 0, 0, 0, 99, 0, 0, 0]];
        assert_eq!(chunk[16..44], runs.concat());
        let (read, _) = Chunk::parse(&chunk).unwrap();
        assert_eq!((read.kind, read.table, read.row_count()), (Kind::Places, TableId(3), 3));
        assert_eq!(read.places().collect::<Vec<_>>(), places);
        assert_eq!(read.rows().count(), 0);
        // A run that is longer than the chunk says.
        let mut longer = chunk.clone();
        put_at(&mut longer, AT_COUNT, &4_u32.to_le_bytes());
        seal_chunk(&mut longer);
        assert!(Chunk::parse(&longer).is_none());

        let table = TableId(2);
        let block = BlockEntry { block: BlockNumber(1), table, segment: 2, at: 4096, bytes: 8192, row_bytes: 77 };
        let mut builder = ChunkBuilder::of_kind(Kind::Blocks);
        assert_eq!(builder.push_block(&block), None);
        let mut chunk = builder.take().unwrap();
        assert_eq!(seal_chunk(&mut chunk), 0, "it has no rows");
        assert_eq!(Chunk::parse(&chunk).unwrap().0.blocks().collect::<Vec<_>>(), [block]);

        let directory = DirectoryEntry { segment: 2, at: 12288, bytes: 4096 };
        let mut builder = ChunkBuilder::of_kind(Kind::Directories);
        assert_eq!(builder.push_directory(&directory), None);
        let mut chunk = builder.take().unwrap();
        assert_eq!(seal_chunk(&mut chunk), 0);
        assert_eq!(Chunk::parse(&chunk).unwrap().0.directories().collect::<Vec<_>>(), [directory]);

        let mut builder = ChunkBuilder::of_kind(Kind::Layouts);
        let fill = Value::Text("x".into());
        assert_eq!(builder.push_layout(table, (BlockNumber(8), 3, &fill)), None);
        let mut chunk = builder.take().unwrap();
        assert_eq!(seal_chunk(&mut chunk), 0);
        let layouts = Chunk::parse(&chunk).unwrap().0.layouts().collect::<Vec<_>>();
        assert_eq!(layouts, [(BlockNumber(8), 3, fill)]);
    }
}
