//! The blocks of one partition, in append-only segments.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, PartitionId, Sequence};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{
    BlockEntry, BlockNumber, BlockPlace, BlockReader, BlockRowImage, BlockRows, BlockStatistics, Blocks, BlocksReader,
    Budget, Charge, DirectoryEntry, PlacesCharge, ReadRow, RowReader, SamplingRate, TupleId, Victims, Working,
};
use thermocline_types::{Error, Result, either};

use super::block::Block;
use super::directory::{DirectoryBuilder, KeysOfBlock};
use super::files::{self, BlockFiles, Source};
use super::format::{BlockBuilder, PAGE_BYTES, Record, segment_header};
use super::opened::{OpenedBlock, RowRead, SCAN_ADVICE, Traffic};
use super::together;
use super::writer::{BlockWrites, PendingBlock, SegmentWrites};
use crate::disk::{Device, ReadFile};

/// Segments that files may have besides those that rows fill.
const SPARSE_SEGMENTS: u64 = 2;
/// Nanoseconds of a read of a page below which a transaction waits for it: undoing it, and running it again from another
/// queue, takes the partition's thread about as long.
const BLOCKING_NS: u64 = 10_000;
/// Divisor of the memory limit for blocks that wait for the disk.
const WAITING_SHARE: u64 = 64;
/// Bytes of a directory that are kept in memory, and the divisor of a memory limit of which that would be too much: its
/// buffer doubles as it grows, and each partition has one.
const DIRECTORY_BYTES: usize = 256 << 10;
const DIRECTORY_SHARE: u64 = 128;
/// Ratio of room for blocks to blocks from which the room shrinks, and the blocks for which it always stays.
const SPARSE_BLOCKS: usize = 8;
const SPARSE_BLOCKS_MIN: usize = 64;

/// Rows that come back with one that a transaction needs (Anti-Caching 2013, section 3.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Merge {
    /// None: the row alone is read.
    #[default]
    Tuple,
    /// All of its block, which is read whole. The others are the first to go again.
    Block,
}

impl Merge {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuple => "tuple",
            Self::Block => "block",
        }
    }
}

impl FromStr for Merge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        either(text, [Self::Tuple, Self::Block], Self::name)
    }
}

/// How evicted rows that a transaction needs are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fetching {
    /// The transaction is undone, and runs again when they were read; others run meanwhile (Anti-Caching 2013,
    /// section 3.4).
    #[default]
    Asynchronous,
    /// Its partition waits, which takes less time than to begin again where a read takes a few microseconds. The row is
    /// read alone, also with [`Merge::Block`].
    Blocking,
}

impl Fetching {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asynchronous => "asynchronous",
            Self::Blocking => "blocking",
        }
    }
}

impl FromStr for Fetching {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        either(text, [Self::Asynchronous, Self::Blocking], Self::name)
    }
}

/// Share of the bytes of a store's files that its rows fill: those of the sparsest file move where it would be less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillFactor {
    per_mille: u16,
}

impl FillFactor {
    /// The least and the most, in thousandths: beyond, rows move again and again for the last bytes.
    const PER_MILLE: (u16, u16) = (100, 900);

    /// A share in thousandths; `None` beyond 100 and 900.
    pub fn of_per_mille(per_mille: u16) -> Option<Self> {
        let (least, most) = Self::PER_MILLE;
        (least..=most).contains(&per_mille).then_some(Self { per_mille })
    }

    /// Whether rows with these bytes fill so much of files with these. In integers, so that it is the same everywhere.
    fn is_met(self, live_bytes: u64, file_bytes: u64) -> bool {
        u128::from(live_bytes) * 1000 >= u128::from(file_bytes) * u128::from(self.per_mille)
    }

    /// Thousandths of a file from which on its rows do not move: a fifth nearer to a full one, as one that is exactly as
    /// sparse as all files may be makes room as well.
    fn stays_from(self) -> u128 {
        u128::from(self.per_mille + (1000 - self.per_mille) / 5)
    }
}

/// Half.
impl Default for FillFactor {
    fn default() -> Self {
        Self { per_mille: 500 }
    }
}

impl fmt::Display for FillFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.per_mille) / 1000.0)
    }
}

