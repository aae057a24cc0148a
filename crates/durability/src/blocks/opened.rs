//! Reads of a block apart from its store, on any thread.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_tables::table::{BlockNumber, BlockReader, BlockRows, ReadRow, ReadsRow, TupleId};
use thermocline_types::{Error, Result};

use super::block::Block;
use super::files::Segment;
use super::format::{NotARecord, PAGE_BYTES, RECORD_HEADER_BYTES, Record, record, records, records_left};
use super::writer::PendingBlock;
use crate::disk::ReadFile;

/// What was read since the start, on any thread.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Number of reads.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes of them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What the error of a scan says besides of a damaged block.
pub(super) const SCAN_ADVICE: &str = ", and a row that is needed is lost. Other rows can be read by their keys; \
     'thermocline check' names the keys of those that are lost: restore the file, or delete them by key";

/// A block as of some moment. Its bytes stay readable for as long as this lives, also when its rows have left.
pub(super) struct OpenedBlock {
    pub number: BlockNumber,
    pub block: Block,
    pub file: Arc<dyn ReadFile>,
    /// Its bytes, if it may not be in its file.
    pub pending: Option<Arc<PendingBlock>>,
    /// Which file it is, for errors.
    pub segment: Segment,
    pub traffic: Arc<Traffic>,
}

/// What some pages of a block have of a row.
enum Found<'b> {
    /// Its image.
    Image(&'b [u8]),
    /// Its beginning: these pages have all of it.
    Longer(Range<usize>),
}

/// What follows an asynchronous read.
type Then<T> = Box<dyn FnOnce(Result<T>) + Send>;

impl OpenedBlock {
    /// Reads one row, with as many pages as hold it, and gives it to `each`.
    pub fn read_row<T>(
        &self,
        offset: u32,
        tuple: TupleId,
        buffer: &mut Vec<u8>,
        each: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let mut pages = self.likely_pages(offset);
        loop {
            self.read(pages.clone(), buffer)?;
            match self.row_in(&pages, buffer, offset, tuple)? {
                Found::Image(image) => return each(image),
                Found::Longer(longer) => pages = longer,
            }
        }
    }

    /// [`OpenedBlock::read_row`], where the file is asynchronous.
    fn start_row(self: Arc<Self>, pages: Range<usize>, offset: u32, tuple: TupleId, then: Then<Vec<u8>>) {
        let (of, this) = (pages.clone(), Arc::clone(&self));
        let parse = move |bytes: Result<&[u8]>| match bytes.and_then(|bytes| this.row_in(&of, bytes, offset, tuple)) {
            Ok(Found::Image(image)) => then(Ok(image.to_vec())),
            Ok(Found::Longer(longer)) => this.start_row(longer, offset, tuple, then),
            Err(error) => then(Err(error)),
        };
        self.start(pages, parse);
    }

    /// Reads one row, where the file is asynchronous.
    fn start_row_alone(self: Arc<Self>, offset: u32, tuple: TupleId, then: Then<ReadRow>) {
        let pages = self.likely_pages(offset);
        let then = Box::new(|image: Result<_>| then(image.map(|image| ReadRow { image, block: None })));
        self.start_row(pages, offset, tuple, then);
    }

    /// Reads the whole block of a row, where the file is asynchronous. A damaged row leaves the others readable: then
    /// the row is read alone.
    fn start_block(self: Arc<Self>, offset: u32, tuple: TupleId, then: Then<ReadRow>) {
        let this = Arc::clone(&self);
        let parse = move |bytes: Result<&[u8]>| {
            let block = bytes.and_then(|bytes| this.rows_in(bytes.to_vec())).ok();
            let image = block.as_ref().and_then(|block| block.image(offset)).map(<[u8]>::to_vec);
            match image {
                Some(image) => then(Ok(ReadRow { image, block })),
                None => this.start_row_alone(offset, tuple, then),
            }
        };
        let block = 0..self.end();
        self.start(block, parse);
    }

    /// The pages that are likely to hold a row: it is likely to be as long as others, if they are short.
    fn likely_pages(&self, offset: u32) -> Range<usize> {
        let offset = offset as usize;
        let likely = offset + (self.block.row_bytes as usize).min(PAGE_BYTES);
        offset / PAGE_BYTES * PAGE_BYTES..likely.next_multiple_of(PAGE_BYTES).min(self.end())
    }

    fn end(&self) -> usize {
        self.block.bytes as usize
    }

