//! Rows that go to blocks and come back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use thermocline_types::Value;

use super::reshape::widen;
use super::*;
use crate::table::blocks::{BlockRows, Blocks, RowKeys};
use crate::table::budget::Working;
use crate::table::charge::Charge;
use crate::table::images::Images;
use crate::table::locator::{BlockNumber, BlockPlace};
use crate::table::put_off::{AtOnce, PutOff};
use crate::table::table_blocks::TableBlocks;
use crate::table::undo::Unread;

/// Evicted rows that one transaction is noted to need, at most, before they are brought back.
const WANTED_MAX: usize = 100_000;
/// Ids without live rows that are passed in the time of a look at a row.
const IDS_OF_LOOK: usize = 1024;
/// Ids behind that of an evicted row that are looked at for rows that a scan will need next.
const AHEAD_IDS: usize = 4096;
/// Bytes of a row in its block up to which further columns of as many bytes always fit.
const FITTING_BYTES: usize = ROW_BYTES_MAX / 4;

/// Evicted rows that a transaction has needed.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Each once, in the order in which they were needed.
    ids: Vec<TupleId>,
    known: BTreeSet<TupleId>,
}

impl Wanted {
    fn add(&mut self, id: TupleId) {
        if self.ids.len() < WANTED_MAX && self.known.insert(id) {
            self.ids.push(id);
        }
    }
}

/// Layout of rows that were evicted before columns were added.
#[derive(Debug, Clone)]
pub(super) struct EarlierLayout {
    /// The first block with later rows.
    until: BlockNumber,
    /// Number of columns.
    columns: usize,
    layout: Layout,
    /// Value of the columns that the next layout has besides.
    fill: Value,
}

/// What a [search](Table::coldest) for cold rows has found.
#[derive(Debug, Default)]
pub struct Search {
    /// The rows, coldest first if there is a chain.
    pub cold: Vec<TupleId>,
    /// Number of rows that were passed; 0 with a chain.
    pub rows: usize,
    /// The time that it took, in looks at rows.
    pub looks: usize,
    /// Whether it has ended behind the last row.
    pub is_last: bool,
}

impl Table {
    /// Rows in blocks.
    pub fn evicted_rows(&self) -> usize {
        self.evicted
    }

    /// Rows in memory.
    pub fn live_rows(&self) -> usize {
        self.ids.live() - self.evicted
    }

    /// Rows that went to blocks since the start, and those that came back.
    pub fn eviction_totals(&self) -> (u64, u64) {
        (self.evicted_total, self.returned_total)
    }

    /// Rows that went to blocks since the start, and those that came back because a transaction needed them.
    pub(crate) fn needed_totals(&self) -> [u64; 2] {
        [self.evicted_total, self.needed_total]
    }

    /// Where the row is, if it is in a block.
    pub fn block_place(&self, id: TupleId) -> Option<BlockPlace> {
        match self.locators.get(id).filter(|_| self.evicted > 0 && self.ids.contains(id)) {
            Some(Locator::Evicted(place)) => Some(place),
            _ => None,
        }
    }

    /// Evicted rows, from an id on.
    pub(crate) fn evicted_from(&self, from: TupleId) -> impl Iterator<Item = TupleId> {
        let last = if self.evicted == 0 { from } else { self.id_bound() };
        let ids = std::iter::successors(self.ids.next(from), |id| self.ids.next(TupleId(id.0 + 1)));
        ids.take_while(move |id| *id < last).filter(|id| self.block_place(*id).is_some())
    }

    /// Has the next [`Table::compact`] look for sparse arenas, however few rows have gone since it found none.
    pub(crate) fn look_for_holes(&mut self) {
        self.rows.look_for_holes();
    }

    /// Notes that a transaction needs an evicted row, and ends it.
    #[cold]
    pub(super) fn want(&self, id: TupleId) -> Error {
        self.wanted.lock().add(id);
        Error::Evicted
    }

    /// The evicted rows that transactions have needed since the last call, each once, in the order in which they were
    /// needed.
    pub(crate) fn take_wanted(&mut self) -> Vec<TupleId> {
        std::mem::take(self.wanted.get_mut()).ids
    }

    /// Number of evicted rows that the transaction in progress has needed so far.
    pub(crate) fn wanted_rows(&self) -> usize {
        self.wanted.lock().ids.len()
    }

