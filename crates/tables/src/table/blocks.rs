//! What tables need of blocks of evicted rows.

use std::fmt::Debug;
use std::ops::Range;

use thermocline_machine::ids::Sequence;
use thermocline_types::{Error, Result};

use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;
use crate::schema::TableId;

/// A read of a row.
pub type RowReader = Box<dyn ReadsRow>;

/// A read of a row, which can be done on any thread.
pub trait ReadsRow: Send {
    /// Reads the row, or says why it cannot.
    fn read(self: Box<Self>) -> Result<ReadRow>;

    /// Whether [`start`](Self::start) returns before the row is read, and what follows comes on another thread.
    fn is_asynchronous(&self) -> bool;

    /// Reads the row, and gives it, or why it cannot be read, to `then`, which must not wait.
    fn start(self: Box<Self>, then: Box<dyn FnOnce(Result<ReadRow>) + Send>);
}

/// A row that was read from a block.
#[derive(Debug)]
pub struct ReadRow {
    /// Its image.
    pub image: Vec<u8>,
    /// The whole block, whose other rows come back as well where blocks are merged; `None` where rows are
    /// (Anti-Caching 2013, section 3.5), unless another row of it cannot be read.
    pub block: Option<BlockRows>,
}

/// Reads a whole block, or as many of its rows as can be read, with the [reason](BlockRows::damage) why others cannot.
pub type BlockReader = Box<dyn FnOnce() -> Result<BlockRows> + Send>;

/// A block that was to be read, and its rows, or why they could not be read.
pub type ReadBlock = (BlockNumber, Result<BlockRows>);

/// Reads whole blocks side by side, and waits for all of them.
pub type BlocksReader = Box<dyn FnOnce() -> Vec<ReadBlock> + Send>;

/// A block that was read, with the rows that it had when it was written: some may have left it.
#[derive(Debug)]
pub struct BlockRows {
    block: BlockNumber,
    bytes: Vec<u8>,
    rows: Vec<BlockRow>,
    /// Why not all of the rows that were written are among them; `None` if all are.
    damage: Option<Error>,
}

#[derive(Debug)]
struct BlockRow {
    tuple: TupleId,
    offset: u32,
    image: Range<usize>,
    is_chosen: bool,
}

impl BlockRows {
    /// The bytes of a block, and its rows: their ids, the offsets of their records, and the ranges of their images.
    pub fn new(block: BlockNumber, bytes: Vec<u8>, rows: impl Iterator<Item = (TupleId, u32, Range<usize>)>) -> Self {
        let rows = rows.map(|(tuple, offset, image)| BlockRow { tuple, offset, image, is_chosen: false });
        Self { block, bytes, rows: rows.collect(), damage: None }
    }

    /// These rows of a block, others of which cannot be read for this reason.
    #[must_use]
    pub fn with_damage(self, damage: Error) -> Self {
        Self { damage: Some(damage), ..self }
    }

    /// Why not all rows that were written are among them; `None` if all are.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<BlockRow>()
    }

    /// Its number.
    pub fn block(&self) -> BlockNumber {
        self.block
    }

    /// Image of the row whose record is at this offset.
    pub fn image(&self, offset: u32) -> Option<&[u8]> {
        let at = self.rows.binary_search_by_key(&offset, |row| row.offset).ok()?;
        self.bytes.get(self.rows.get(at)?.image.clone())
    }

    /// Chooses those of its rows for which `which` returns true, given their ids and places.
    pub fn choose(&mut self, mut which: impl FnMut(TupleId, BlockPlace) -> bool) {
        for row in &mut self.rows {
            row.is_chosen = which(row.tuple, BlockPlace { block: self.block, offset: row.offset });
        }
    }

    /// The chosen rows with the images that the block has.
    pub fn chosen(&self) -> impl Iterator<Item = (TupleId, &[u8])> {
        let chosen = self.rows.iter().filter(|row| row.is_chosen);
        chosen.filter_map(|row| Some((row.tuple, self.bytes.get(row.image.clone())?)))
    }
}

/// A row on its way into a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockRowImage<'a> {
    /// Its id.
    pub tuple: TupleId,
    /// Its image.
    pub image: &'a [u8],
    /// Its keys: see [`RowKeys`].
    pub keys: &'a [u8],
}

/// Keys of rows in the indexes of their table. A block is stored with those of its rows, so that the next process
/// fills its indexes without reading blocks.
///
/// ```text
/// of a row: length of key (2), whether it must be unique (1), key | ...; for each index
/// ```
#[derive(Debug, Default)]
pub struct RowKeys {
    /// [Fingerprints](super::Index::fingerprint) of the indexes.
    pub indexes: Vec<u64>,
    pub(super) bytes: Vec<u8>,
    /// End of each row's keys.
    pub(super) ends: Vec<usize>,
}

impl RowKeys {
    /// The keys of each row, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }

    pub(super) fn push_key(&mut self, key: &[u8], distinct: bool) {
        // Keys have less than 64 KiB.
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.push(distinct.into());
        self.bytes.extend_from_slice(key);
    }

    /// The first of a row's keys, whether it must be unique, and the other keys; `None` if there is none.
    pub(crate) fn split_first(keys: &[u8]) -> Option<(&[u8], bool, &[u8])> {
        let (length, rest) = keys.split_first_chunk()?;
        let ([distinct], rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        (*distinct <= 1).then_some((key, *distinct == 1, rest))
    }
}

/// Where a block is in the files of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEntry {
    /// Its number.
    pub block: BlockNumber,
    /// Table of its rows.
    pub table: TableId,
    /// Its file.
    pub segment: u64,
    /// First byte in the file.
    pub at: u64,
    /// Bytes there.
    pub bytes: u32,
    /// Mean bytes of a row.
    pub row_bytes: u32,
}