impl FromStr for FillFactor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What is no number becomes 0.
        let share: f64 = text.trim().parse().unwrap_or_default();
        Self::of_per_mille((share * 1000.0).round() as u16).ok_or_else(|| {
            let [least, most] = <[u16; 2]>::from(Self::PER_MILLE).map(|per_mille| f64::from(per_mille) / 1000.0);
            format!("{text:?} is not a share from {least} to {most}")
        })
    }
}

/// Sizes of a store's files and blocks, and what goes to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStoreSettings {
    /// Bytes after which a segment is complete; it exceeds them by one block at most.
    pub segment_bytes: u64,
    /// Bytes of the images in a block, within [`BlockStoreSettings::BLOCK_BYTES`]; they exceed it by a row at most. `None`
    /// for what the [device](Self::for_device) does well; 64 KiB where that is not known.
    pub block_bytes: Option<usize>,
    /// How a row that is needed is read; `None` for what suits the device.
    pub fetching: Option<Fetching>,
    /// What is read with a row.
    pub merge: Merge,
    /// When rows move to other files.
    pub fill_factor: FillFactor,
    /// Policy that chooses the rows that go.
    pub victims: Victims,
    /// Share of the transactions that [`Victims::Chain`] follows.
    pub chain_sampling: SamplingRate,
}

impl BlockStoreSettings {
    /// Bytes of the smallest and the largest block.
    pub const BLOCK_BYTES: (u64, u64) = (4 << 10, 1 << 20);

    /// These settings, with what a device does well where they leave it open.
    #[must_use]
    pub fn for_device(self, device: &Device) -> Self {
        let block_bytes = match self.merge {
            Merge::Tuple => device.written_bytes(),
            Merge::Block => device.read_bytes(),
        };
        // A blocking read is of the row alone.
        let is_blocking = device.read_ns() < BLOCKING_NS && self.merge == Merge::Tuple;
        let fetching = if is_blocking { Fetching::Blocking } else { Fetching::Asynchronous };
        Self { block_bytes: self.block_bytes.or(Some(block_bytes)), fetching: self.fetching.or(Some(fetching)), ..self }
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes.unwrap_or(64 << 10).min(Self::BLOCK_BYTES.1 as usize)
    }
}

impl Default for BlockStoreSettings {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            block_bytes: None,
            fetching: None,
            merge: Merge::default(),
            fill_factor: FillFactor::default(),
            victims: Victims::default(),
            chain_sampling: SamplingRate::default(),
        }
    }
}

/// Blocks of evicted rows of one partition.
///
/// ```text
///  put --> open segment --full, or a write failed--> complete segment --its last row has left--> let go
///                 read, release                             read, release                   (see BlockFiles)
/// ```
///
/// A block is read from memory until it is [written](BlockWrites). One that could not be written stays there, and goes
/// to another segment before any further block is put.
///
/// Invariants: every block has at least one row that has not left it; a segment that is not open has at least one
/// block; no byte of a segment changes after it was appended.
#[derive(Debug)]
pub struct BlockStore {
    files: Arc<BlockFiles>,
    database: DatabaseId,
    partition: PartitionId,
    settings: BlockStoreSettings,
    writes: Arc<BlockWrites>,
    blocks: HashMap<BlockNumber, Block>,
    /// Blocks that may not be written yet, in the order in which they were put.
    pending: BTreeMap<BlockNumber, Arc<PendingBlock>>,
    charge: Charge,
    /// Bytes of `blocks`.
    places: PlacesCharge,
    segments: BTreeMap<u64, Segment>,
    /// The segment that the next block goes into.
    open: Option<Open>,
    /// Keys of its blocks that are in no directory yet.
    directory: DirectoryBuilder,
    /// The snapshot begun last, and its number in this process; 0 before the first.
    snapshot: (Sequence, u64),
    /// Directories of segments that it refers to, and that have gone since.
    gone: Vec<DirectoryEntry>,
    /// Bytes of all segments, and of the rows that have not left them.
    file_bytes: u64,
    live_bytes: u64,
    /// Bytes of the directories in them.
    directory_bytes: u64,
    /// Rows that have not left, and bytes of their blocks.
    rows: u64,
    block_bytes: u64,
    /// Blocks that cannot be read.
    aside: BTreeSet<BlockNumber>,
    /// Blocks that have not been taken because they cannot be read, with the reason.
    lost: BTreeMap<BlockNumber, Error>,
    written: u64,
    written_bytes: u64,
    traffic: Arc<Traffic>,
}