    /// Gives a row to `each`, wherever it is: it stays there, and does not count as read.
    ///
    /// # Errors
    /// If there is no such row, or it cannot be read from its block; and those of `each`.
    pub fn visit(
        &self,
        id: TupleId,
        blocks: Option<&dyn Blocks>,
        each: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(place) = self.block_place(id) else { return each(self.row_unread(id)?) };
        let blocks = blocks.ok_or_else(|| Error::internal("an evicted row without blocks"))?;
        TableBlocks::new(&self.definition, blocks)
            .read(place, id, &mut |image| each(Row::new(&self.layout, &self.current_image(place.block, image)?)))
    }

    /// Gives rows that are in blocks to `each`, in no particular order: reads their blocks whole, each once, and
    /// several side by side. They stay there. Calls `stopped` before each read, and fails with its error. Returns the
    /// bytes that were read, about.
    ///
    /// # Errors
    /// If a row cannot be read; and those of `each`.
    pub fn each_put_off(
        &self,
        evicted: &mut PutOff,
        blocks: Option<&dyn Blocks>,
        stopped: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(TupleId, Row<'_>) -> Result<()>,
    ) -> Result<usize> {
        let mut bytes = 0;
        if evicted.is_empty() {
            return Ok(bytes);
        }
        let from = blocks.ok_or_else(|| Error::internal("evicted rows without blocks"))?;
        let layouts = self.block_layouts();
        while !evicted.is_empty() {
            stopped()?;
            let mut live = |id| each(id, self.row_unread(id)?).map(ControlFlow::Continue);
            let at_once = (AtOnce::within(self.budget.limit()), |block| from.bytes_of(block));
            let found = evicted.blocks(|id| self.block_place(id), at_once, &mut live)?;
            let read = TableBlocks::new(&self.definition, from).blocks_reader(found.into_iter().collect())?;
            for (number, block) in read() {
                if let Ok(mut block) = block {
                    bytes += block.memory_bytes();
                    evicted.choose(|id| self.block_place(id), &mut block)?;
                    layouts.each_chosen(&block, each)?;
                    continue;
                }
                // What is damaged there may have left it.
                let ids: Vec<TupleId> = evicted.of_block(number, |id| self.block_place(id)).collect();
                for id in ids {
                    evicted.take(id);
                    self.visit(id, blocks, &mut |row| each(id, row))?;
                }
            }
        }
        Ok(bytes)
    }

    /// Image of a row in the table's layout, of the one that its block has.
    pub(crate) fn current_image<'a>(&self, block: BlockNumber, image: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        current_image((&self.earlier, &self.layout), block, image)
    }

    /// Layouts of the rows in blocks as they are now, to read images elsewhere.
    pub fn block_layouts(&self) -> BlockLayouts {
        BlockLayouts { earlier: self.earlier.clone(), layout: self.layout.clone() }
    }

    /// An error unless all evicted rows fit in a slot with the further columns of this layout.
    pub(super) fn check_evicted_fit(&self, layout: &Layout, fill: &Value, blocks: Option<&dyn Blocks>) -> Result<()> {
        // The columns that rows in the oldest blocks get besides.
        let fills = self.earlier.iter().map(|earlier| earlier.fill.heap_bytes()).sum::<usize>() + fill.heap_bytes();
        let is_long = fills > FITTING_BYTES;
        let Some(blocks) = blocks.filter(|blocks| is_long || blocks.has_longer(self.id(), FITTING_BYTES)) else {
            return Ok(());
        };
        let (mut image, mut evicted) = (Vec::new(), PutOff::default());
        self.evicted_from(TupleId(0)).for_each(|id| evicted.add(id, self.id_bound()));
        let mut fits = |_, row: Row<'_>| widen(row, fill, layout, &mut image);
        self.each_put_off(&mut evicted, Some(blocks), &|| Ok(()), &mut fits).map(drop)
    }

    /// Keeps the layout for the rows that are evicted now, before it is exchanged for one with columns of this value.
    pub(super) fn keep_layout_of_evicted(&mut self, fill: Value, blocks: Option<&dyn Blocks>) {
        self.forget_unused_layouts();
        if let Some(blocks) = blocks.filter(|_| self.evicted > 0) {
            let (columns, layout) = (self.definition.columns.len(), self.layout.clone());
            self.earlier.push(EarlierLayout { until: blocks.next(), columns, layout, fill });
        }
    }