    /// Looks for a row in the bytes of these pages.
    fn row_in<'b>(&self, pages: &Range<usize>, bytes: &'b [u8], offset: u32, tuple: TupleId) -> Result<Found<'b>> {
        let damaged = |what: &str| self.damaged(format_args!("{what} at byte {offset} of it, row {}", tuple.0));
        let offset = offset as usize;
        match record(bytes.get(offset - pages.start..).unwrap_or_default(), (self.number, self.block.table)) {
            Ok((record, _)) if record.tuple == tuple => Ok(Found::Image(record.image)),
            Ok(_) => Err(damaged("another row is")),
            Err(NotARecord::Longer(bytes)) if offset + bytes <= self.end() && pages.end < self.end() => {
                Ok(Found::Longer(pages.start..(offset + bytes).next_multiple_of(PAGE_BYTES).min(self.end())))
            }
            Err(_) => Err(damaged("something else than a row is")),
        }
    }

    /// Its records with their offsets.
    pub fn read_all<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<Vec<(u32, Record<'b>)>> {
        self.read(0..self.end(), buffer)?;
        self.records_in(buffer)
    }

    fn records_in<'b>(&self, bytes: &'b [u8]) -> Result<Vec<(u32, Record<'b>)>> {
        let found = records(bytes, (self.number, self.block.table));
        found.ok_or_else(|| self.damaged(format_args!("it is not what was written")))
    }

    /// All of its rows.
    pub fn rows(&self) -> Result<BlockRows> {
        let mut bytes = Vec::new();
        self.read(0..self.end(), &mut bytes)?;
        self.rows_in(bytes)
    }

    /// Its rows, or those that can be read if it is damaged, with the damage and this advice.
    pub fn rows_left(&self, advice: &str) -> Result<BlockRows> {
        let mut bytes = Vec::new();
        self.read(0..self.end(), &mut bytes)?;
        let of = (self.number, self.block.table);
        if let Some(found) = records(&bytes, of) {
            let rows = places(&found);
            return Ok(BlockRows::new(self.number, bytes, rows.into_iter()));
        }
        let rows = places(&records_left(&bytes, of));
        let damage = self.damaged(format_args!("it is not what was written{advice}"));
        Ok(BlockRows::new(self.number, bytes, rows.into_iter()).with_damage(damage))
    }

    /// Reads the rows that can be read, for scans: see [`BlockRows::damage`].
    pub fn reader(self) -> BlockReader {
        Box::new(move || self.rows_left(SCAN_ADVICE))
    }

    fn rows_in(&self, bytes: Vec<u8>) -> Result<BlockRows> {
        let rows = places(&self.records_in(&bytes)?);
        Ok(BlockRows::new(self.number, bytes, rows.into_iter()))
    }

    fn read(&self, range: Range<usize>, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        if let Some(pending) = &self.pending {
            buffer.extend_from_slice(pending.bytes.get(range).unwrap_or_default());
            return Ok(());
        }
        buffer.resize(range.len(), 0);
        let read = self.file.read_at(self.block.at + range.start as u64, buffer)?;
        self.whole(&range, read)
    }

    /// Begins a read of bytes that are in the file.
    fn start(self: Arc<Self>, range: Range<usize>, then: impl FnOnce(Result<&[u8]>) + Send + 'static) {
        let (file, at) = (Arc::clone(&self.file), self.block.at + range.start as u64);
        let length = range.len();
        let whole = move |read: Result<&[u8]>| {
            then(read.and_then(|bytes| self.whole(&range, bytes.len()).map(|()| bytes)));
        };
        file.start_read(at, length, Box::new(whole));
    }

    /// An error unless a read has all that it should have.
    fn whole(&self, range: &Range<usize>, read: usize) -> Result<()> {
        self.traffic.add(read);
        if read < range.len() {
            return Err(self.damaged(format_args!("the file ends {read} bytes after byte {} of it", range.start)));
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, what: fmt::Arguments<'_>) -> Error {
        let name = self.segment.file_name();
        Error::corrupt(format_args!("{name}: block {} at byte {}: {what}", self.number.0, self.block.at))
    }
}

/// The rows of a block's records: their ids, the offsets of the records, and the ranges of their images.
fn places(records: &[(u32, Record<'_>)]) -> Vec<(TupleId, u32, Range<usize>)> {
    let place = |(offset, record): &(u32, Record<'_>)| {
        let start = *offset as usize + RECORD_HEADER_BYTES;
        (record.tuple, *offset, start..start + record.image.len())
    };
    records.iter().map(place).collect()
}

/// A read of one row, and of its block if that comes back with it.
pub(super) struct RowRead {
    pub opened: OpenedBlock,
    pub offset: u32,
    pub tuple: TupleId,
    pub reads_block: bool,
}

impl ReadsRow for RowRead {
    fn read(self: Box<Self>) -> Result<ReadRow> {
        let Self { opened, offset, tuple, reads_block } = *self;
        // A damaged row leaves the others readable.
        let block = reads_block.then(|| opened.rows()).and_then(Result::ok);
        let image = match block.as_ref().and_then(|block| block.image(offset)) {
            Some(image) => image.to_vec(),
            None => opened.read_row(offset, tuple, &mut Vec::new(), |image| Ok(image.to_vec()))?,
        };
        Ok(ReadRow { image, block })
    }

    fn is_asynchronous(&self) -> bool {
        // What is in memory needs no read.
        self.opened.pending.is_none() && self.opened.file.is_asynchronous()
    }

    fn start(self: Box<Self>, then: Then<ReadRow>) {
        if !self.is_asynchronous() {
            return then(self.read());
        }
        let Self { opened, offset, tuple, reads_block } = *self;
        let opened = Arc::new(opened);
        if reads_block {
            opened.start_block(offset, tuple, then);
        } else {
            opened.start_row_alone(offset, tuple, then);
        }
    }
}
