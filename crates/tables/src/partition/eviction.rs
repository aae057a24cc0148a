//! Rows of a partition that go to blocks and come back (Anti-Caching 2013, sections 3.2 to 3.4).
//!
//! ```text
//!  live rows --evict: cold ones, a block at a time--> blocks
//!      ^                                                |
//!      +---- bring_back: those that a transaction ------+
//!            has needed, after it was rolled back
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::choice::Choice;
use super::needed::NeededRows;
use super::turns::Candidate;
use super::waits::WaitStatistics;
use super::{Partition, Transaction};
use crate::schema::TableId;
use crate::table::{
    AtOnce, BlockNumber, BlockPlace, BlockReader, BlockRowImage, BlockRows, Blocks, Growth, HEADER_BYTES, ReadRow, Row,
    RowReader, Sampler, SamplingRate, Table, TableBlocks, TupleId, Unread, UseCounts, Victims,
};

/// Divisor of the memory limit for rows of a transaction that come back while it waits for others.
const WANTED_SHARE: u64 = 8;
/// Rows that are looked at for a block.
const LOOKS_MAX: usize = 1 << 16;
/// Bytes of rows that go at once where a transaction waits for memory.
const ROOM_BYTES: usize = 1 << 20;
/// Bytes of sparse blocks whose rows move at once: less than a millisecond.
const RELOCATED_BYTES: usize = 512 << 10;
/// Rows that are moved together at once there.
const COMPACT_ROWS: usize = 4096;
/// Bytes that rows of a transaction may take where memory is full of what cannot be evicted, such as keys.
const FORCED_BYTES_MAX: usize = 1 << 20;

/// Rounds in which a row that nobody uses is found, whatever its count is.
const ROUNDS_MAX: f64 = UseCounts::MOST as f64 + 2.0;

/// Looks at rows that take as long as the search of an empty table.
const LOOKS_OF_TABLE: usize = 64;

/// An evicted row that a transaction has needed, and a read of it.
pub struct WantedRow {
    table: TableId,
    id: TupleId,
    place: BlockPlace,
    reader: RowReader,
}

impl fmt::Debug for WantedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedRow").field("table", &self.table).field("id", &self.id).finish_non_exhaustive()
    }
}

/// What names an evicted row in its partition.
pub type WantedId = (TableId, TupleId);

impl WantedRow {
    /// Its name.
    pub fn wanted_id(&self) -> WantedId {
        (self.table, self.id)
    }

    /// Reads it.
    pub fn fetch(self) -> FetchedRow {
        let Self { table, id, place, reader } = self;
        FetchedRow { table, id, place, read: reader.read() }
    }

    /// Whether [`start`](Self::start) returns before it is read.
    pub fn is_asynchronous(&self) -> bool {
        self.reader.is_asynchronous()
    }

    /// Reads it, and gives it to `then`, on another thread if it is [asynchronous](Self::is_asynchronous).
    pub fn start(self, then: impl FnOnce(FetchedRow) + Send + 'static) {
        let Self { table, id, place, reader } = self;
        reader.start(Box::new(move |read| then(FetchedRow { table, id, place, read })));
    }
}

/// Evicted rows that a transaction waits for.
#[derive(Debug)]
pub struct Wanted {
    /// Those that are read now.
    pub rows: Vec<WantedRow>,
    /// Those that are read after them.
    pub rest: Vec<WantedId>,
    /// Whether these are all that it needs: otherwise they would take too much of the memory while it waits.
    pub are_all: bool,
}

impl Wanted {
    const fn all(rows: Vec<WantedRow>) -> Self {
        Self { rows, rest: Vec::new(), are_all: true }
    }
}

/// An evicted row that was read.
#[derive(Debug)]
pub struct FetchedRow {
    table: TableId,
    id: TupleId,
    /// Where it was.
    place: BlockPlace,
    read: Result<ReadRow>,
}

impl FetchedRow {
    /// Its name.
    pub fn wanted_id(&self) -> WantedId {
        (self.table, self.id)
    }