    /// Forgets the layout before the last columns, to which the table returns.
    pub(super) fn forget_last_layout(&mut self) {
        self.earlier.pop();
    }

    /// Rows that were evicted since columns were last added.
    pub(crate) fn evicted_since_widened(&self) -> Vec<TupleId> {
        let since = self.earlier.last().map_or(BlockNumber(0), |earlier| earlier.until);
        let is_later = |id: &TupleId| self.block_place(*id).is_some_and(|place| place.block >= since);
        self.evicted_from(TupleId(0)).filter(is_later).collect()
    }

    /// Begins to count the uses of its rows, if [`Victims::Sampled`] chooses those to be evicted.
    pub(crate) fn start_counting(&mut self) {
        self.counts_uses = self.is_evictable() && self.recency.get_mut().chain().is_none();
        if self.counts_uses {
            self.uses.reserve(self.id_bound(), &self.budget);
        }
    }

    /// Live rows to be evicted first, about `bytes` bytes of images together, among `looks_max` rows at most: those at
    /// the cold end of the chain; or those that are cold by the count of their uses, from where the last search ended to
    /// the last row. Behind that, the next search begins a round.
    pub fn coldest(&mut self, bytes: usize, looks_max: usize) -> Search {
        if let Some(cold) = self.least_recent(bytes, looks_max) {
            return Search { cold, ..Search::default() };
        }
        if self.counts_uses {
            // Rows of a snapshot come without.
            self.uses.reserve(self.id_bound(), &self.budget);
        }
        let (mut search, mut found_bytes) = (Search::default(), 0);
        while search.looks < looks_max && found_bytes < bytes {
            let next = self.next_live(self.hand);
            let passed_ids = next.unwrap_or_else(|| self.id_bound()).0.saturating_sub(self.hand.0) as usize;
            search.looks += passed_ids / IDS_OF_LOOK;
            let Some(id) = next else {
                (self.hand, search.is_last) = (TupleId(0), true);
                break;
            };
            self.hand = TupleId(id.0 + 1);
            search.looks += 1;
            search.rows += 1;
            if let Some(Locator::Live(item)) = self.locators.get(id)
                && !self.uses.pass(id)
                && !self.pinned.contains(&id)
            {
                found_bytes += item.len();
                search.cold.push(id);
            }
        }
        search
    }

    /// The first live row at or after an id.
    pub(super) fn next_live(&self, from: TupleId) -> Option<TupleId> {
        let words = self.ids.words();
        let live = |at: usize| words.get(at).map(|word| word & !self.evicted_ids.word(at));
        let (first, bit) = (from.0 as usize / 64, from.0 % 64);
        let within = live(first)? & u64::MAX << bit;
        let found = if within != 0 {
            Some((first, within))
        } else {
            (first + 1..words.len()).find_map(|at| live(at).filter(|word| *word != 0).map(|word| (at, word)))
        };
        found.map(|(at, word)| TupleId(at as u32 * 64 + word.trailing_zeros()))
    }

    /// Whether rows of the table may be evicted.
    pub fn is_evictable(&self) -> bool {
        self.definition.evictable
    }

    /// Bytes of its rows in memory.
    pub fn row_bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Bytes of its live rows, without free memory between them.
    pub fn live_row_bytes(&self) -> usize {
        self.rows.live_bytes()
    }

    /// Image of a live row, which does not count as read.
    ///
    /// # Errors
    /// If there is no such row in memory.
    pub fn image(&self, id: TupleId) -> Result<&[u8]> {
        self.image_of(id).ok_or_else(|| self.no_row(id))
    }

