//! The blocks of one partition, in append-only segments.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_machine::ids::{DatabaseId, PartitionId};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{
    BlockNumber, BlockPlace, BlockReader, BlockRows, BlockStatistics, Blocks, Budget, Charge, RowReader, TupleId,
    Working,
};
use thermocline_types::{Class, Error, Result};

use super::format::{
    BlockBuilder, NotARecord, PAGE_BYTES, RECORD_HEADER_BYTES, Record, record, records, segment_header,
};
use super::writer::{BlockWrites, PendingBlock, SegmentWrites};
use crate::disk::{Disk, ReadFile};

/// First part of the names of all files of blocks.
const PREFIX: &str = "blocks-";

/// Files have at most this many times the bytes of the rows that are in them, and this many segments besides.
const SPARSE_RATIO: u64 = 2;
const SPARSE_SEGMENTS: u64 = 2;
/// Thousandths of a segment's bytes above which its rows do not move.
const SPARSE_SHARE: u128 = 600;
/// Divisor of the memory limit for blocks that wait for the disk.
const WAITING_SHARE: u64 = 64;

/// Sizes of a store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStoreSettings {
    /// Bytes after which a segment is complete; it exceeds them by one block at most.
    pub segment_bytes: u64,
}

impl Default for BlockStoreSettings {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20 }
    }
}

/// Blocks of evicted rows of one partition.
///
/// ```text
///  put --> open segment --full, or a write failed--> complete segment --its last row has left--> removed
///                 read, release                             read, release
/// ```
///
/// A block is read from memory until it is [written](BlockWrites). One that could not be written stays there, and goes
/// to another segment before any further block is put.
///
/// Invariants: every block has at least one row that has not left it; a segment that is not open has at least one
/// block; no byte of a segment changes after it was appended.
#[derive(Debug)]
pub struct BlockStore {
    disk: Arc<dyn Disk>,
    database: DatabaseId,
    partition: PartitionId,
    settings: BlockStoreSettings,
    writes: Arc<BlockWrites>,
    blocks: HashMap<BlockNumber, Block>,
    /// Blocks that may not be written yet, in the order in which they were put.
    pending: BTreeMap<BlockNumber, Arc<PendingBlock>>,
    charge: Charge,
    segments: BTreeMap<u64, Segment>,
    /// The segment that the next block goes into.
    open: Option<Open>,
    next_block: u32,
    next_segment: u64,
    /// Bytes of all segments, and of the rows that have not left them.
    file_bytes: u64,
    live_bytes: u64,
    /// Rows that have not left, and bytes of their blocks.
    rows: u64,
    block_bytes: u64,
    /// Blocks that cannot be read.
    aside: BTreeSet<BlockNumber>,
    written_bytes: u64,
    traffic: Arc<Traffic>,
}

/// What was read since the start, on any thread.
#[derive(Debug, Default)]
struct Traffic {
    reads: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    table: TableId,
    segment: u64,
    /// First byte in the segment.
    at: u64,
    /// Bytes there, with zeros up to the end of a page.
    bytes: u32,
    /// Rows that have not left it.
    rows: u32,
    /// Mean bytes of a row when it was written.
    row_bytes: u32,
}

#[derive(Debug)]
struct Segment {
    file: Arc<dyn ReadFile>,
    blocks: BTreeSet<BlockNumber>,
    bytes: u64,
    /// Bytes of the rows that have not left it.
    live_bytes: u64,
}

#[derive(Debug)]
struct Open {
    segment: u64,
    file: Arc<SegmentWrites>,
}

impl BlockStore {
    /// An empty store. Files that an earlier process has left are removed by [`BlockStore::clear`].
    pub fn new(
        disk: Arc<dyn Disk>,
        database: DatabaseId,
        partition: PartitionId,
        settings: BlockStoreSettings,
        (writes, budget): (Arc<BlockWrites>, &Arc<Budget>),
    ) -> Self {
        Self {
            disk,
            writes,
            pending: BTreeMap::new(),
            charge: Charge::new(budget, Working::Blocks),
            database,
            partition,
            settings,
            blocks: HashMap::new(),
            segments: BTreeMap::new(),
            open: None,
            next_block: 0,
            next_segment: 1,
            file_bytes: 0,
            live_bytes: 0,
            rows: 0,
            block_bytes: 0,
            aside: BTreeSet::new(),
            written_bytes: 0,
            traffic: Arc::default(),
        }
    }

