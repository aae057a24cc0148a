//! Bytes of blocks and of the rows in them.

use crc32c::{crc32c, crc32c_append};
use thermocline_machine::ids::{DatabaseId, PartitionId};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{BlockNumber, ROW_BYTES_MAX, TupleId};

use crate::log::{Bytes, put_at};

/// Block format that this version writes and reads; version 1 did not outlive its process.
const FORMAT_VERSION: u32 = 2;

/// Alignment of blocks in their file, and the unit of reads.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of the header of a segment, which has the first page for itself.
///
/// ```text
/// 0        8       12        16       32      40       44
/// THERMBLK version partition database segment checksum | zeros
/// ```
const SEGMENT_HEADER_BYTES: usize = 44;
const SEGMENT_MAGIC: &[u8; 8] = b"THERMBLK";

/// Bytes of the header of a block.
///
/// ```text
/// 0      4     8     16   20     24       28
/// "blok" table block rows length checksum | records | zeros up to the next page
/// ```
///
/// Length is of header and records. The checksum is CRC-32C of the header before it; records have their own, so that
/// a row can be read without the rest of its block.
const BLOCK_HEADER_BYTES: usize = 28;
const BLOCK_MAGIC: &[u8; 4] = b"blok";

/// Bytes before a row's image.
///
/// ```text
/// 0      4     8        12
/// length tuple checksum | image
/// ```
///
/// The checksum is CRC-32C of block number, table, length, tuple and image: bytes of another place do not pass.
pub const RECORD_HEADER_BYTES: usize = 12;

/// Maximum bytes of a record.
const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + ROW_BYTES_MAX;

/// The first page of a segment.
pub(super) fn segment_header(database: DatabaseId, partition: PartitionId, segment: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    put_at(&mut bytes, 0, SEGMENT_MAGIC);
    put_at(&mut bytes, 8, &FORMAT_VERSION.to_le_bytes());
    put_at(&mut bytes, 12, &u32::from(partition.0).to_le_bytes());
    put_at(&mut bytes, 16, &database.0.to_le_bytes());
    put_at(&mut bytes, 32, &segment.to_le_bytes());
    let checksum = crc32c(bytes.get(..SEGMENT_HEADER_BYTES - 4).unwrap_or_default());
    put_at(&mut bytes, SEGMENT_HEADER_BYTES - 4, &checksum.to_le_bytes());
    bytes
}

/// Rows of one table on their way into a block.
#[derive(Debug)]
pub struct BlockBuilder {
    block: BlockNumber,
    table: TableId,
    rows: u32,
    bytes: Vec<u8>,
}

impl BlockBuilder {
    /// A block without rows.
    pub(super) fn new(block: BlockNumber, table: TableId) -> Self {
        Self { block, table, rows: 0, bytes: vec![0; BLOCK_HEADER_BYTES] }
    }

    /// Its number.
    pub fn number(&self) -> BlockNumber {
        self.block
    }

    /// Table of its rows.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Adds a row, and returns the offset of its record in the block.
    pub fn push(&mut self, tuple: TupleId, image: &[u8]) -> u32 {
        let offset = self.bytes.len() as u32;
        let head = RecordHead { length: image.len() as u32, tuple };
        self.bytes.extend_from_slice(&head.length.to_le_bytes());
        self.bytes.extend_from_slice(&tuple.0.to_le_bytes());
        self.bytes.extend_from_slice(&head.checksum((self.block, self.table), image).to_le_bytes());
        self.bytes.extend_from_slice(image);
        self.rows += 1;
        offset
    }

    /// The block's bytes, up to the end of a page.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        put_at(&mut self.bytes, 0, BLOCK_MAGIC);
        put_at(&mut self.bytes, 4, &self.table.0.to_le_bytes());
        put_at(&mut self.bytes, 8, &self.block.0.to_le_bytes());
        put_at(&mut self.bytes, 16, &self.rows.to_le_bytes());
        put_at(&mut self.bytes, 20, &length.to_le_bytes());
        let checksum = crc32c(self.bytes.get(..BLOCK_HEADER_BYTES - 4).unwrap_or_default());
        put_at(&mut self.bytes, BLOCK_HEADER_BYTES - 4, &checksum.to_le_bytes());
        whole_pages(self.bytes)
    }
}