    /// A live row, which does not count as read.
    ///
    /// # Errors
    /// If there is none with this id.
    pub fn row_unread(&self, id: TupleId) -> Result<Row<'_>> {
        Ok(Row::new(&self.layout, self.image(id)?))
    }

    /// Image of a live row, which does not count as read.
    pub(crate) fn image_of(&self, id: TupleId) -> Option<&[u8]> {
        match self.locators.get(id).filter(|_| self.ids.contains(id))? {
            Locator::Live(item) => self.rows.get_from(item, HEADER_BYTES),
            Locator::Evicted(_) => None,
        }
    }

    /// Frees the memory of a live row whose image is in this place of a block. Indexes keep its id.
    ///
    /// # Errors
    /// If the row is not live.
    pub fn evict(&mut self, id: TupleId, place: BlockPlace) -> Result<()> {
        let Some(Locator::Live(item)) = self.locators.get(id).filter(|_| self.ids.contains(id)) else {
            return Err(self.no_row(id));
        };
        if let (Some(building), Some(image)) = (&mut self.building, self.rows.get_from(item, HEADER_BYTES)) {
            building.evict(id, Row::new(&self.layout, image), &self.budget);
        }
        self.rows.free(item, &self.budget);
        self.recency.get_mut().leave(id);
        self.uses.clear(id);
        self.locators.set(id, Locator::Evicted(place));
        self.evicted_ids.reserve(self.id_bound(), &self.budget);
        self.evicted_ids.set(id);
        self.evicted += 1;
        self.evicted_total += 1;
        Ok(())
    }

    /// Keys of rows with these images.
    ///
    /// # Errors
    /// If a key is too long.
    pub(crate) fn row_keys<'r>(&self, images: impl Iterator<Item = &'r [u8]>) -> Result<RowKeys> {
        let indexes = self.indexes.iter().map(Index::fingerprint).collect();
        let (mut of_rows, mut keys) = (RowKeys { indexes, ..RowKeys::default() }, Vec::new());
        for image in images {
            self.keys(image, &mut keys)?;
            keys.iter().for_each(|Key { bytes, distinct }| of_rows.push_key(bytes, *distinct));
            of_rows.ends.push(of_rows.bytes.len());
        }
        Ok(of_rows)
    }

    /// The layouts of rows that were evicted before columns were added, oldest first: the first block with later rows,
    /// the number of columns, and the value of those that the next layout has besides.
    pub fn earlier_layouts(&self) -> impl Iterator<Item = (BlockNumber, usize, &Value)> {
        self.earlier.iter().map(|earlier| (earlier.until, earlier.columns, &earlier.fill))
    }

    /// Adds the next [layouts](Self::earlier_layouts) that a table had in an earlier process.
    ///
    /// # Errors
    /// If it cannot have had them.
    pub(crate) fn add_earlier_layouts(&mut self, earlier: Vec<(BlockNumber, usize, Value)>) -> Result<()> {
        for (until, columns, fill) in earlier {
            let last = self.earlier.last();
            if columns >= self.definition.columns.len() || last.is_some_and(|last| last.columns >= columns) {
                return Err(Error::corrupt(format_args!("the layouts of table \"{}\"", self.definition.name)));
            }
            let mut definition = (*self.definition).clone();
            definition.columns.truncate(columns);
            self.earlier.push(EarlierLayout { until, columns, layout: Layout::new(&definition)?, fill });
        }
        Ok(())
    }

    /// Forgets earlier layouts if no row has one.
    pub(crate) fn forget_unused_layouts(&mut self) {
        if self.evicted == 0 {
            self.earlier.clear();
        }
    }

    /// Keeps a live row where it is until [`Table::unpin`].
    pub(crate) fn pin(&mut self, id: TupleId) {
        self.pinned.insert(id);
        self.recency.get_mut().touch(id);
    }

    /// Lets pinned rows go again.
    pub(crate) fn unpin(&mut self) {
        self.pinned.clear();
        std::mem::take(&mut self.returned).into_iter().for_each(|id| self.uses.clear(id));
    }

    /// [`Table::unpin`], but rows that came back since the last one are the last to go.
    pub(crate) fn unpin_for_now(&mut self) {
        self.pinned.clear();
        std::mem::take(&mut self.returned).into_iter().for_each(|id| self.uses.fill(id));
    }

    /// Makes an evicted row live again, with the image that its block has, and returns where it was. It stays until its
    /// partition unpins it, and uses until then do not count (`UseCounts`). In the chain it is the hottest, whether
    /// its transaction is sampled or not (Anti-Caching 2013, section 3.4).
    ///
    /// # Errors
    /// If the row is not evicted, there is no memory for it, or the image is none of this table.
    pub fn bring_back(&mut self, id: TupleId, image: &[u8], growth: Growth) -> Result<BlockPlace> {
        let place = self.return_to_memory(id, image, growth)?;
        self.recency.get_mut().add_hot(id);
        self.pinned.insert(id);
        self.returned.push(id);
        self.needed_total += 1;
        Ok(place)
    }

    /// [`Table::bring_back`] of a row that nobody has asked for: it may go again at once, and is the coldest.
    pub(crate) fn bring_back_unasked(&mut self, id: TupleId, image: &[u8]) -> Result<()> {
        self.return_to_memory(id, image, Growth::Asked)?;
        self.recency.get_mut().add_cold(id);
        Ok(())
    }

    fn return_to_memory(&mut self, id: TupleId, image: &[u8], growth: Growth) -> Result<BlockPlace> {
        let place = self.block_place(id).ok_or_else(|| self.no_row(id))?;
        let image = self.current_image(place.block, image)?;
        let item = self.store(id, &image, growth)?;
        if let Some(building) = &mut self.building {
            building.bring_back(id, Row::new(&self.layout, &image), &self.budget);
        }
        self.locators.set(id, Locator::Live(item));
        self.leave_block(id);
        self.returned_total += 1;
        self.came_back.reserve(self.id_bound(), &self.budget);
        self.came_back.set(id);
        Ok(place)
    }

    /// Whether a row came back since the last snapshot and has not been counted; it has from now on.
    pub(crate) fn count_came_back(&mut self, id: TupleId) -> bool {
        self.came_back.take(id)
    }

    /// The number of such rows among those that the transaction in progress has needed.
    pub(crate) fn count_needed(&mut self) -> u64 {
        let Self { returned, came_back, .. } = self;
        returned.iter().filter(|id| came_back.take(**id)).count() as u64
    }

    /// Notes that a snapshot has all rows where they are.
    pub(crate) fn forget_came_back(&mut self) {
        self.came_back.clear_all();
    }

    /// Removes an evicted row that has this image in the table's layout. Takes no memory.
    ///
    /// # Errors
    /// If the image gives no keys.
    pub(crate) fn remove_evicted(&mut self, id: TupleId, image: &[u8]) -> Result<()> {
        let mut keys = std::mem::take(&mut self.scratch.old_keys);
        let result = self.keys(image, &mut keys);
        if result.is_ok() {
            self.remove_keys(id, &mut keys);
        }
        self.scratch.old_keys = keys;
        result?;
        if let Some(building) = &mut self.building {
            building.remove_evicted(id, Row::new(&self.layout, image), &self.budget);
        }
        self.leave_block(id);
        self.ids.release(id);
        self.loads.release(id);
        Ok(())
    }

    /// The keys of rows in the first index, the primary key's if there is one, as messages show them. Reads the whole
    /// index: for errors.
    pub fn key_texts(&self, rows: &BTreeSet<TupleId>) -> BTreeMap<TupleId, String> {
        self.indexes.first().map(|index| index.key_texts(rows)).unwrap_or_default()
    }

    /// Forgets an evicted row that cannot be read; says where it was. Indexes keep its keys, which they would need the
    /// row for: the table can be copied from now on, and nothing else.
    pub(crate) fn forget_lost(&mut self, id: TupleId) -> Option<BlockPlace> {
        let place = self.block_place(id)?;
        self.leave_block(id);
        self.ids.release(id);
        self.loads.release(id);
        Some(place)
    }

    /// Whether evicted rows can be removed and replaced unread: only one index holds their keys, which a look-up in it
    /// has given, and they are in no unfinished load.
    pub(crate) fn changes_unread(&self) -> bool {
        self.indexes.len() == 1 && self.deletes_by_keys()
    }

    /// Whether evicted rows can be removed with an image of their [keys](Table::write_keys_row) alone: they are in no
    /// unfinished load, and no index is being built.
    pub(crate) fn deletes_by_keys(&self) -> bool {
        self.building.is_none() && !self.is_loading()
    }

    /// Removes an evicted row without reading it, given an image with the columns of its keys.
    ///
    /// # Errors
    /// If it is not evicted, or the transaction has too many changes.
    pub fn delete_unread(&mut self, id: TupleId, key_row: &[u8], undo: &mut Undo) -> Result<()> {
        let place = self.block_place(id).ok_or_else(|| self.no_row(id))?;
        let mut keys = std::mem::take(&mut self.scratch.old_keys);
        let noted = self.keys(key_row, &mut keys);
        let noted = noted.and_then(|()| undo.push_unread(self.definition.id, id, Unread { place, key_row }));
        if noted.is_ok() {
            self.remove_keys(id, &mut keys);
        }
        self.scratch.old_keys = keys;
        noted?;
        self.leave_block(id);
        self.ids.release(id);
        let digest = undo.digest_mut();
        *digest = digest.with_row(self.definition.id, id, None);
        Ok(())
    }

    /// Replaces an evicted row without reading it, given an image with the columns of its key and all others, none of
    /// which an index holds.
    ///
    /// # Errors
    /// If it is not evicted, or the transaction has too many changes. [`Error::Evicted`] if there is no memory for it: where
    /// nothing else can go, it comes back nevertheless.
    pub fn update_unread(
        &mut self,
        id: TupleId,
        key_row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
        undo: &mut Undo,
    ) -> Result<()> {
        let place = self.block_place(id).ok_or_else(|| self.no_row(id))?;
        undo.push_unread(self.definition.id, id, Unread { place, key_row })?;
        let mut image = std::mem::take(&mut self.scratch.image);
        let row = Row::new(&self.layout, key_row);
        let changed = |column| changes.iter().rev().find(|(changed, _)| *changed == column);
        let stored = self
            .layout
            .encode(&mut image, |column| changed(column).map_or_else(|| row.value(column), |(_, value)| *value))
            .and_then(|()| self.store(id, &image, Growth::Asked));
        match &stored {
            Ok(item) => {
                self.locators.set(id, Locator::Live(*item));
                self.leave_block(id);
                self.recency.get_mut().add_hot(id);
                let digest = undo.digest_mut();
                *digest = changes.iter().fold(digest.with_change(self.definition.id, id), |digest, (column, _)| {
                    digest.with_column(&self.layout, &image, *column)
                });
            }
            Err(_) => undo.forget_last(),
        }
        self.scratch.image = image;
        match stored {
            Ok(_) => Ok(()),
            Err(Error::OutOfMemory(_)) => Err(self.want(id)),
            Err(error) => Err(error),
        }
    }

    /// Takes back that an evicted row was removed or replaced unread. Does not ask the budget.
    ///
    /// # Errors
    /// If the image gives no key.
    pub(crate) fn restore_unread(&mut self, id: TupleId, Unread { place, key_row }: Unread<'_>) -> Result<()> {
        if self.ids.contains(id) {
            let item = self.item(id)?;
            self.rows.free(item, &self.budget);
            self.recency.get_mut().leave(id);
            self.uses.clear(id);
        } else {
            let mut keys = std::mem::take(&mut self.scratch.new_keys);
            let restored = self.keys(key_row, &mut keys).and_then(|()| self.take_again(id, &mut keys));
            self.scratch.new_keys = keys;
            restored?;
        }
        self.locators.set(id, Locator::Evicted(place));
        self.evicted_ids.reserve(self.id_bound(), &self.budget);
        self.evicted_ids.set(id);
        self.evicted += 1;
        Ok(())
    }

    fn take_again(&mut self, id: TupleId, keys: &mut [Key]) -> Result<()> {
        let taken = self.ids.take(id, &self.budget, Growth::Forced);
        taken.map_err(|full| self.full(full))?;
        for (index, key) in self.indexes.iter_mut().zip(keys) {
            enter((&self.definition, &self.loads), index, key, id, &self.budget, Growth::Forced)?;
        }
        Ok(())
    }

    /// Notes that the image of an evicted row is elsewhere now.
    pub(crate) fn move_evicted(&mut self, id: TupleId, place: BlockPlace) {
        self.locators.set(id, Locator::Evicted(place));
    }

    pub(super) fn leave_block(&mut self, id: TupleId) {
        self.evicted -= 1;
        self.evicted_ids.clear(id);
    }
}

