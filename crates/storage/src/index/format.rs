//! The bytes of an index object.
//!
//! ```text
//!  +----------------------+------------------------+-----+------------------------+------+------+
//!  | blocks of section 0  | directory of section 0 | ... | directory of section n | root | tail |
//!  +----------------------+------------------------+-----+------------------------+------+------+
//!
//!  tail, 36 bytes, little-endian, at the end:
//!   0             8              16              24                28             36
//!  +-------------+--------------+---------------+-----------------+--------------+
//!  | root offset | root length  | root checksum | format version  | "TCINDEX\n"  |
//!  +-------------+--------------+---------------+-----------------+--------------+
//!
//!  block: entries, sorted by key and position, each
//!  +--------------------+--------------------+-------------+------------------------------+
//!  | bytes shared with  | bytes that follow, | those bytes | row in the section; of CSV   |
//!  | the previous key,  | LEB128             |             | first byte of the record in  |
//!  | LEB128             |                    |             | the section, and its length  |
//!  +--------------------+--------------------+-------------+------------------------------+
//! ```
//!
//! A *section* is a row group of a Parquet object or a record-aligned byte range of a CSV object.
//! Its keys are sorted in one or more *runs*, one for as many as fit the memory of whoever built it.
//! Root and directories are protobuf messages. A reader goes from tail to root, to the directories of
//! the sections that it needs, to the blocks whose first keys say that they may hold what is sought;
//! it checks every checksum (FNV-1a, which notices any one changed byte for certain).

use prost::Message;
use thermocline_pushdown::wire::{ObjectEntry, Range};

/// Raised when an older reader would misread a newer file, or the reverse.
pub(super) const FORMAT_VERSION: u32 = 2;
pub(super) const MAGIC: [u8; 8] = *b"TCINDEX\n";
/// Encoded bytes from which on a block is closed: one read of a disk, and few keys too many.
pub(super) const BLOCK_BYTES: usize = 8 << 10;

const ROOT_OFFSET_BYTES: usize = 8;
const ROOT_LENGTH_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;
const VERSION_BYTES: usize = 4;
pub(super) const TAIL_BYTES: usize =
    ROOT_OFFSET_BYTES + ROOT_LENGTH_BYTES + CHECKSUM_BYTES + VERSION_BYTES + MAGIC.len();

/// Where a key is. Ordered by place in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// Row in the section; of CSV, first byte of the record in the object.
    pub(crate) at: u64,
    /// Bytes of the record, without its line end; 0 for Parquet.
    pub(crate) length: u32,
}

/// Root of an index object: its identity, and where its sections are.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Root {
    /// Column, type, format: see [`Identity`](super::Identity).
    #[prost(string, tag = "1")]
    pub(super) identity: String,
    /// The object in the version that was read.
    #[prost(message, required, tag = "2")]
    pub(super) object: ObjectEntry,
    #[prost(message, repeated, tag = "3")]
    pub(super) sections: Vec<Section>,
    /// Owner of the file, for the quota; empty in files of earlier versions.
    #[prost(string, tag = "4")]
    pub(super) owner: String,
}

/// One section.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Section {
    #[prost(message, required, tag = "1")]
    pub(super) range: Range,
    /// Rows in it, those that are NULL included.
    #[prost(uint64, tag = "2")]
    pub(super) rows: u64,
    /// Keys in it.
    #[prost(uint64, tag = "3")]
    pub(super) entries: u64,
    /// Different keys in the run that has most of them.
    #[prost(uint64, tag = "4")]
    pub(super) distinct: u64,
    #[prost(message, required, tag = "5")]
    pub(super) directory: Piece,
}

/// Bytes of the file.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Piece {
    #[prost(uint64, tag = "1")]
    pub(super) offset: u64,
    #[prost(uint64, tag = "2")]
    pub(super) length: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) checksum: u64,
}

/// The blocks of a section.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Directory {
    #[prost(message, repeated, tag = "1")]
    pub(super) runs: Vec<RunBlocks>,
}

/// The blocks of a run, in the order of their keys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RunBlocks {
    #[prost(message, repeated, tag = "1")]
    pub(super) blocks: Vec<Block>,
}

/// One block.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Block {
    #[prost(message, required, tag = "1")]
    pub(super) piece: Piece,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) first_key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(super) entries: u64,
}

impl Piece {
    /// One past its last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl Section {
    /// First byte of a CSV section; positions of Parquet count from 0.
    pub(super) fn base(&self) -> u64 {
        if self.range.row_groups { 0 } else { self.range.start }
    }
}