#[derive(Debug)]
struct Segment {
    file: Arc<dyn ReadFile>,
    source: Source,
    blocks: BTreeSet<BlockNumber>,
    bytes: u64,
    /// Bytes of the rows that have not left it.
    live_bytes: u64,
    directories: Vec<DirectoryEntry>,
    /// Bytes of them, which are not taken for rows that have left.
    directory_bytes: u64,
    /// Number of the last snapshot that refers to it.
    snapshot: u64,
}

#[derive(Debug)]
struct Open {
    segment: u64,
    file: Arc<SegmentWrites>,
}

impl BlockStore {
    /// An empty store with files among these.
    pub fn new(
        files: Arc<BlockFiles>,
        database: DatabaseId,
        partition: PartitionId,
        settings: BlockStoreSettings,
        (writes, budget): (Arc<BlockWrites>, &Arc<Budget>),
    ) -> Self {
        Self {
            files,
            writes,
            pending: BTreeMap::new(),
            charge: Charge::new(budget, Working::Blocks),
            places: PlacesCharge::new(budget),
            database,
            partition,
            settings,
            blocks: HashMap::new(),
            segments: BTreeMap::new(),
            open: None,
            directory: DirectoryBuilder::default(),
            snapshot: (Sequence::ZERO, 0),
            gone: Vec::new(),
            file_bytes: 0,
            live_bytes: 0,
            directory_bytes: 0,
            rows: 0,
            block_bytes: 0,
            aside: BTreeSet::new(),
            lost: BTreeMap::new(),
            written: 0,
            written_bytes: 0,
            traffic: Arc::default(),
        }
    }

    fn segment_of(&self, number: u64) -> files::Segment {
        files::Segment { partition: self.partition, number }
    }

    /// A block for rows of this table, to be [put](Self::put) before another one is begun.
    ///
    /// # Errors
    /// If there is no block number left.
    pub fn begin(&self, table: TableId) -> Result<BlockBuilder> {
        Ok(BlockBuilder::new(self.files.take_block_number()?, table))
    }

    /// Writes a block, whose rows can be read from now on. The rows may go from memory only after that.
    ///
    /// # Errors
    /// If it cannot be written: then there is no such block. The next one goes into another segment.
    pub fn put(&mut self, block: BlockBuilder) -> Result<()> {
        self.put_with(block, None)
    }

    fn put_with(&mut self, block: BlockBuilder, keys: Option<&KeysOfBlock>) -> Result<()> {
        if block.rows() == 0 {
            return Ok(());
        }
        self.forget_written();
        self.move_failed()?;
        let (number, table, rows) = (block.number(), block.table(), block.rows());
        let pending = PendingBlock::new(block.finish());
        let bytes = pending.bytes.len() as u32;
        let (segment, at) = self.append(&pending, false)?;
        if !pending.is_written() {
            self.pending.insert(number, pending);
            self.forget_written();
        }
        self.enter(number, Block { table, segment, at, bytes, rows, row_bytes: bytes / rows, snapshot: 0 });
        self.written += 1;
        self.written_bytes += u64::from(bytes);
        if let Some(keys) = keys {
            self.directory.push(keys);
            if self.directory.length() >= self.directory_max() {
                self.write_directory();
            }
        }
        self.complete_full()
    }