/// Bytes of rows that a scan reads ahead, about, and their share of the memory limit, unless it is a single row.
const AHEAD_BYTES: usize = 2 << 20;
const AHEAD_SHARE: u64 = 64;

/// Reads evicted rows of a table in place, for scans that need them in the order of their ids. The longer the scan, the
/// more rows are read side by side before it meets them: blocks with many of these whole, and other rows with their
/// pages alone. So rows that updates have spread over all blocks do not have each block read for each of them.
#[derive(Debug)]
pub struct EvictedRows<'a> {
    table: &'a Table,
    blocks: &'a dyn Blocks,
    /// Bytes of rows that are read at once, about, unless it is a single one.
    bytes_max: usize,
    images: Images,
    /// Bytes of them, as memory of a statement.
    charge: Charge,
    /// Rows to be read next time. Few at first: the scan may stop early.
    ahead: usize,
    /// Bytes that were read, about.
    read_bytes: usize,
}

impl<'a> EvictedRows<'a> {
    /// Reads from these blocks.
    pub fn new(table: &'a Table, blocks: &'a dyn Blocks) -> Self {
        let share = usize::try_from(table.budget.limit() / AHEAD_SHARE).unwrap_or(usize::MAX);
        let charge = Charge::new(&table.budget, Working::Queries);
        let (bytes_max, images) = (AHEAD_BYTES.min(share), Images::default());
        Self { table, blocks, bytes_max, images, charge, ahead: 1, read_bytes: 0 }
    }