/// FNV-1a of 64 bits. Each step is a bijection of the state, so that one changed byte always shows.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where the root is.
pub(super) fn tail(root: Piece) -> Vec<u8> {
    let mut tail = Vec::with_capacity(TAIL_BYTES);
    tail.extend_from_slice(&root.offset.to_le_bytes());
    tail.extend_from_slice(&root.length.to_le_bytes());
    tail.extend_from_slice(&root.checksum.to_le_bytes());
    tail.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    tail.extend_from_slice(&MAGIC);
    tail
}

/// What a tail says: the format version, and where the root is. `None` if it is no tail.
pub(super) fn parse_tail(tail: &[u8]) -> Option<(u32, Piece)> {
    let (offset, rest) = tail.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (version, magic) = rest.split_first_chunk()?;
    let root = Piece {
        offset: u64::from_le_bytes(*offset),
        length: u64::from_le_bytes(*length),
        checksum: u64::from_le_bytes(*checksum),
    };
    (magic == MAGIC).then(|| (u32::from_le_bytes(*version), root))
}

/// Writes entries of one block.
#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    pub(super) bytes: Vec<u8>,
    pub(super) first_key: Vec<u8>,
    pub(super) entries: u64,
    last_key: Vec<u8>,
}

impl BlockWriter {
    /// Adds an entry that sorts behind the last one. `base` is [`Section::base`].
    pub(super) fn push(&mut self, key: &[u8], position: Position, base: u64, with_length: bool) {
        if self.entries == 0 {
            self.first_key = key.to_vec();
        }
        let shared = key.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count();
        let suffix = key.get(shared..).unwrap_or_default();
        leb128(&mut self.bytes, shared as u64);
        leb128(&mut self.bytes, suffix.len() as u64);
        self.bytes.extend_from_slice(suffix);
        leb128(&mut self.bytes, position.at.saturating_sub(base));
        if with_length {
            leb128(&mut self.bytes, u64::from(position.length));
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.entries += 1;
    }
}

/// Reads entries of one block. `None` at a damaged entry.
pub(super) fn read_block(
    mut bytes: &[u8],
    base: u64,
    with_length: bool,
    mut take: impl FnMut(&[u8], Position),
) -> Option<()> {
    let mut key: Vec<u8> = vec![];
    while !bytes.is_empty() {
        let shared = usize::try_from(read_leb128(&mut bytes)?).ok()?;
        let follow = usize::try_from(read_leb128(&mut bytes)?).ok()?;
        let (suffix, rest) = bytes.split_at_checked(follow)?;
        bytes = rest;
        if shared > key.len() {
            return None;
        }
        key.truncate(shared);
        key.extend_from_slice(suffix);
        let at = base.checked_add(read_leb128(&mut bytes)?)?;
        let length = if with_length { u32::try_from(read_leb128(&mut bytes)?).ok()? } else { 0 };
        take(&key, Position { at, length });
    }
    Some(())
}

fn leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_block() {
        let mut block = BlockWriter::default();
        block.push(b"apple", Position { at: 1000, length: 7 }, 1000, true);
        block.push(b"apricot", Position { at: 1300, length: 200 }, 1000, true);
        let expected: &[u8] =
            &[0, 5, b'a', b'p', b'p', b'l', b'e', 0, 7, 2, 5, b'r', b'i', b'c', b'o', b't', 0xac, 2, 0xc8, 1];
        assert_eq!(block.bytes, expected);
        assert_eq!((block.first_key.as_slice(), block.entries), (b"apple".as_slice(), 2));
        let mut read = vec![];
        read_block(expected, 1000, true, |key, position| read.push((key.to_vec(), position))).unwrap();
        assert_eq!(read[1], (b"apricot".to_vec(), Position { at: 1300, length: 200 }));
        for cut in 1..expected.len() {
            let whole = read_block(&expected[..cut], 1000, true, |_, _| {}).is_some();
            assert_eq!(whole, cut == 9, "cut at {cut}");
        }
    }

    #[test]
    fn the_bytes_of_the_tail() {
        let root = Piece { offset: 0x0102, length: 3, checksum: checksum(b"abc") };
        let bytes = tail(root);
        assert_eq!(bytes.len(), TAIL_BYTES);
        assert_eq!(bytes[..16], [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], 0xe71f_a219_0541_574b_u64.to_le_bytes());
        assert_eq!(bytes[24..], *b"\x02\0\0\0TCINDEX\n");
        assert_eq!(parse_tail(&bytes), Some((2, root)));
        assert_eq!(parse_tail(&bytes[1..]), None);
        assert_eq!(parse_tail(&[0; TAIL_BYTES]), None);
    }

    #[test]
    fn lengths_that_lie_are_noticed() {
        assert_eq!(read_block(&[9, 0, 0], 0, false, |_, _| {}), None);
        assert_eq!(read_block(&[0, 200, 1, 0], 0, false, |_, _| {}), None);
        assert_eq!(read_block(&[0xff; 11], 0, false, |_, _| {}), None);
    }
}