    /// Writes blocks that could not be written to another segment.
    fn move_failed(&mut self) -> Result<()> {
        while let Some((number, failed)) = self.first_failed() {
            let (segment, at) = self.append(&failed, true)?;
            self.pending.remove(&number);
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut block.segment, segment);
            block.at = at;
            let live_bytes = block.live_bytes();
            self.enter_segment(segment, number, live_bytes);
            self.leave_segment(before, number, live_bytes)?;
        }
        Ok(())
    }

    fn enter(&mut self, number: BlockNumber, block: Block) {
        self.blocks.insert(number, block);
        self.enter_segment(block.segment, number, block.live_bytes());
        self.block_bytes += u64::from(block.bytes);
        self.rows += u64::from(block.rows);
    }

    /// Appends a block to the open segment; waits until it is written if `waits`. Returns the segment and the place
    /// there.
    fn append(&mut self, block: &Arc<PendingBlock>, waits: bool) -> Result<(u64, u64)> {
        self.complete_failed()?;
        let open = match self.open.take() {
            Some(open) => open,
            None => self.open_segment()?,
        };
        let (number, file) = (open.segment, Arc::clone(&open.file));
        self.open = Some(open);
        block.retry();
        self.writes.push(&file, Arc::clone(block), self.waiting_max());
        while waits && !block.is_written() && !block.has_failed() {
            self.writes.write_all();
        }
        if block.has_failed() {
            let error = file.error();
            self.complete_open()?;
            return Err(error.unwrap_or_else(|| Error::internal("a block that failed without an error")));
        }
        let segment = self.segments.get_mut(&number).ok_or_else(|| no_segment(number))?;
        let at = segment.bytes;
        segment.bytes += block.bytes.len() as u64;
        self.file_bytes += block.bytes.len() as u64;
        Ok((number, at))
    }

    /// Bytes of blocks that may wait for the disk.
    fn waiting_max(&self) -> usize {
        self.share_of_memory(WAITING_SHARE)
    }

    /// Bytes of keys of the last blocks from which they are written.
    fn directory_max(&self) -> usize {
        DIRECTORY_BYTES.min(self.share_of_memory(DIRECTORY_SHARE))
    }

    /// One of so many parts of the memory limit, in bytes.
    fn share_of_memory(&self, parts: u64) -> usize {
        let limit = self.charge.budget().map_or(u64::MAX, |budget| budget.limit());
        usize::try_from(limit / parts).unwrap_or(usize::MAX)
    }

    /// Completes the open segment if it takes no more blocks.
    fn complete_failed(&mut self) -> Result<()> {
        let has_failed = |open: &Open| open.file.error().is_some() || open.file.may_be_lost();
        if self.open.as_ref().is_some_and(has_failed) { self.complete_open() } else { Ok(()) }
    }

    /// Completes the open segment if it is full.
    fn complete_full(&mut self) -> Result<()> {
        let full = |open: &Open| {
            let segment = self.segments.get(&open.segment);
            segment.is_some_and(|segment| segment.bytes >= self.settings.segment_bytes)
        };
        if self.open.as_ref().is_some_and(full) { self.complete_open() } else { Ok(()) }
    }

    /// Writes no more to the open segment.
    fn complete_open(&mut self) -> Result<()> {
        self.write_directory();
        let Some(open) = self.open.take() else { return Ok(()) };
        self.writes.complete(&open.file);
        self.complete(open.segment)
    }

    /// Writes the keys of the open segment's last blocks behind them. If they cannot be written, these blocks have to be
    /// read for their keys.
    fn write_directory(&mut self) {
        let Some(open) = &self.open else { return };
        let Some(bytes) = self.directory.take(open.segment) else { return };
        let Some(segment) = self.segments.get_mut(&open.segment) else { return };
        let length = bytes.len() as u32;
        segment.directories.push(DirectoryEntry { segment: open.segment, at: segment.bytes, bytes: length });
        segment.bytes += u64::from(length);
        segment.directory_bytes += u64::from(length);
        self.directory_bytes += u64::from(length);
        self.file_bytes += u64::from(length);
        let file = Arc::clone(&open.file);
        self.writes.push(&file, PendingBlock::new(bytes), self.waiting_max());
    }

    /// Forgets the bytes of blocks that are in their files.
    fn forget_written(&mut self) {
        self.pending.retain(|_, block| !block.is_written());
        let pending: usize = self.pending.values().map(|block| block.bytes.capacity()).sum();
        self.charge.set(pending + self.directory.bytes());
        self.fit_places();
    }

    /// Gives back room for blocks that have gone, and charges the rest.
    fn fit_places(&mut self) {
        let (capacity, count) = (self.blocks.capacity(), self.blocks.len());
        if count == 0 && capacity > 0 {
            self.blocks = HashMap::new();
        } else if capacity / SPARSE_BLOCKS > count.max(SPARSE_BLOCKS_MIN) {
            self.blocks.shrink_to(2 * count);
        }
        self.places.set(self.blocks.capacity() * (size_of::<(BlockNumber, Block)>() + 1));
    }

    /// Number of blocks that are not known to be written.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// The first block that could not be written.
    fn first_failed(&self) -> Option<(BlockNumber, Arc<PendingBlock>)> {
        let (number, failed) = self.pending.iter().find(|(_, block)| block.has_failed())?;
        Some((*number, Arc::clone(failed)))
    }

    fn open_segment(&mut self) -> Result<Open> {
        let number = self.files.take_segment_number();
        let (segment, disk) = (self.segment_of(number), self.files.disk());
        let name = segment.file_name();
        let header = segment_header(self.database, self.partition, number);
        let mut file = disk.create_direct(&name)?;
        let reader = match file.append(&header).and_then(|()| disk.open_direct(&name)) {
            Ok(reader) => reader,
            Err(error) => {
                disk.remove(&name)?;
                return Err(error);
            }
        };
        self.files.use_segment(segment);
        let file = SegmentWrites::new(file, &header);
        self.add_segment(number, Arc::from(reader), Source::Written(Arc::clone(&file)), PAGE_BYTES as u64);
        Ok(Open { segment: number, file })
    }

    fn add_segment(&mut self, number: u64, file: Arc<dyn ReadFile>, source: Source, bytes: u64) {
        self.file_bytes += bytes;
        let (blocks, directories) = (BTreeSet::new(), Vec::new());
        let segment =
            Segment { file, source, blocks, bytes, live_bytes: 0, directories, directory_bytes: 0, snapshot: 0 };
        self.segments.insert(number, segment);
    }

    /// Lets a segment go that is not open any more, if it has no block.
    fn complete(&mut self, segment: u64) -> Result<()> {
        if self.segments.get(&segment).is_some_and(|segment| segment.blocks.is_empty()) {
            if let Some(gone) = self.segments.remove(&segment) {
                self.file_bytes -= gone.bytes;
                self.directory_bytes -= gone.directory_bytes;
                if gone.snapshot == self.snapshot.1 && gone.snapshot > 0 {
                    self.gone.extend(gone.directories);
                }
            }
            self.files.let_go(self.segment_of(segment))?;
        }
        Ok(())
    }

    fn block(&self, number: BlockNumber) -> Result<(Block, &Segment)> {
        let block = self.blocks.get(&number).copied();
        let block = block.ok_or_else(|| {
            let missing = || Error::internal(format_args!("partition {} has no block {}", self.partition.0, number.0));
            self.lost.get(&number).cloned().unwrap_or_else(missing)
        })?;
        let segment = self.segments.get(&block.segment).ok_or_else(|| no_segment(block.segment))?;
        Ok((block, segment))
    }

    /// Reads one row, with as many pages as hold it, and gives it to `each`.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written, naming the file and the place.
    pub fn read_row<T>(
        &self,
        (number, offset): (BlockNumber, u32),
        tuple: TupleId,
        buffer: &mut Vec<u8>,
        each: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.opened(number)?.read_row(offset, tuple, buffer, each)
    }

    /// A block, for reads apart from the store.
    fn opened(&self, number: BlockNumber) -> Result<OpenedBlock> {
        let (block, segment) = self.block(number)?;
        let (file, traffic) = (Arc::clone(&segment.file), Arc::clone(&self.traffic));
        let pending = self.pending.get(&number).filter(|pending| !pending.is_written()).map(Arc::clone);
        Ok(OpenedBlock { number, block, file, pending, segment: self.segment_of(block.segment), traffic })
    }

    /// Reads all of a block, and gives its records to `each`, with their offsets, in the order in which they were put
    /// there; also those that have left it.
    ///
    /// # Errors
    /// As of [`BlockStore::read_row`], and those of `each`.
    pub fn read_block(
        &self,
        number: BlockNumber,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(u32, Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let opened = self.opened(number)?;
        opened.read_all(buffer)?.into_iter().try_for_each(|(offset, record)| each(offset, record))
    }

    /// Notes that a row has left a block, whose files go with its last row.
    ///
    /// # Errors
    /// If a file cannot be removed; it is forgotten all the same.
    pub fn release(&mut self, number: BlockNumber) -> Result<()> {
        let Some(block) = self.blocks.get_mut(&number) else { return Ok(()) };
        if block.rows <= 1 {
            return self.remove(number);
        }
        block.rows -= 1;
        self.rows -= 1;
        let row_bytes = u64::from(block.row_bytes);
        self.live_bytes -= row_bytes;
        if let Some(segment) = self.segments.get_mut(&block.segment) {
            segment.live_bytes -= row_bytes;
        }
        Ok(())
    }

    /// Forgets a block with all of its rows.
    fn remove(&mut self, number: BlockNumber) -> Result<()> {
        let Some(block) = self.blocks.remove(&number) else { return Ok(()) };
        self.fit_places();
        self.block_bytes -= u64::from(block.bytes);
        self.rows -= u64::from(block.rows);
        self.aside.remove(&number);
        if self.pending.remove(&number).is_some() {
            self.forget_written();
        }
        self.leave_segment(block.segment, number, block.live_bytes())
    }

    /// Notes that all rows of a table have left their blocks.
    ///
    /// # Errors
    /// As of [`BlockStore::release`].
    pub fn release_table(&mut self, table: TableId) -> Result<()> {
        let mut numbers: Vec<BlockNumber> =
            self.blocks.iter().filter(|(_, block)| block.table == table).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let mut released = Ok(());
        for number in numbers {
            released = self.remove(number).and(released);
        }
        released
    }

    /// Notes that a segment has a block with this many bytes of rows.
    fn enter_segment(&mut self, segment: u64, number: BlockNumber, live_bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.blocks.insert(number);
            segment.live_bytes += live_bytes;
            self.live_bytes += live_bytes;
        }
    }

    /// Notes that a block has left a segment, whose file goes with its last block.
    fn leave_segment(&mut self, segment: u64, number: BlockNumber, live_bytes: u64) -> Result<()> {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.blocks.remove(&number);
            segment.live_bytes -= live_bytes;
            self.live_bytes -= live_bytes;
        }
        match &self.open {
            Some(open) if open.segment == segment => Ok(()),
            _ => self.complete(segment),
        }
    }
}