    /// Gives an evicted row to `each`. Calls are in ascending order of ids.
    ///
    /// # Errors
    /// If it is not evicted, or cannot be read; and those of `each`.
    pub fn visit(&mut self, id: TupleId, each: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let place = self.table.block_place(id).ok_or_else(|| self.table.no_row(id))?;
        if !self.images.contains(place) {
            self.read(id)?;
        }
        let image = self.images.image(place).map_err(|error| self.damage(place.block).unwrap_or(error))?;
        each(Row::new(&self.table.layout, &self.table.current_image(place.block, image)?))
    }

    /// What a block of which a row cannot be read tells scans; `None` if it cannot be read at all.
    #[cold]
    fn damage(&self, block: BlockNumber) -> Option<Error> {
        let read = TableBlocks::new(&self.table.definition, self.blocks).block_reader(block).ok()?;
        read().ok()?.damage().cloned()
    }

    /// Bytes that were read so far, about.
    pub const fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Reads a row, and evicted ones behind it.
    fn read(&mut self, id: TupleId) -> Result<()> {
        let next = |id: &TupleId| self.table.ids.next(TupleId(id.0 + 1));
        let behind = std::iter::successors(Some(id), next).take(AHEAD_IDS);
        let places = behind.filter_map(|id| Some((id, self.table.block_place(id)?)));
        let mut bytes = 0;
        let fit = |(_, place): &(TupleId, BlockPlace)| {
            let is_first = bytes == 0;
            bytes += self.blocks.read_bytes(place.block, false).max(1);
            is_first || bytes <= self.bytes_max
        };
        let wanted: Vec<_> = places.take(self.ahead).take_while(fit).collect();
        let wanted = wanted.into_iter().map(|(id, place)| (&self.table.definition, id, place));
        // They are read in any case, a single one if there is no memory for more: tables make room for it.
        self.charge.set(self.images.memory_bytes() + bytes.min(self.bytes_max));
        let read = Images::read(self.blocks, wanted, std::mem::take(&mut self.images))?;
        (self.images, self.read_bytes) = (read.0, self.read_bytes + read.1);
        self.charge.set(self.images.memory_bytes());
        self.ahead = (4 * self.ahead).min(AHEAD_IDS);
        Ok(())
    }
}

