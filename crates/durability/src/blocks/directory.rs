//! Directories: the keys of the rows in blocks, in the file of the blocks behind them.

use crc32c::{crc32c, crc32c_append};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{BlockNumber, BlockRowImage, TupleId};

use super::format::whole_pages;
use crate::log::{Bytes, put_at, put_counted};

/// Bytes of a directory's header.
///
/// ```text
/// 0      4      8        12
/// "bdir" length checksum | blocks | zeros up to the next page
///
/// block: number (8), table (4), rows (4), indexes (4), fingerprint of an index (8) ...,
///        tuple (4), offset (4), counted keys; for each row
/// ```
///
/// Length is of header and blocks; the checksum is CRC-32C of the segment's number and the blocks.
const HEADER_BYTES: usize = 12;
const MAGIC: &[u8; 4] = b"bdir";

/// Collects the keys of a block's rows.
#[derive(Debug)]
pub(super) struct KeysOfBlock {
    bytes: Vec<u8>,
    rows: u32,
}

const AT_ROWS: usize = 12;

impl KeysOfBlock {
    /// No keys yet.
    pub fn new(block: BlockNumber, table: TableId, indexes: &[u64]) -> Self {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&block.0.to_le_bytes());
        bytes.extend_from_slice(&table.0.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(indexes.len() as u32).to_le_bytes());
        indexes.iter().for_each(|index| bytes.extend_from_slice(&index.to_le_bytes()));
        Self { bytes, rows: 0 }
    }

    /// Adds a row, whose record is at this offset of the block.
    pub fn push(&mut self, row: &BlockRowImage<'_>, offset: u32) {
        self.bytes.extend_from_slice(&row.tuple.0.to_le_bytes());
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        put_counted(&mut self.bytes, row.keys);
        self.rows += 1;
        put_at(&mut self.bytes, AT_ROWS, &self.rows.to_le_bytes());
    }
}

/// Collects the keys of blocks.
#[derive(Debug, Default)]
pub(super) struct DirectoryBuilder {
    bytes: Vec<u8>,
}

impl DirectoryBuilder {
    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of the directory so far.
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a block.
    pub fn push(&mut self, block: &KeysOfBlock) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        self.bytes.extend_from_slice(&block.bytes);
    }

    /// The directory of the blocks so far, for this segment, up to the end of a page; `None` if there are none.
    pub fn take(&mut self, segment: u64) -> Option<Vec<u8>> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let checksum = checksum(segment, bytes.get(HEADER_BYTES..)?);
        let length = bytes.len() as u32;
        put_at(&mut bytes, 0, MAGIC);
        put_at(&mut bytes, 4, &length.to_le_bytes());
        put_at(&mut bytes, 8, &checksum.to_le_bytes());
        Some(whole_pages(bytes))
    }
}

fn checksum(segment: u64, blocks: &[u8]) -> u32 {
    crc32c_append(crc32c(&segment.to_le_bytes()), blocks)
}

/// A block as a directory has it.
#[derive(Debug)]
pub(crate) struct DirectoryBlock<'a> {
    /// Its number.
    pub block: BlockNumber,
    /// Table of its rows.
    pub table: TableId,
    /// Fingerprints of the indexes in which its rows have keys.
    pub indexes: Vec<u64>,
    /// Each row with the offset of its record and its keys.
    pub rows: Vec<(TupleId, u32, &'a [u8])>,
}

/// The blocks of a directory in this segment; `None` if the bytes are not what was written.
pub(crate) fn read_directory(bytes: &[u8], segment: u64) -> Option<Vec<DirectoryBlock<'_>>> {
    let mut header = Bytes::new(bytes);
    let (magic, length, expected) = (header.array::<4>()?, header.u32()? as usize, header.u32()?);
    let blocks = bytes.get(HEADER_BYTES..length)?;
    if magic != *MAGIC || checksum(segment, blocks) != expected {
        return None;
    }
    let (mut rest, mut found) = (Bytes::new(blocks), Vec::new());
    while !rest.is_empty() {
        let (block, table, rows) = (BlockNumber(rest.u64()?), TableId(rest.u32()?), rest.u32()?);
        let indexes = (0..rest.u32()?).map(|_| rest.u64()).collect::<Option<_>>()?;
        let rows = (0..rows).map(|_| Some((TupleId(rest.u32()?), rest.u32()?, rest.counted()?)));
        found.push(DirectoryBlock { block, table, indexes, rows: rows.collect::<Option<_>>()? });
    }
    Some(found)
}