    /// Bytes of its image, and of the block that was read with it.
    pub fn bytes(&self) -> usize {
        let block = |read: &ReadRow| read.block.as_ref().map_or(0, BlockRows::memory_bytes);
        self.read.as_ref().map_or(0, |read| read.image.capacity() + block(read))
    }
}

impl Partition {
    /// Transactions that needed evicted rows.
    pub fn wait_statistics(&self) -> WaitStatistics {
        self.waits
    }

    /// Lets rows be evicted to these blocks.
    pub fn set_blocks(&mut self, blocks: Box<dyn Blocks>) {
        self.budget().set_evicting();
        self.blocks = Some(blocks);
    }

    /// The blocks of its evicted rows; `None` if none can be evicted.
    pub fn blocks(&self) -> Option<&dyn Blocks> {
        self.blocks.as_deref()
    }

    /// [`Partition::blocks`], to note what a snapshot refers to.
    pub fn blocks_mut(&mut self) -> Option<&mut (dyn Blocks + 'static)> {
        self.blocks.as_deref_mut()
    }

    /// Blocks of so many bytes, at least one.
    fn blocks_of(&self, bytes: usize) -> usize {
        let block = self.blocks.as_ref().map_or(bytes, |blocks| blocks.block_bytes());
        (bytes / block.max(1)).max(1)
    }

    /// Brings back the rows that a transaction has needed since the last call, evicting others where memory is full.
    /// They and the rows that it has changed stay until [`Partition::unpin`].
    ///
    /// # Errors
    /// If a row cannot be read, or has no room in memory although nothing else can be evicted: it stays where it is.
    pub fn bring_back_wanted(&mut self, transaction: &Transaction) -> Result<()> {
        self.waits.blocking_total += 1;
        self.pin_changed(transaction)?;
        let mut needed = NeededRows::default();
        self.take_needed(&mut needed);
        needed.require();
        self.bring_back_needed(&needed)
    }

    /// Keeps the rows that a transaction has changed in memory until [`Partition::unpin`]: an evicted row could not be
    /// changed back.
    ///
    /// # Errors
    /// If it has changed a table that does not exist.
    pub fn pin_changed(&mut self, transaction: &Transaction) -> Result<()> {
        for change in transaction.undo.iter() {
            self.table_mut(change.table)?.pin(change.id);
            self.has_pinned = true;
        }
        Ok(())
    }

    /// Number of evicted rows that the transaction in progress has needed so far, each once.
    pub fn wanted_rows(&self) -> usize {
        self.tables().map(Table::wanted_rows).sum()
    }

    /// The evicted rows that transactions have needed since the last call, of which up to 1024, and up to about 4 MiB
    /// or a 64th of the memory limit, are to be [fetched](WantedRow::fetch) and [brought
    /// back](Partition::bring_back_fetched) first. With such rows it begins a wait, which [`Partition::end_waits`] ends.
    ///
    /// # Errors
    /// If a block does not exist.
    pub fn wanted(&mut self) -> Result<Wanted> {
        let mut seen = BTreeSet::new();
        let mut ids: Vec<WantedId> = Vec::new();
        for table in self.tables_mut() {
            let id = table.definition().id;
            // Those that are needed first come first.
            ids.extend(table.take_wanted().into_iter().map(|row| (id, row)).filter(|wanted| seen.insert(*wanted)));
        }
        let wanted = self.some_wanted(&ids)?;
        self.waits.waits_total += u64::from(!wanted.rows.is_empty());
        Ok(wanted)
    }

    /// The next ones of rows that were [left](Wanted::rest) for later, after the earlier ones came back, which are the
    /// last to go until the transaction runs.
    ///
    /// # Errors
    /// As of [`Partition::wanted`].
    pub fn wanted_next(&mut self, rest: &[WantedId]) -> Result<Wanted> {
        self.unpin_for_now();
        let wanted = self.some_wanted(rest)?;
        // It is one wait of the transaction.
        self.waits.waited_total = self.waits.waited_total.saturating_sub((!wanted.rows.is_empty()).into());
        Ok(wanted)
    }

