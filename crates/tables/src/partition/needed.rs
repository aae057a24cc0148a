//! Evicted rows that are read side by side while their partition waits.
//!
//! ```text
//!  rows --some that memory holds twice--> blocks with many of them: read whole -+--> images --> back, or removed
//!    ^                                    other rows: each with its pages ------+                   |
//!    +----------------------------------------- the next ones --------------------------------------+
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use thermocline_machine::ids::Sequence;
use thermocline_types::{Error, Result};

use super::{Partition, Transaction};
use crate::schema::TableId;
use crate::table::{Images, READ_BYTES, Table, TupleId};

/// Rows that are read at once for a transaction: their images are in memory twice.
const FETCH_ROWS_MAX: usize = 1024;
/// Bytes of these rows, approximately.
const FETCH_BYTES_MAX: usize = 4 << 20;
/// Divisor of the memory limit for them.
const FETCH_SHARE: u64 = 64;

/// Takes a row of a partition, with its image if it is evicted.
type EachRead<'e> = &'e mut dyn FnMut(&mut Partition, (TableId, TupleId), Option<&[u8]>) -> Result<()>;

/// Evicted rows of one partition that transactions need, in the order in which they were found.
#[derive(Debug, Default)]
pub struct NeededRows {
    rows: Vec<(TableId, TupleId)>,
    seen: BTreeSet<(TableId, TupleId)>,
    /// Bytes of the rows, about.
    bytes: usize,
    /// The number of rows without which a transaction cannot go on. The others are likely to be needed soon.
    required: usize,
}

impl NeededRows {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows, and their bytes, about.
    pub const fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.bytes)
    }

    /// Adds a row of so many bytes, unless it is among them.
    fn add(&mut self, table: TableId, id: TupleId, bytes: usize) {
        if self.seen.insert((table, id)) {
            self.rows.push((table, id));
            self.bytes += bytes.max(READ_BYTES);
        }
    }

    /// The rows, in the order in which they were found.
    pub fn rows(&self) -> &[(TableId, TupleId)] {
        &self.rows
    }

    /// Notes that a transaction cannot go on without any of the rows so far.
    pub const fn require(&mut self) {
        self.required = self.rows.len();
    }
}

impl Partition {
    /// Adds the evicted rows that transactions have needed since the last call; says whether there are any.
    pub fn take_needed(&mut self, needed: &mut NeededRows) -> bool {
        let mut any = false;
        let Self { tables, blocks, .. } = self;
        for table in tables.iter_mut().flatten() {
            let id = table.definition().id;
            for row in table.take_wanted() {
                let Some(place) = table.block_place(row) else { continue };
                any = true;
                let bytes = blocks.as_ref().map_or(0, |blocks| blocks.read_bytes(place.block, false));
                needed.add(id, row, bytes);
            }
        }
        any
    }

    /// Adds a row, if it is evicted.
    pub fn add_needed(&self, needed: &mut NeededRows, table: TableId, id: TupleId) {
        let place = self.table(table).ok().and_then(|table| table.block_place(id));
        if let Some((place, blocks)) = place.zip(self.blocks()) {
            needed.add(table, id, blocks.read_bytes(place.block, false));
        }
    }

    /// Whether rows of this number and these bytes are as many as are read at once: at least one, however small the
    /// limit.
    pub fn is_fetch(&self, (rows, bytes): (usize, usize)) -> bool {
        rows >= FETCH_ROWS_MAX || rows > 0 && bytes >= self.fetch_bytes_max()
    }

    /// Whether more rows have come back since the last [`Partition::unpin`] than are read at once for several records of
    /// a log.
    pub fn has_many_pinned(&self) -> bool {
        let rows = self.returned_rows / 2;
        self.is_fetch((rows, rows.saturating_mul(READ_BYTES)))
    }

    /// Rows that have come back since the last [`Partition::unpin`].
    pub const fn returned_rows(&self) -> usize {
        self.returned_rows
    }

    /// Bytes of rows that are read at once for a transaction.
    pub(super) fn fetch_bytes_max(&self) -> usize {
        FETCH_BYTES_MAX.min(usize::try_from(self.budget().limit() / FETCH_SHARE).unwrap_or(usize::MAX))
    }