/// Reads a block that an earlier process has written, as far as its rows can be read; otherwise with the
/// [damage](BlockRows::damage), which names the file and the place.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read_block(file: &Arc<dyn ReadFile>, segment: files::Segment, entry: &BlockEntry) -> Result<BlockRows> {
    written(file, segment, entry).rows_left("")
}

/// An error unless a row of a block that an earlier process has written can be read.
pub(crate) fn check_row(
    file: &Arc<dyn ReadFile>,
    segment: files::Segment,
    entry: &BlockEntry,
    (tuple, offset): (TupleId, u32),
) -> Result<()> {
    written(file, segment, entry).read_row(offset, tuple, &mut Vec::new(), |_| Ok(()))
}

/// A block that an earlier process has written.
fn written(file: &Arc<dyn ReadFile>, segment: files::Segment, entry: &BlockEntry) -> OpenedBlock {
    let (block, file) = (Block::of_entry(entry, 0), Arc::clone(file));
    OpenedBlock { number: entry.block, block, file, pending: None, segment, traffic: Arc::default() }
}

impl Block {
    fn of_entry(entry: &BlockEntry, rows: u32) -> Self {
        let BlockEntry { table, segment, at, bytes, row_bytes, .. } = *entry;
        Self { table, segment, at, bytes, rows, row_bytes, snapshot: 0 }
    }