    fn some_wanted(&mut self, ids: &[WantedId]) -> Result<Wanted> {
        let all_bytes_max = self.budget().limit() / WANTED_SHARE;
        let Some(blocks) = self.blocks.as_deref() else { return Ok(Wanted::all(Vec::new())) };
        let (mut wanted, mut bytes, mut in_blocks, mut taken) = (Wanted::all(Vec::new()), 0, BTreeSet::new(), 0);
        for (table, id) in ids {
            if self.is_fetch((wanted.rows.len(), bytes)) {
                break;
            }
            taken += 1;
            // It may be back, or its table gone.
            let Some(table) = self.tables.get(table.0 as usize).and_then(Option::as_ref) else { continue };
            let Some(place) = table.block_place(*id) else { continue };
            let is_first = in_blocks.insert(place.block);
            bytes += blocks.read_bytes(place.block, is_first);
            let reader = TableBlocks::new(table.definition(), blocks).reader(place, *id, is_first)?;
            wanted.rows.push(WantedRow { table: table.definition().id, id: *id, place, reader });
        }
        wanted.rest = ids.get(taken..).unwrap_or_default().to_vec();
        let mean = bytes / wanted.rows.len().max(1);
        if mean as u64 * wanted.rest.len() as u64 > all_bytes_max {
            (wanted.rest, wanted.are_all) = (Vec::new(), false);
        }
        self.waits.rows_total += wanted.rows.len() as u64;
        Ok(wanted)
    }

    /// Notes that transactions wait for rows no longer.
    pub const fn end_waits(&mut self, transactions: usize) {
        self.waits.waited_total += transactions as u64;
    }

    /// Brings back rows that were read, unless they are back already, evicting others where memory is full. They stay
    /// until [`Partition::unpin`].
    ///
    /// # Errors
    /// If a row could not be read, or has no room in memory although nothing else can be evicted.
    pub fn bring_back_fetched(&mut self, rows: Vec<FetchedRow>) -> Result<()> {
        for FetchedRow { table, id, place, read } in rows {
            // It may be back, or have gone to another block since, or its table may be gone.
            if self.evicted(table, id)?.is_none_or(|(.., here)| here != place) {
                continue;
            }
            let ReadRow { image, block } = read?;
            self.has_pinned = true;
            self.returning(table, |partition, growth| {
                let Some((table, blocks, _)) = partition.evicted(table, id)? else { return Ok(()) };
                table.bring_back(id, &image, growth)?;
                blocks.release(place.block)
            })?;
            if let Some(block) = block {
                self.bring_back_others(table, block)?;
            }
        }
        Ok(())
    }

    /// Brings back the rows of a block that nobody has asked for, as far as there is memory: they are the next to go.
    fn bring_back_others(&mut self, id: TableId, mut block: BlockRows) -> Result<()> {
        let Self { tables, blocks: Some(blocks), .. } = self else { return Ok(()) };
        let Some(table) = tables.get_mut(id.0 as usize).and_then(Option::as_mut) else { return Ok(()) };
        self.has_come_back = true;
        block.choose(|id, place| table.block_place(id) == Some(place));
        for (id, image) in block.chosen() {
            match table.bring_back_unasked(id, image) {
                Err(Error::OutOfMemory(_)) => break,
                back => back?,
            }
            blocks.release(block.block())?;
        }
        Ok(())
    }

    /// The table of a row, the blocks, and where in them the row is; `None` if it is not evicted.
    pub(super) fn evicted(
        &mut self,
        table: TableId,
        id: TupleId,
    ) -> Result<Option<(&mut Table, &mut dyn Blocks, BlockPlace)>> {
        let Self { tables, blocks, .. } = self;
        let table = tables.get_mut(table.0 as usize).and_then(Option::as_mut);
        let Some((table, place)) = table.and_then(|table| table.block_place(id).map(|place| (table, place))) else {
            return Ok(None);
        };
        let blocks = blocks.as_deref_mut().ok_or_else(|| Error::internal("an evicted row without blocks"))?;
        Ok(Some((table, blocks, place)))
    }

    /// Lets rows that were brought back go again.
    pub fn unpin(&mut self) {
        if self.has_pinned {
            self.tables_mut().for_each(Table::unpin);
            (self.has_pinned, self.forced_bytes, self.returned_rows) = (false, 0, 0);
        }
    }