/// These bytes, with zeros up to the end of a page.
pub(super) fn whole_pages(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
    // They may wait for the disk.
    bytes.shrink_to_fit();
    bytes
}

/// A row as a block holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its id in its table.
    pub tuple: TupleId,
    /// Its image.
    pub image: &'a [u8],
}

/// Length and tuple of a record.
#[derive(Debug, Clone, Copy)]
struct RecordHead {
    length: u32,
    tuple: TupleId,
}

impl RecordHead {
    fn checksum(self, (block, table): (BlockNumber, TableId), image: &[u8]) -> u32 {
        let numbers = [table.0, self.length, self.tuple.0];
        let place = crc32c(&block.0.to_le_bytes());
        crc32c_append(numbers.iter().fold(place, |sum, number| crc32c_append(sum, &number.to_le_bytes())), image)
    }
}

/// Why bytes are not the record that should be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotARecord {
    /// It has this many bytes, more than were given.
    Longer(usize),
    /// They are other bytes than were written.
    Damaged,
}

/// The record with which `bytes` begin, and its length, if it is one of this block.
pub(super) fn record(bytes: &[u8], of: (BlockNumber, TableId)) -> Result<(Record<'_>, usize), NotARecord> {
    let mut reader = Bytes::new(bytes);
    let mut head = || Some((reader.u32()?, TupleId(reader.u32()?), reader.u32()?));
    let Some((length, tuple, checksum)) = head() else { return Err(NotARecord::Longer(RECORD_HEADER_BYTES)) };
    let whole = RECORD_HEADER_BYTES.saturating_add(length as usize);
    if whole > RECORD_BYTES_MAX {
        return Err(NotARecord::Damaged);
    }
    let Some(image) = bytes.get(RECORD_HEADER_BYTES..whole) else { return Err(NotARecord::Longer(whole)) };
    if (RecordHead { length, tuple }).checksum(of, image) != checksum {
        return Err(NotARecord::Damaged);
    }
    Ok((Record { tuple, image }, whole))
}

/// The records of a damaged block that are what was written, wherever they are, with their offsets.
pub(super) fn records_left(bytes: &[u8], of: (BlockNumber, TableId)) -> Vec<(u32, Record<'_>)> {
    let (mut found, mut at) = (Vec::new(), BLOCK_HEADER_BYTES);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEADER_BYTES) {
        match record(rest, of) {
            Ok((record, whole)) => {
                found.push((at as u32, record));
                at += whole;
            }
            // The length of a damaged record may be damaged, too.
            Err(_) => at += 1,
        }
    }
    found
}

/// All records of a block with their offsets; `None` if it is damaged.
pub(super) fn records(bytes: &[u8], of: (BlockNumber, TableId)) -> Option<Vec<(u32, Record<'_>)>> {
    let (block, table) = of;
    let mut header = Bytes::new(bytes);
    let (magic, in_table, number) = (header.array::<4>()?, header.u32()?, header.u64()?);
    let (rows, length, checksum) = (header.u32()?, header.u32()? as usize, header.u32()?);
    let is_block = magic == *BLOCK_MAGIC && in_table == table.0 && number == block.0;
    if !is_block || crc32c(bytes.get(..BLOCK_HEADER_BYTES - 4)?) != checksum {
        return None;
    }
    let bytes = bytes.get(..length)?;
    let mut found = Vec::new();
    let mut at = BLOCK_HEADER_BYTES;
    for _ in 0..rows {
        let (record, whole) = record(bytes.get(at..)?, of).ok()?;
        found.push((at as u32, record));
        at += whole;
    }
    (at == length).then_some(found)
}