    /// Removes the files of all stores in this directory.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file not be removed.
    pub fn clear(disk: &dyn Disk) -> Result<()> {
        disk.list()?.iter().filter(|name| name.starts_with(PREFIX)).try_for_each(|name| disk.remove(name))
    }

    fn name(&self, segment: u64) -> String {
        format!("{PREFIX}{:05}-{segment:020}", self.partition.0)
    }

    /// A block for rows of this table, to be [put](Self::put) before another one is begun.
    ///
    /// # Errors
    /// If there is no block number left.
    pub fn begin(&self, table: TableId) -> Result<BlockBuilder> {
        if self.next_block > BlockNumber::MAX.0 {
            return Err(
                Class::LimitExceeded.error(format_args!("partition {} has no block number left", self.partition.0))
            );
        }
        Ok(BlockBuilder::new(BlockNumber(self.next_block), table))
    }

    /// Writes a block, whose rows can be read from now on. The rows may go from memory only after that.
    ///
    /// # Errors
    /// If it cannot be written: then there is no such block. The next one goes into another segment.
    pub fn put(&mut self, block: BlockBuilder) -> Result<()> {
        if block.rows() == 0 {
            return Ok(());
        }
        self.forget_written();
        while let Some((number, failed)) = self.first_failed() {
            failed.retry();
            let (segment, at) = self.append(&failed, true)?;
            self.pending.remove(&number);
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut block.segment, segment);
            block.at = at;
            let live_bytes = block.live_bytes();
            self.enter_segment(segment, number, live_bytes);
            self.leave_segment(before, number, live_bytes)?;
        }
        let (number, table, rows) = (block.number(), block.table(), block.rows());
        let pending = PendingBlock::new(block.finish());
        let bytes = pending.bytes.len() as u32;
        let (segment, at) = self.append(&pending, false)?;
        if !pending.is_written() {
            self.pending.insert(number, pending);
            self.forget_written();
        }
        let block = Block { table, segment, at, bytes, rows, row_bytes: bytes / rows };
        self.blocks.insert(number, block);
        self.enter_segment(segment, number, block.live_bytes());
        self.next_block += 1;
        self.written_bytes += u64::from(bytes);
        self.block_bytes += u64::from(bytes);
        self.rows += u64::from(rows);
        Ok(())
    }

    /// Appends a block to the open segment; waits until it is written if `waits`. Returns the segment and the place
    /// there.
    fn append(&mut self, block: &Arc<PendingBlock>, waits: bool) -> Result<(u64, u64)> {
        let open = match self.open.take() {
            Some(open) if open.file.error().is_none() => open,
            Some(open) => {
                self.complete(open.segment)?;
                self.open_segment()?
            }
            None => self.open_segment()?,
        };
        let limit = self.charge.budget().map_or(u64::MAX, |budget| budget.limit());
        let waiting_max = usize::try_from(limit / WAITING_SHARE).unwrap_or(usize::MAX);
        self.writes.push(&open.file, Arc::clone(block), waiting_max);
        while waits && !block.is_written() && !block.has_failed() {
            self.writes.write_all();
        }
        if block.has_failed() {
            let error = open.file.error();
            self.complete(open.segment)?;
            return Err(error.unwrap_or_else(|| Error::internal("a block that failed without an error")));
        }
        let segment = self.segments.get_mut(&open.segment).ok_or_else(|| no_segment(open.segment))?;
        let at = segment.bytes;
        segment.bytes += block.bytes.len() as u64;
        self.file_bytes += block.bytes.len() as u64;
        let number = open.segment;
        if segment.bytes < self.settings.segment_bytes {
            self.open = Some(open);
        }
        Ok((number, at))
    }

    /// Forgets the bytes of blocks that are in their files.
    fn forget_written(&mut self) {
        while let Some(first) = self.pending.first_entry().filter(|first| first.get().is_written()) {
            first.remove();
        }
        self.charge.set(self.pending.values().map(|block| block.bytes.capacity()).sum());
    }

    /// The first block that could not be written.
    fn first_failed(&self) -> Option<(BlockNumber, Arc<PendingBlock>)> {
        let (number, failed) = self.pending.iter().find(|(_, block)| block.has_failed())?;
        Some((*number, Arc::clone(failed)))
    }

    fn open_segment(&mut self) -> Result<Open> {
        let segment = self.next_segment;
        let name = self.name(segment);
        // A number is used once, even if the file cannot be written.
        self.next_segment += 1;
        let mut file = self.disk.create_direct(&name)?;
        let opened = file
            .append(&segment_header(self.database, self.partition, segment))
            .and_then(|()| self.disk.open_direct(&name));
        let reader = match opened {
            Ok(reader) => reader,
            Err(error) => {
                self.disk.remove(&name)?;
                return Err(error);
            }
        };
        let (reader, bytes) = (Arc::from(reader), PAGE_BYTES as u64);
        self.file_bytes += bytes;
        self.segments.insert(segment, Segment { file: reader, blocks: BTreeSet::new(), bytes, live_bytes: 0 });
        Ok(Open { segment, file: SegmentWrites::new(file) })
    }

    /// Removes a segment that is not open any more, if it has no block.
    fn complete(&mut self, segment: u64) -> Result<()> {
        if self.segments.get(&segment).is_some_and(|segment| segment.blocks.is_empty()) {
            self.file_bytes -= self.segments.remove(&segment).map_or(0, |segment| segment.bytes);
            self.disk.remove(&self.name(segment))?;
        }
        Ok(())
    }

    fn block(&self, number: BlockNumber) -> Result<(Block, &Segment)> {
        let block = self.blocks.get(&number).copied();
        let block = block
            .ok_or_else(|| Error::internal(format_args!("partition {} has no block {}", self.partition.0, number.0)))?;
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
        Ok(OpenedBlock { number, block, file, pending, name: self.name(block.segment), traffic })
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
        block.rows -= 1;
        self.rows -= 1;
        let Block { segment, bytes, rows, row_bytes, .. } = *block;
        let row_bytes = u64::from(row_bytes);
        if rows > 0 {
            self.live_bytes -= row_bytes;
            if let Some(segment) = self.segments.get_mut(&segment) {
                segment.live_bytes -= row_bytes;
            }
            return Ok(());
        }
        self.block_bytes -= u64::from(bytes);
        self.blocks.remove(&number);
        self.aside.remove(&number);
        if self.pending.remove(&number).is_some() {
            self.forget_written();
        }
        self.leave_segment(segment, number, row_bytes)
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

/// A block as of some moment. Its bytes stay readable for as long as this lives, also when its rows have left.
struct OpenedBlock {
    number: BlockNumber,
    block: Block,
    file: Arc<dyn ReadFile>,
    /// Its bytes, if it may not be in its file.
    pending: Option<Arc<PendingBlock>>,
    name: String,
    traffic: Arc<Traffic>,
}

impl OpenedBlock {
    fn read_row<T>(
        &self,
        offset: u32,
        tuple: TupleId,
        buffer: &mut Vec<u8>,
        each: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let damaged = |what: &str| self.damaged(format_args!("{what} at byte {offset} of it, row {}", tuple.0));
        let (offset, end) = (offset as usize, self.block.bytes as usize);
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        // A row is likely to be as long as others, if they are short.
        let likely = offset + (self.block.row_bytes as usize).min(PAGE_BYTES);
        let mut last = likely.next_multiple_of(PAGE_BYTES).min(end);
        loop {
            self.read(first..last, buffer)?;
            match record(buffer.get(offset - first..).unwrap_or_default(), (self.number, self.block.table)) {
                Ok((record, _)) if record.tuple == tuple => return each(record.image),
                Ok(_) => return Err(damaged("another row is")),
                Err(NotARecord::Longer(bytes)) if offset + bytes <= end && last < end => {
                    last = (offset + bytes).next_multiple_of(PAGE_BYTES).min(end);
                }
                Err(_) => return Err(damaged("something else than a row is")),
            }
        }
    }

    /// Its records with their offsets.
    fn read_all<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<Vec<(u32, Record<'b>)>> {
        self.read(0..self.block.bytes as usize, buffer)?;
        let found = records(buffer, (self.number, self.block.table));
        found.ok_or_else(|| self.damaged(format_args!("it is not what was written")))
    }

    fn read(&self, range: Range<usize>, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        if let Some(pending) = &self.pending {
            buffer.extend_from_slice(pending.bytes.get(range).unwrap_or_default());
            return Ok(());
        }
        buffer.resize(range.len(), 0);
        let read = self.file.read_at(self.block.at + range.start as u64, buffer)?;
        self.traffic.reads.fetch_add(1, Ordering::Relaxed);
        self.traffic.bytes.fetch_add(read as u64, Ordering::Relaxed);
        if read < range.len() {
            return Err(self.damaged(format_args!("the file ends {read} bytes after byte {} of it", range.start)));
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, what: fmt::Arguments<'_>) -> Error {
        Error::corrupt(format_args!("{}: block {} at byte {}: {what}", self.name, self.number.0, self.block.at))
    }
}

impl Block {
    fn live_bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.row_bytes)
    }
}