    /// [`Partition::unpin`] for a transaction that will run again with further rows, and needs these until then.
    pub fn unpin_for_now(&mut self) {
        if self.has_pinned {
            self.tables_mut().for_each(Table::unpin_for_now);
            (self.has_pinned, self.forced_bytes, self.returned_rows) = (false, 0, 0);
        }
    }

    /// Brings a row back with `back`, evicting others where there is no memory for it. If no other can go, a
    /// transaction gets a few rows nevertheless: it may be one that reads or deletes them.
    pub(super) fn returning(&mut self, table: TableId, back: impl Fn(&mut Self, Growth) -> Result<()>) -> Result<()> {
        self.has_come_back = true;
        let why = match self.with_room(|partition| back(partition, Growth::Asked)) {
            // While the disk is full, rows can be read nevertheless.
            Err(Error::OutOfMemory(why) | Error::DiskFull(why)) => why,
            done => {
                self.returned_rows += usize::from(done.is_ok());
                return done;
            }
        };
        let most = FORCED_BYTES_MAX.min(usize::try_from(self.budget().reserve() / 4).unwrap_or(usize::MAX));
        if self.forced_bytes > most {
            let at_once = (self.returned_rows / 2).max(1);
            return Err(Error::OutOfMemory(format!("{why}; with full memory, change {at_once} rows at a time").into()));
        }
        // The next rows need not ask for what this one makes room for.
        let before = self.table(table)?.row_bytes();
        back(self, Growth::Forced)?;
        self.forced_bytes += self.table(table)?.row_bytes().saturating_sub(before);
        Ok(())
    }

    /// Does `work`, which changes nothing if it fails, evicting rows where there is no memory for it.
    pub(super) fn with_room(&mut self, work: impl Fn(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            match work(self) {
                Err(error @ Error::OutOfMemory(_)) if !self.make_room()? => return Err(error),
                Err(Error::OutOfMemory(_)) => {}
                done => return done,
            }
        }
    }

    /// Gives back some memory of tables, if rows can be moved together or evicted; says whether it did.
    ///
    /// # Errors
    /// As of [`Partition::evict`].
    pub fn make_room(&mut self) -> Result<bool> {
        // Its own, because other partitions grow meanwhile.
        let before = self.row_bytes();
        self.tables_mut().for_each(Table::look_for_holes);
        let mut evicted = 1;
        while evicted > 0 {
            while self.compact(COMPACT_ROWS) && self.row_bytes() >= before {}
            if self.row_bytes() < before {
                return Ok(true);
            }
            evicted = 0;
            while evicted < self.blocks_of(ROOM_BYTES) && self.evict_block(usize::MAX)? > 0 {
                evicted += 1;
            }
        }
        Ok(self.row_bytes() < before)
    }

    /// Bytes of rows in memory.
    fn row_bytes(&self) -> usize {
        self.tables().map(Table::row_bytes).sum()
    }

    /// Takes a step towards the memory limit, if it is near: moves some rows together, or evicts a block of them. Says
    /// whether there is more to do.
    ///
    /// # Errors
    /// As of [`Partition::evict`].
    pub fn relieve(&mut self, rows: usize) -> Result<bool> {
        if let Some(blocks) = &mut self.blocks {
            blocks.forget_written();
        }
        if self.compact(rows) {
            return Ok(true);
        }
        if self.blocks.is_none() {
            return Ok(false);
        }
        self.count_in_time();
        if !self.budget().lacks_wanted() {
            self.budget().forget_wanted();
        }
        if self.budget().pressure() == 0 {
            return Ok(false);
        }
        Ok(self.evict_block(LOOKS_MAX)? > 0 || self.is_searching())
    }

    /// Blocks to be read for [`Partition::relocate`]; none if files are full enough, or some are being read.
    pub fn begin_relocation(&mut self) -> Vec<(BlockNumber, BlockReader)> {
        let Some(blocks) = self.blocks.as_deref().filter(|_| !self.is_relocating) else { return Vec::new() };
        let sparse = blocks.sparse((RELOCATED_BYTES / blocks.block_bytes().max(1)).max(1)).into_iter();
        // Few where rows are long.
        let (mut count, mut bytes) = (0, 0);
        let at_once = AtOnce { blocks: usize::MAX, bytes: RELOCATED_BYTES };
        let sparse = sparse.take_while(|block| {
            let more = blocks.bytes_of(*block);
            let has_room = at_once.has_room((count, bytes), more);
            (count, bytes) = (count + 1, bytes + more);
            has_room
        });
        let readers: Vec<_> = sparse.filter_map(|block| Some((block, blocks.block_reader(block).ok()?))).collect();
        self.is_relocating = !readers.is_empty();
        readers
    }