    fn live_bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.row_bytes)
    }
}

impl Blocks for BlockStore {
    fn put(
        &mut self,
        table: TableId,
        indexes: &[u64],
        rows: &mut dyn Iterator<Item = BlockRowImage<'_>>,
    ) -> Result<Vec<BlockPlace>> {
        let mut builder = self.begin(table)?;
        let block = builder.number();
        let mut keys = KeysOfBlock::new(block, table, indexes);
        let places = rows.map(|row| {
            let offset = builder.push(row.tuple, row.image);
            keys.push(&row, offset);
            BlockPlace { block, offset }
        });
        let places: Vec<BlockPlace> = places.collect();
        if places.iter().any(|place| place.offset > BlockPlace::OFFSET_MAX) {
            return Err(Error::internal("a block of more bytes than a locator counts"));
        }
        self.put_with(builder, Some(&keys))?;
        Ok(places)
    }

    fn adopt(&mut self, block: &BlockEntry, rows: u32) -> Result<()> {
        if !self.segments.contains_key(&block.segment) {
            let segment = self.segment_of(block.segment);
            let missing = || Error::corrupt(format_args!("the snapshot has no {}", segment.file_name()));
            let extent = self.files.extent(segment).ok_or_else(missing)?;
            let file = Arc::from(self.files.disk().open_direct(&segment.file_name())?);
            self.files.use_segment(segment);
            self.add_segment(block.segment, file, Source::Earlier(extent), extent.bytes);
        }
        self.enter(block.block, Block::of_entry(block, rows));
        Ok(())
    }