impl Blocks for BlockStore {
    fn put(&mut self, table: TableId, rows: &mut dyn Iterator<Item = (TupleId, &[u8])>) -> Result<Vec<BlockPlace>> {
        let mut builder = self.begin(table)?;
        let block = builder.number();
        let places = rows.map(|(tuple, image)| BlockPlace { block, offset: builder.push(tuple, image) }).collect();
        BlockStore::put(self, builder)?;
        Ok(places)
    }

    fn read(&self, place: BlockPlace, tuple: TupleId, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.read_row((place.block, place.offset), tuple, &mut Vec::new(), each)
    }

    fn reader(&self, place: BlockPlace, tuple: TupleId) -> Result<RowReader> {
        let opened = self.opened(place.block)?;
        Ok(Box::new(move || opened.read_row(place.offset, tuple, &mut Vec::new(), |image| Ok(image.to_vec()))))
    }

    fn block_reader(&self, block: BlockNumber) -> Result<BlockReader> {
        let opened = self.opened(block)?;
        Ok(Box::new(move || {
            let mut bytes = Vec::new();
            let rows = opened.read_all(&mut bytes)?.into_iter().map(|(offset, record)| {
                let start = offset as usize + RECORD_HEADER_BYTES;
                (record.tuple, offset, start..start + record.image.len())
            });
            let rows: Vec<_> = rows.collect();
            Ok(BlockRows::new(block, bytes, rows.into_iter()))
        }))
    }