/// Where the keys of some blocks are in the files of their partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The file.
    pub segment: u64,
    /// First byte in the file.
    pub at: u64,
    /// Bytes there.
    pub bytes: u32,
}

/// What blocks hold, and what was written and read since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockStatistics {
    /// Files.
    pub segments: u64,
    /// Blocks.
    pub blocks: u64,
    /// Rows that have not left them.
    pub rows: u64,
    /// Bytes of the blocks, with rows that have left.
    pub block_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Blocks written.
    pub written_total: u64,
    /// Bytes written.
    pub written_bytes_total: u64,
    /// Reads.
    pub reads_total: u64,
    /// Bytes read.
    pub read_bytes_total: u64,
    /// Bytes of the images in a new block, about.
    pub new_block_bytes: u64,
    /// Whether the disk reads rows side by side; otherwise a thread waits for each read.
    pub is_asynchronous: bool,
}

/// Blocks of one partition's evicted rows (Anti-Caching 2013, section 3.1).
pub trait Blocks: Debug + Send {
    /// Writes a block of rows of one table, with their keys in these [indexes](RowKeys::indexes). Returns the place of
    /// each row.
    ///
    /// # Errors
    /// If it cannot be written: then there is no such block.
    fn put(
        &mut self,
        table: TableId,
        indexes: &[u64],
        rows: &mut dyn Iterator<Item = BlockRowImage<'_>>,
    ) -> Result<Vec<BlockPlace>>;

    /// Takes a block that an earlier process has written, of which this many rows are left.
    ///
    /// # Errors
    /// If its file cannot be opened.
    fn adopt(&mut self, block: &BlockEntry, rows: u32) -> Result<()>;

    /// Notes that a block of an earlier process cannot be read: who needs one of its rows gets this error.
    fn lose(&mut self, block: BlockNumber, why: Error);

    /// Takes the directories of such blocks, in files from which it has taken some.
    fn adopt_directories(&mut self, directories: &[DirectoryEntry]);

    /// Begins to note what the snapshot at this place in the log refers to.
    fn begin_snapshot(&mut self, position: Sequence);

    /// Notes that the snapshot begun last refers to a block, whose file stays for as long as the snapshot; returns
    /// where the block is, the first time.
    ///
    /// # Errors
    /// If there is no such block.
    fn refer(&mut self, block: BlockNumber) -> Result<Option<BlockEntry>>;

    /// Where the keys of the blocks are that the snapshot begun last refers to. Blocks put later are not among them.
    fn directories(&mut self) -> Vec<DirectoryEntry>;

    /// Reads the image of a row, and gives it to `each`.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written; and those of `each`.
    fn read(&self, place: BlockPlace, tuple: TupleId, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Bytes of images that make a block.
    fn block_bytes(&self) -> usize;

    /// A read of a row that can be done on any thread, at any later time: the block may go meanwhile. Where blocks are
    /// merged, and `is_first` of the wanted ones in its block, the block is read as well.
    ///
    /// # Errors
    /// If there is no such block.
    fn reader(&self, place: BlockPlace, tuple: TupleId, is_first: bool) -> Result<RowReader>;

    /// A read of all of a block that can be done on any thread, at any later time: the block may go meanwhile.
    ///
    /// # Errors
    /// If there is no such block.
    fn block_reader(&self, block: BlockNumber) -> Result<BlockReader>;

    /// Does reads of rows side by side, as far as the disk can, and waits for all of them. Returns what each has read,
    /// in their order.
    fn read_rows(&self, reads: Vec<RowReader>) -> Vec<Result<ReadRow>>;

    /// A read of whole blocks, side by side as far as the disk can, that can be done on any thread, at any later time.
    ///
    /// # Errors
    /// If there is no such block.
    fn blocks_reader(&self, blocks: Vec<BlockNumber>) -> Result<BlocksReader>;

    /// Notes that a replay of the log behind the newest snapshot would have to read further rows from blocks.
    fn note_replay_reads(&mut self, rows: u64);

    /// Up to `count` blocks of which little is left, if too much of the files is rows that have left: their rows should
    /// go to other blocks, so that files can be removed.
    fn sparse(&self, count: usize) -> Vec<BlockNumber>;

    /// Bytes that a [read](Self::block_reader) of all of a block takes; 0 if there is no such block.
    fn bytes_of(&self, block: BlockNumber) -> usize;

    /// Bytes that a [read](Self::reader) of a row in this block is likely to take; 0 if there is no such block.
    fn read_bytes(&self, block: BlockNumber, is_first: bool) -> usize;

    /// Gives up memory of blocks that are in their files by now.
    fn forget_written(&mut self);

    /// Table of a block; `None` if there is no such block.
    fn table_of(&self, block: BlockNumber) -> Option<TableId>;

    /// Notes that a block cannot be read, so that it is not [sparse](Self::sparse) again.
    fn set_aside(&mut self, block: BlockNumber);

    /// The number that the next block gets: greater than those of all blocks so far, of any table.
    fn next(&self) -> BlockNumber;

    /// Whether a block of this table has more than this many bytes.
    fn has_longer(&self, table: TableId, bytes: usize) -> bool;

    /// What they hold.
    fn statistics(&self) -> BlockStatistics;

    /// Notes that a row has left a block: it is live again, or removed.
    ///
    /// # Errors
    /// If a file that nothing refers to any more cannot be removed.
    fn release(&mut self, block: BlockNumber) -> Result<()>;

    /// Notes that all rows of a table have left their blocks.
    ///
    /// # Errors
    /// As of [`Blocks::release`].
    fn release_table(&mut self, table: TableId) -> Result<()>;
}