    fn lose(&mut self, block: BlockNumber, why: Error) {
        self.lost.insert(block, why);
    }

    fn adopt_directories(&mut self, directories: &[DirectoryEntry]) {
        for directory in directories {
            if let Some(segment) = self.segments.get_mut(&directory.segment) {
                segment.directories.push(*directory);
                segment.directory_bytes += u64::from(directory.bytes);
                self.directory_bytes += u64::from(directory.bytes);
            }
        }
        BlockStore::forget_written(self);
    }

    fn begin_snapshot(&mut self, position: Sequence) {
        self.snapshot = (position, self.snapshot.1 + 1);
        self.gone = Vec::new();
    }

    fn refer(&mut self, number: BlockNumber) -> Result<Option<BlockEntry>> {
        let (position, snapshot) = self.snapshot;
        if self.block(number)?.0.snapshot == snapshot {
            return Ok(None);
        }
        if !self.pending.is_empty() {
            self.move_failed()?;
        }
        self.complete_failed()?;
        let Some(block) = self.blocks.get_mut(&number) else { return Ok(None) };
        block.snapshot = snapshot;
        let Block { table, segment, at, bytes, row_bytes, .. } = *block;
        let file = self.segment_of(segment);
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.snapshot = snapshot;
            self.files.refer(position, file, (&segment.source, at + u64::from(bytes)));
        }
        Ok(Some(BlockEntry { block: number, table, segment, at, bytes, row_bytes }))
    }

    fn directories(&mut self) -> Vec<DirectoryEntry> {
        self.write_directory();
        let referred = self.segments.values().filter(|segment| segment.snapshot == self.snapshot.1);
        let directories = referred.flat_map(|segment| segment.directories.iter().copied());
        directories.chain(std::mem::take(&mut self.gone)).collect()
    }

    fn read(&self, place: BlockPlace, tuple: TupleId, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.read_row((place.block, place.offset), tuple, &mut Vec::new(), each)
    }

    fn reader(&self, place: BlockPlace, tuple: TupleId, is_first: bool) -> Result<RowReader> {
        let reads_block = is_first && self.settings.merge == Merge::Block;
        Ok(Box::new(RowRead { opened: self.opened(place.block)?, offset: place.offset, tuple, reads_block }))
    }

    fn block_bytes(&self) -> usize {
        self.settings.block_bytes()
    }

    fn block_reader(&self, block: BlockNumber) -> Result<BlockReader> {
        Ok(self.opened(block)?.reader())
    }

    fn read_rows(&self, reads: Vec<RowReader>) -> Vec<Result<ReadRow>> {
        together::read_rows(reads, self.files.disk().reads_at_once())
    }

    fn blocks_reader(&self, blocks: Vec<BlockNumber>) -> Result<BlocksReader> {
        let opened: Vec<OpenedBlock> = blocks.into_iter().map(|block| self.opened(block)).collect::<Result<_>>()?;
        let at_once = self.files.disk().reads_at_once();
        Ok(Box::new(move || {
            together::read_together(opened.into_iter(), at_once, |opened| {
                (opened.number, opened.rows_left(SCAN_ADVICE))
            })
        }))
    }

    fn note_replay_reads(&mut self, rows: u64) {
        self.files.add_replay_reads(rows);
    }

    fn sparse(&self, count: usize) -> Vec<BlockNumber> {
        let blocks = |segment: &Segment| -> Vec<BlockNumber> {
            segment.blocks.difference(&self.aside).copied().take(count).collect()
        };
        let is_open = |segment: u64| self.open.as_ref().is_some_and(|open| open.segment == segment);
        let complete = || self.segments.iter().filter(|(number, _)| !is_open(**number)).map(|(_, segment)| segment);
        let may_be_lost = |segment: &&Segment| matches!(&segment.source, Source::Written(file) if file.may_be_lost());
        // No snapshot could refer to them.
        if let Some(lost) = complete().filter(may_be_lost).map(blocks).find(|blocks| !blocks.is_empty()) {
            return lost;
        }
        let slack = SPARSE_SEGMENTS * self.settings.segment_bytes;
        let of_blocks = self.file_bytes.saturating_sub(self.directory_bytes + slack);
        if self.settings.fill_factor.is_met(self.live_bytes, of_blocks) {
            return Vec::new();
        }
        let stays_from = self.settings.fill_factor.stays_from();
        let share = |segment: &Segment| {
            let of_blocks = segment.bytes.saturating_sub(segment.directory_bytes + PAGE_BYTES as u64);
            u128::from(segment.live_bytes) * 1000 / u128::from(of_blocks.max(1))
        };
        let mut candidates: Vec<&Segment> = complete().filter(|segment| share(segment) < stays_from).collect();
        candidates.sort_by_key(|segment| share(segment));
        candidates.into_iter().map(blocks).find(|blocks| !blocks.is_empty()).unwrap_or_default()
    }

    fn bytes_of(&self, block: BlockNumber) -> usize {
        self.blocks.get(&block).map_or(0, |block| block.bytes as usize)
    }

    fn read_bytes(&self, block: BlockNumber, is_first: bool) -> usize {
        let Some(block) = self.blocks.get(&block) else { return 0 };
        let with_block = is_first && self.settings.merge == Merge::Block;
        block.row_bytes as usize + if with_block { block.bytes as usize } else { 0 }
    }

    fn forget_written(&mut self) {
        if !self.pending.is_empty() {
            BlockStore::forget_written(self);
        }
    }

    fn table_of(&self, block: BlockNumber) -> Option<TableId> {
        self.blocks.get(&block).map(|block| block.table)
    }

    fn set_aside(&mut self, block: BlockNumber) {
        if self.blocks.contains_key(&block) {
            self.aside.insert(block);
        }
    }

    fn next(&self) -> BlockNumber {
        self.files.next_block()
    }

    fn has_longer(&self, table: TableId, bytes: usize) -> bool {
        self.blocks.values().any(|block| block.table == table && block.bytes as usize > bytes)
    }

    fn statistics(&self) -> BlockStatistics {
        BlockStatistics {
            segments: self.segments.len() as u64,
            blocks: self.blocks.len() as u64,
            rows: self.rows,
            block_bytes: self.block_bytes,
            file_bytes: self.file_bytes,
            written_total: self.written,
            written_bytes_total: self.written_bytes,
            reads_total: self.traffic.reads(),
            read_bytes_total: self.traffic.bytes(),
            new_block_bytes: self.settings.block_bytes() as u64,
            is_asynchronous: self.files.disk().is_asynchronous(),
        }
    }

    fn release(&mut self, block: BlockNumber) -> Result<()> {
        BlockStore::release(self, block)
    }

    fn release_table(&mut self, table: TableId) -> Result<()> {
        BlockStore::release_table(self, table)
    }
}

#[cold]
fn no_segment(segment: u64) -> Error {
    Error::internal(format_args!("no segment {segment} of blocks"))
}

/// Lets its files go.
impl Drop for BlockStore {
    fn drop(&mut self) {
        self.open = None;
        for segment in std::mem::take(&mut self.segments).into_keys() {
            // Those that stay go when the next process starts.
            let _stays = self.files.let_go(self.segment_of(segment));
        }
    }
}