    fn sparse(&self, count: usize) -> Vec<BlockNumber> {
        let slack = SPARSE_SEGMENTS * self.settings.segment_bytes;
        if self.file_bytes <= SPARSE_RATIO * self.live_bytes + slack {
            return Vec::new();
        }
        let is_open = |segment: u64| self.open.as_ref().is_some_and(|open| open.segment == segment);
        let complete = self.segments.iter().filter(|(number, _)| !is_open(**number)).map(|(_, segment)| segment);
        // The least share of live bytes; in integers, so that it is the same everywhere.
        let share = |segment: &Segment| u128::from(segment.live_bytes) * 1000 / u128::from(segment.bytes.max(1));
        let blocks = |segment: &Segment| -> Vec<BlockNumber> {
            segment.blocks.difference(&self.aside).copied().take(count).collect()
        };
        let mut candidates: Vec<&Segment> = complete.filter(|segment| share(segment) < SPARSE_SHARE).collect();
        candidates.sort_by_key(|segment| share(segment));
        candidates.into_iter().map(blocks).find(|blocks| !blocks.is_empty()).unwrap_or_default()
    }

    fn row_bytes(&self, block: BlockNumber) -> usize {
        self.blocks.get(&block).map_or(0, |block| block.row_bytes as usize)
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
        BlockNumber(self.next_block)
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
            written_total: self.next_block.into(),
            written_bytes_total: self.written_bytes,
            reads_total: self.traffic.reads.load(Ordering::Relaxed),
            read_bytes_total: self.traffic.bytes.load(Ordering::Relaxed),
        }
    }

    fn release(&mut self, block: BlockNumber) -> Result<()> {
        BlockStore::release(self, block)
    }
}

#[cold]
fn no_segment(segment: u64) -> Error {
    Error::internal(format_args!("no segment {segment} of blocks"))
}

/// Removes its files, which nothing refers to.
impl Drop for BlockStore {
    fn drop(&mut self) {
        self.open = None;
        for segment in std::mem::take(&mut self.segments).into_keys() {
            // Those that stay go when the next process starts.
            let _stays = self.disk.remove(&self.name(segment));
        }
    }
}