    /// Brings back rows, evicting others where memory is full. They stay until [`Partition::unpin`].
    ///
    /// # Errors
    /// If a [required](NeededRows::require) row cannot be read, or has no room in memory although nothing else can be
    /// evicted: it stays where it is.
    pub fn bring_back_needed(&mut self, needed: &NeededRows) -> Result<()> {
        let (mut rest, mut required) = (&*needed.rows, needed.required);
        while !rest.is_empty() {
            let (images, count) = self.read_some(rest)?;
            let (some, behind) = rest.split_at(count);
            rest = behind;
            for (table, id) in some {
                match self.bring_back_read(*table, *id, &images) {
                    Err(error) if required > 0 => return Err(error),
                    Err(Error::OutOfMemory(_)) => return Ok(()),
                    // Who needs it is told why.
                    _ => required = required.saturating_sub(1),
                }
            }
        }
        Ok(())
    }

    fn bring_back_read(&mut self, table: TableId, id: TupleId, images: &Images) -> Result<()> {
        let Some((.., place)) = self.evicted(table, id)? else { return Ok(()) };
        let image = images.image(place)?;
        self.has_pinned = true;
        self.returning(table, |partition, growth| {
            let Some((table, blocks, _)) = partition.evicted(table, id)? else { return Ok(()) };
            table.bring_back(id, image, growth)?;
            blocks.release(place.block)
        })
    }

    /// Reads those of the first rows that are evicted, as many as are read at once; returns their images, and the
    /// number of rows.
    fn read_some(&self, rows: &[(TableId, TupleId)]) -> Result<(Images, usize)> {
        let Some(blocks) = self.blocks() else { return Ok((Images::default(), rows.len())) };
        let (mut count, mut size) = (0, (0, 0));
        let mut wanted = Vec::new();
        for (table, id) in rows {
            if self.is_fetch(size) {
                break;
            }
            count += 1;
            let table = self.table(*table)?;
            if let Some(place) = table.block_place(*id) {
                size = (size.0 + 1, size.1 + blocks.read_bytes(place.block, false).max(READ_BYTES));
                wanted.push((table.definition(), *id, place));
            }
        }
        let (images, _) = Images::read(blocks, wanted.into_iter(), Images::default())?;
        Ok((images, count))
    }

    /// Gives rows to `each`, with the images of those that are evicted. It may remove them.
    ///
    /// # Errors
    /// If an evicted row cannot be read; and those of `each`.
    pub(super) fn each_read(&mut self, rows: &[(TableId, TupleId)], each: EachRead<'_>) -> Result<()> {
        let mut rest = rows;
        while !rest.is_empty() {
            let (images, count) = self.read_some(rest)?;
            let (some, behind) = rest.split_at(count);
            rest = behind;
            for (table, id) in some {
                let here = self.table(*table)?;
                match here.block_place(*id) {
                    Some(place) => {
                        let image = here.current_image(place.block, images.image(place)?)?.into_owned();
                        each(self, (*table, *id), Some(&image))?;
                    }
                    None => each(self, (*table, *id), None)?,
                }
            }
        }
        Ok(())
    }

    /// Begins to note which rows a replay of the log behind this snapshot would read from blocks, and what the snapshot
    /// refers to.
    pub fn begin_snapshot(&mut self, position: Sequence) {
        if let Some(blocks) = &mut self.blocks {
            blocks.begin_snapshot(position);
        }
        if std::mem::take(&mut self.has_come_back) {
            self.tables_mut().for_each(Table::forget_came_back);
        }
    }

    /// Counts the rows that a replay of a transaction would read from blocks, and that are not counted: those that it
    /// has changed or waited for, and that came back since the last snapshot.
    #[cold]
    pub(super) fn count_replay_reads(&mut self, transaction: &Transaction) {
        let mut reads = 0;
        for change in transaction.undo.iter() {
            let table = self.tables.get_mut(change.table.0 as usize).and_then(Option::as_mut);
            reads += u64::from(table.is_some_and(|table| table.count_came_back(change.id)));
        }
        reads += self.tables_mut().map(Table::count_needed).sum::<u64>();
        self.note_replay_reads(reads);
    }

    /// Notes that a statement has read so many bytes of blocks where they are: a replay of its transaction would too.
    pub fn note_read_in_place(&self, bytes: usize) {
        self.read_in_place.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what the transaction that is about to be committed has read in place, if it `is_logged`: then a replay
    /// repeats it.
    #[inline]
    pub fn count_read_in_place(&mut self, is_logged: bool) {
        let bytes = std::mem::take(self.read_in_place.get_mut());
        if bytes > 0 && is_logged {
            self.note_replay_reads(bytes.div_ceil(READ_BYTES) as u64);
        }
    }

    pub(super) fn note_replay_reads(&mut self, reads: u64) {
        if let Some(blocks) = self.blocks.as_mut().filter(|_| reads > 0) {
            blocks.note_replay_reads(reads);
        }
    }
}