/// Layouts of a table's rows in blocks.
#[derive(Debug)]
pub struct BlockLayouts {
    earlier: Vec<EarlierLayout>,
    layout: Layout,
}

impl BlockLayouts {
    /// Gives the chosen rows of a block to `each`.
    ///
    /// # Errors
    /// If the image of one is none of the table; and those of `each`.
    pub fn each_chosen(&self, block: &BlockRows, each: &mut dyn FnMut(TupleId, Row<'_>) -> Result<()>) -> Result<()> {
        block.chosen().try_for_each(|(id, image)| {
            each(id, Row::new(&self.layout, &current_image((&self.earlier, &self.layout), block.block(), image)?))
        })
    }
}

fn current_image<'a>(
    (earlier, layout): (&[EarlierLayout], &Layout),
    block: BlockNumber,
    image: &'a [u8],
) -> Result<Cow<'a, [u8]>> {
    let mut image = Cow::Borrowed(image);
    for (number, before) in earlier.iter().enumerate().filter(|(_, before)| block < before.until) {
        let next = earlier.get(number + 1).map_or(layout, |later| &later.layout);
        before.layout.validate(&image)?;
        let mut widened = Vec::new();
        widen(Row::new(&before.layout, &image), &before.fill, next, &mut widened)?;
        image = Cow::Owned(widened);
    }
    layout.validate(&image)?;
    Ok(image)
}