    /// Moves the rows of sparse blocks that were read to new blocks, so that files can be removed (Anti-Caching 2013,
    /// section 6.2). Blocks that could not be read stay as they are.
    ///
    /// # Errors
    /// If a block cannot be written, or a file not be removed.
    pub fn relocate(&mut self, read: Vec<(BlockNumber, Result<BlockRows>)>) -> Result<()> {
        self.is_relocating = false;
        let Self { tables, blocks: Some(blocks), .. } = self else { return Ok(()) };
        let mut moved: BTreeMap<TableId, Vec<(TupleId, BlockNumber, Vec<u8>)>> = BTreeMap::new();
        for (number, rows) in read {
            let Some(id) = blocks.table_of(number) else { continue };
            let Some(table) = tables.get(id.0 as usize).and_then(Option::as_ref) else { continue };
            let images = moved.entry(id).or_default();
            let chosen = rows.and_then(|mut rows| {
                rows.damage().cloned().map_or(Ok(()), Err)?;
                rows.choose(|id, place| table.block_place(id) == Some(place));
                table.block_layouts().each_chosen(&rows, &mut |id, row| {
                    images.push((id, number, row.image().to_vec()));
                    Ok(())
                })
            });
            if chosen.is_err() {
                // Who needs one of its rows is told why.
                images.retain(|(_, from, _)| *from != number);
                blocks.set_aside(number);
            }
        }
        let mut released = Ok(());
        for (id, rows) in moved {
            let Some(table) = tables.get_mut(id.0 as usize).and_then(Option::as_mut) else { continue };
            let mut rest = &*rows;
            while !rest.is_empty() {
                let mut bytes = 0;
                let fits = rest.iter().take_while(|(.., image)| {
                    let fits = bytes < blocks.block_bytes();
                    bytes += HEADER_BYTES + image.len();
                    fits
                });
                let (some, behind) = rest.split_at(fits.count());
                rest = behind;
                let places = put(table, blocks.as_mut(), || some.iter().map(|(id, _, image)| (*id, &**image)))?;
                for ((id, from, _), place) in some.iter().zip(places) {
                    table.move_evicted(*id, place);
                    // All rows have moved, also if a file cannot be removed.
                    released = blocks.release(*from).and(released);
                }
            }
        }
        released
    }

    /// Whether sparse blocks are being read.
    pub fn is_relocating(&self) -> bool {
        self.is_relocating
    }

    /// Evicts rows until tables are within the memory limit again, or no more can be evicted now. Between transactions
    /// only. During recovery, whose budget is lenient, rows for which a full disk has no room stay in memory, so that they
    /// can be read.
    ///
    /// # Errors
    /// As of [`Partition::evict`].
    pub fn keep_limit(&mut self) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        blocks.forget_written();
        while self.budget().pressure() > 0 {
            if self.compact(COMPACT_ROWS) {
                continue;
            }
            match self.evict_block(usize::MAX) {
                Ok(0) => break,
                Err(error) if !self.budget().is_strict() && matches!(error.root(), Error::DiskFull(_)) => break,
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Brings back a row, if it is evicted.
    pub(super) fn bring_back(&mut self, table: TableId, id: TupleId, growth: Growth) -> Result<()> {
        self.has_pinned = true;
        let Some((table, blocks, place)) = self.evicted(table, id)? else { return Ok(()) };
        let definition = Arc::clone(table.definition());
        let mut back = |image: &[u8]| table.bring_back(id, image, growth).map(drop);
        TableBlocks::new(&definition, blocks).read(place, id, &mut back)?;
        blocks.release(place.block)
    }

    /// Removes a row that has this image, wherever it is. Takes no memory.
    ///
    /// # Errors
    /// If a file of blocks cannot be removed.
    pub(super) fn remove_with(&mut self, table: TableId, id: TupleId, image: &[u8]) -> Result<()> {
        let Some((table, blocks, place)) = self.evicted(table, id)? else {
            return self.table_mut(table)?.restore(id, None);
        };
        table.remove_evicted(id, image)?;
        blocks.release(place.block)
    }

    /// Whether evicted rows of a table can be removed and replaced [unread](Table::delete_unread): nobody who copies
    /// or reads the table needs what they were. It stays so until the transaction ends.
    pub fn changes_unread(&self, table: &Table) -> bool {
        !self.is_copied() && table.changes_unread()
    }

    /// Whether evicted rows of a table can be removed with an image of their keys alone: see [`Self::changes_unread`].
    pub fn deletes_by_keys(&self, table: &Table) -> bool {
        !self.is_copied() && table.deletes_by_keys()
    }

    /// Whether a snapshot or a query copies rows.
    fn is_copied(&self) -> bool {
        !self.pre_images.iter().all(|one| one.is_over()) || !self.readers.iter().all(|reader| reader.lock().is_over())
    }

    /// Gives up the places of rows that a transaction has changed unread, which it keeps now.
    #[cold]
    pub(super) fn release_unread(&mut self, transaction: &Transaction) {
        let Some(blocks) = &mut self.blocks else { return };
        for Unread { place, .. } in transaction.undo.iter().filter_map(|change| change.unread) {
            // A file that cannot be removed stays until the next start.
            let _stays = blocks.release(place.block);
        }
    }

    /// Forgets the evicted rows of a table that is about to go.
    pub(super) fn release_table(&mut self, table: TableId) {
        if let Some(blocks) = &mut self.blocks {
            // A file that cannot be removed stays until the next start.
            let _stays = blocks.release_table(table);
        }
    }

    /// Gives a row to `each`, wherever it is: see [`Table::visit`].
    ///
    /// # Errors
    /// As of [`Table::visit`].
    pub fn visit(&self, table: TableId, id: TupleId, each: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        self.table(table)?.visit(id, self.blocks(), each)
    }

    /// Rows in blocks, of all tables.
    pub fn evicted_rows(&self) -> usize {
        self.tables().map(Table::evicted_rows).sum()
    }
}

impl Partition {
    /// Sets the policy that chooses rows to be evicted, before there are tables. A chain follows the transactions that
    /// are sampled at this rate.
    pub fn set_victims(&mut self, victims: Victims, rate: SamplingRate) {
        let seed = self.seed ^ u64::from(self.id().0) << 48;
        let sampler = (victims == Victims::Chain).then(|| Sampler::new(rate, seed));
        self.choice = Choice { victims, sampler, ..Choice::default() };
    }

    /// Begins or ends to note which rows transactions use.
    #[cold]
    pub(super) fn switch_sampling(&mut self) {
        let is_sampling = !self.choice.is_sampling;
        self.choice.is_sampling = is_sampling;
        self.tables_mut().for_each(|table| table.set_monitored(is_sampling));
    }

    /// Begins to count the uses of rows once half of the memory is taken, so that it is known which are cold before
    /// the first has to go.
    pub(super) fn count_in_time(&mut self) {
        if !self.choice.is_counting && self.budget().used() > self.budget().limit() / 2 {
            self.start_counting();
        }
    }

    #[cold]
    fn start_counting(&mut self) {
        self.choice.is_counting = true;
        self.tables_mut().for_each(Table::start_counting);
    }

    /// Whether the last search for cold rows ended before it had found some or looked at all.
    pub(super) fn is_searching(&self) -> bool {
        self.choice.is_searching
    }

    pub(super) fn evict_block(&mut self, looks_max: usize) -> Result<usize> {
        let bytes = self.blocks.as_ref().map_or(0, |blocks| blocks.block_bytes());
        self.evict(bytes, looks_max)
    }

    /// Evicts a block of about `bytes` bytes of cold rows of one table; returns their number, which is 0 if no row can
    /// be evicted now. Between transactions only.
    ///
    /// The search takes as long as looks at `looks_max` rows, of each table if there are chains; 0 rows also if none that
    /// were looked at were cold.
    ///
    /// # Errors
    /// If the block cannot be written: no row has left memory then.
    pub fn evict(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        let evicted = match self.choice.victims {
            Victims::Sampled => self.evict_in_rounds(bytes, looks_max),
            Victims::Chain => self.evict_in_turn(bytes, looks_max),
        };
        if evicted.as_ref().map_or(true, |rows| *rows > 0) {
            self.budget().note_eviction(&evicted);
        }
        evicted
    }

    /// Evicts from the table whose search is behind.
    fn evict_in_rounds(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        if !self.choice.is_counting && self.blocks.is_some() {
            self.start_counting();
        }
        let Self { tables, blocks: Some(blocks), choice, .. } = self else { return Ok(0) };
        let candidates = tables.iter().flatten().filter(|table| table.is_evictable() && table.live_rows() > 0);
        choice.rounds.set_tables(candidates.map(|table| table.definition().id));
        choice.is_searching = false;
        let (mut looks, mut last) = (0, None);
        while let Some((id, rounds)) = choice.rounds.next()
            && rounds <= *last.get_or_insert(rounds + ROUNDS_MAX)
        {
            if looks >= looks_max {
                choice.is_searching = true;
                break;
            }
            let Some(table) = tables.get_mut(id.0 as usize).and_then(Option::as_mut) else { break };
            let rows = table.live_rows();
            let search = table.coldest(bytes, looks_max - looks);
            choice.rounds.passed(id, search.rows, rows, search.is_last);
            // To find the next table takes time as well.
            looks += search.looks.max(LOOKS_OF_TABLE + choice.rounds.tables() / 8);
            if !search.cold.is_empty() {
                evict_rows(table, blocks.as_mut(), &search.cold)?;
                return Ok(search.cold.len());
            }
        }
        Ok(0)
    }

    /// Evicts from the table whose turn it is, or from the next one if its chain has no row that can go.
    fn evict_in_turn(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        let Self { tables, blocks: Some(blocks), choice, .. } = self else { return Ok(0) };
        let mut candidates: Vec<Candidate> = Vec::new();
        for table in tables.iter_mut().flatten().filter(|table| table.is_evictable()) {
            let (accesses, id) = (table.take_accesses(), table.definition().id);
            let candidate = choice.turns.candidate(id, accesses, table.row_bytes(), table.needed_totals());
            if table.live_rows() > 0 {
                candidates.push(candidate);
            }
        }
        choice.turns.sort(&mut candidates);
        let mut rest = &*candidates;
        while let Some((Candidate { table, .. }, behind)) = rest.split_first() {
            let Some(table) = tables.get_mut(table.0 as usize).and_then(Option::as_mut) else { break };
            let cold = table.coldest(bytes, looks_max).cold;
            if !cold.is_empty() {
                evict_rows(table, blocks.as_mut(), &cold)?;
                choice.turns.evicted(rest);
                return Ok(cold.len());
            }
            rest = behind;
        }
        Ok(0)
    }
}

/// Evicts these live rows of a table into one block.
fn evict_rows(table: &mut Table, blocks: &mut dyn Blocks, rows: &[TupleId]) -> Result<()> {
    let places = {
        let images = || rows.iter().filter_map(|id| Some((*id, table.image_of(*id)?)));
        put(table, blocks, images)?
    };
    if places.len() != rows.len() {
        return Err(Error::internal("a block without some of its rows"));
    }
    rows.iter().zip(places).try_for_each(|(id, place)| table.evict(*id, place))
}

/// Puts rows of a table into one block, which gets their keys as well.
fn put<'r, I: Iterator<Item = (TupleId, &'r [u8])>>(
    table: &Table,
    blocks: &mut dyn Blocks,
    rows: impl Fn() -> I,
) -> Result<Vec<BlockPlace>> {
    let keys = table.row_keys(rows().map(|(_, image)| image))?;
    let mut rows = rows().zip(keys.iter()).map(|((tuple, image), keys)| BlockRowImage { tuple, image, keys });
    blocks.put(table.definition().id, &keys.indexes, &mut rows)
}
