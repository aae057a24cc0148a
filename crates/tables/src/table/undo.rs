//! Changes of a running transaction, with earlier images.

use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::budget::{Budget, Full, Working};
use super::digest::Digest;
use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;
use crate::schema::TableId;

/// Changes of a running transaction with earlier images. An abort restores them, and a commit derives effects, digest
/// and the pre-images of a snapshot.
#[derive(Debug)]
pub struct Undo {
    changes: Changes,
    images: Images,
    /// Digest of all changes.
    digest: Digest,
    bytes_max: usize,
    /// Charged for the buffers; `None` for a transaction that is not counted.
    budget: Option<Arc<Budget>>,
    charged: usize,
    /// Whether some change may be of an unread row.
    has_unread: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    table: TableId,
    id: TupleId,
    earlier: Earlier,
    /// Digest before this change.
    digest: Digest,
}

/// Row before a change.
#[derive(Debug, Clone, Copy)]
enum Earlier {
    /// There was none.
    None,
    Image(Place),
    /// Its place, and an image with the columns of its key.
    Unread(Place),
}

impl Earlier {
    const fn place(self) -> Option<Place> {
        match self {
            Self::None => None,
            Self::Image(place) | Self::Unread(place) => Some(place),
        }
    }
}

/// Changes of a full chunk.
const CHUNK_CHANGES: usize = 4096;
/// Bytes of images in a chunk, unless one has more.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of images that are kept for the next transaction.
const KEPT_BYTES: usize = 1 << 20;
/// Divisor of the memory limit for what is kept of changes and images.
const KEPT_SHARE: u64 = 1 << 12;

/// Changes in chunks, so that many of them are not copied when there are more, and take no more memory than they need.
///
/// Invariant: `full` are of [`CHUNK_CHANGES`] each.
#[derive(Debug, Default)]
struct Changes {
    full: Vec<Vec<Entry>>,
    /// Doubles as it grows.
    last: Vec<Entry>,
}

impl Changes {
    fn len(&self) -> usize {
        self.full.len() * CHUNK_CHANGES + self.last.len()
    }

    /// Bytes that it takes more, once another change is added.
    #[inline]
    fn growth(&self) -> usize {
        let (count, capacity) = (self.last.len(), self.last.capacity());
        let more = if count >= CHUNK_CHANGES {
            CHUNK_CHANGES
        } else if count < capacity {
            0
        } else {
            capacity.max(16)
        };
        more * size_of::<Entry>()
    }

    /// Takes this memory.
    #[cold]
    fn grow(&mut self) {
        if self.last.len() >= CHUNK_CHANGES {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK_CHANGES)));
        } else {
            self.last.reserve_exact(self.last.capacity().max(16));
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        if self.last.is_empty() {
            self.last = self.full.pop()?;
        }
        self.last.pop()
    }

    fn get(&self, number: usize) -> Option<&Entry> {
        let chunk = number / CHUNK_CHANGES;
        let chunk = if chunk == self.full.len() { Some(&self.last) } else { self.full.get(chunk) };
        chunk?.get(number % CHUNK_CHANGES)
    }

    fn memory_bytes(&self) -> usize {
        (self.full.len() * CHUNK_CHANGES + self.last.capacity()) * size_of::<Entry>()
    }

    fn clear(&mut self) {
        if let Some(first) = self.full.drain(..).next() {
            self.last = first;
        }
        self.last.clear();
    }
}

/// Bytes of an image in a chunk of [`Images`].
#[derive(Debug, Clone, Copy)]
struct Place {
    chunk: u32,
    start: u32,
    length: u32,
}

/// Images in chunks, each as large as all before until that is [`CHUNK_BYTES`]: none is copied when there are more.
#[derive(Debug, Default)]
struct Images {
    chunks: Vec<Vec<u8>>,
    capacity: usize,
    /// Bytes in use.
    bytes: usize,
}

impl Images {
    /// Bytes that it takes more, once an image of this many is added.
    #[inline]
    fn growth(&self, bytes: usize) -> usize {
        match self.chunks.last() {
            Some(last) if last.capacity() - last.len() >= bytes => 0,
            None if bytes == 0 => 0,
            _ => self.capacity.clamp(1024, CHUNK_BYTES).max(bytes),
        }
    }

    /// Takes this memory.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.chunks.push(Vec::with_capacity(bytes));
        self.capacity += bytes;
    }

    /// Adds an image for which there is room.
    fn push(&mut self, parts: [&[u8]; 2]) -> Place {
        let chunk = self.chunks.len().saturating_sub(1) as u32;
        let Some(last) = self.chunks.last_mut() else { return Place { chunk, start: 0, length: 0 } };
        let start = last.len();
        parts.into_iter().for_each(|part| last.extend_from_slice(part));
        self.bytes += last.len() - start;
        Place { chunk, start: start as u32, length: (last.len() - start) as u32 }
    }

    /// Removes the last image.
    fn pop(&mut self, place: Place) {
        // What follows is empty by now, and only the last chunk is filled.
        for empty in self.chunks.drain((place.chunk as usize + 1).min(self.chunks.len())..) {
            self.capacity -= empty.capacity();
        }
        if let Some(chunk) = self.chunks.get_mut(place.chunk as usize) {
            chunk.truncate(place.start as usize);
            self.bytes -= place.length as usize;
        }
    }

    fn get(&self, Place { chunk, start, length }: Place) -> Option<&[u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let start = start as usize;
        self.chunks.get(chunk as usize)?.get(start..start + length as usize)
    }

    /// Keeps the largest chunk of a moderate size.
    fn clear(&mut self) {
        let sizes = self.chunks.iter().map(Vec::capacity).enumerate().filter(|(_, bytes)| *bytes <= KEPT_BYTES);
        match sizes.max_by_key(|(_, bytes)| *bytes) {
            Some((largest, _)) => {
                self.chunks.swap(0, largest);
                self.chunks.truncate(1);
                self.chunks.iter_mut().for_each(Vec::clear);
            }
            None => self.chunks.clear(),
        }
        self.capacity = self.chunks.iter().map(Vec::capacity).sum();
        self.bytes = 0;
    }
}

/// An evicted row that was removed or replaced unread.
#[derive(Debug, Clone, Copy)]
pub struct Unread<'a> {
    /// Where it is until the transaction ends.
    pub place: BlockPlace,
    /// An image with the columns of its key.
    pub key_row: &'a [u8],
}

/// Bytes of a place in `images`.
const PLACE_BYTES: usize = 12;

fn place_bytes(place: BlockPlace) -> [u8; PLACE_BYTES] {
    let mut bytes = [0; PLACE_BYTES];
    let (block, offset) = bytes.split_at_mut(8);
    block.copy_from_slice(&place.block.0.to_le_bytes());
    offset.copy_from_slice(&place.offset.to_le_bytes());
    bytes
}

fn unread(bytes: &[u8]) -> Option<Unread<'_>> {
    let (block, rest) = bytes.split_first_chunk()?;
    let (offset, key_row) = rest.split_first_chunk()?;
    let place = BlockPlace { block: BlockNumber(u64::from_le_bytes(*block)), offset: u32::from_le_bytes(*offset) };
    Some(Unread { place, key_row })
}

/// One change of a row.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The table.
    pub table: TableId,
    /// The row.
    pub id: TupleId,
    /// The row's image before the change; `None` if the change made the row, or has not read it.
    pub before: Option<&'a [u8]>,
    /// The row before the change if that has not read it.
    pub unread: Option<Unread<'a>>,
}

impl Undo {
    /// No changes; more than `bytes_max` are refused.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            changes: Changes::default(),
            images: Images::default(),
            digest: Digest::EMPTY,
            bytes_max,
            budget: None,
            charged: 0,
            has_unread: false,
        }
    }

    /// No changes, charged to this budget, which may refuse more.
    pub fn charged(bytes_max: usize, budget: Arc<Budget>) -> Self {
        let mut undo = Self::new(bytes_max);
        undo.budget = Some(budget);
        undo
    }

    /// Notes a change about to be made; the caller then adds it to the digest.
    pub fn push(&mut self, table: TableId, id: TupleId, before: Option<&[u8]>) -> Result<()> {
        self.add(table, id, before.map(|image| [&[], image]), Earlier::Image)
    }

    /// [`Undo::push`] for an evicted row that the change does not read.
    pub fn push_unread(&mut self, table: TableId, id: TupleId, Unread { place, key_row }: Unread<'_>) -> Result<()> {
        self.add(table, id, Some([&place_bytes(place), key_row]), Earlier::Unread)?;
        self.has_unread = true;
        Ok(())
    }

    /// Whether some change may be of an unread row.
    pub fn has_unread(&self) -> bool {
        self.has_unread
    }

    #[inline]
    fn add(
        &mut self,
        table: TableId,
        id: TupleId,
        parts: Option<[&[u8]; 2]>,
        earlier: fn(Place) -> Earlier,
    ) -> Result<()> {
        let bytes = parts.iter().flatten().map(|part| part.len()).sum::<usize>();
        let more = size_of::<Entry>() + bytes;
        if self.bytes() + more > self.bytes_max {
            return Err(Error::OutOfMemory(
                format!(
                    "a transaction may have {} bytes of changes to take back in a partition; make it several",
                    self.bytes_max
                )
                .into(),
            ));
        }
        self.make_room(bytes)?;
        let earlier = parts.map_or(Earlier::None, |parts| earlier(self.images.push(parts)));
        self.changes.last.push(Entry { table, id, earlier, digest: self.digest });
        Ok(())
    }

    /// Grows the buffers for one more change, if the budget allows it.
    #[inline]
    fn make_room(&mut self, image_bytes: usize) -> Result<()> {
        let (images, changes) = (self.images.growth(image_bytes), self.changes.growth());
        if images == 0 && changes == 0 { Ok(()) } else { self.grow(images, changes) }
    }

    #[cold]
    fn grow(&mut self, images: usize, changes: usize) -> Result<()> {
        if let Some(budget) = &self.budget {
            budget.check_working(Working::Undo, images + changes).map_err(|full| self.refused(full))?;
        }
        if images > 0 {
            self.images.grow(images);
        }
        if changes > 0 {
            self.changes.grow();
        }
        self.charge();
        Ok(())
    }

    /// The refusal, with what is possible.
    #[cold]
    fn refused(&self, full: Full) -> Error {
        let (rows, bytes) = (self.changes.len(), self.bytes());
        // As many as fit whatever others hold, in chunks of which half may be empty; or as what was possible now, with
        // other partitions' as much.
        let sure = self.budget.as_ref().map_or(0, |budget| budget.floor(Working::Undo)) / 2;
        let of_sure = u128::from(sure) * rows as u128 / bytes.max(1) as u128;
        let at_once = usize::try_from(of_sure).unwrap_or(usize::MAX).max(rows / 3);
        let advice = match at_once {
            0 => String::new(),
            _ => format!("; it had changed {rows} rows, with {bytes} bytes of undo: change {at_once} rows at a time"),
        };
        Error::OutOfMemory(format!("a transaction's changes: {full}{advice}").into())
    }

    fn charge(&mut self) {
        let bytes = self.images.capacity + self.changes.memory_bytes();
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes != self.charged) {
            budget.resize_working(Working::Undo, self.charged, bytes);
            self.charged = bytes;
        }
    }

    /// Removes the last change, which was not made after all.
    pub fn forget_last(&mut self) {
        let Some(Entry { earlier, digest, .. }) = self.changes.pop() else { return };
        self.digest = digest;
        if let Some(place) = earlier.place() {
            self.images.pop(place);
        }
        self.charge();
    }

    /// Digest of all changes, in order.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The digest, for adding the writes of the last change.
    #[inline]
    pub(super) fn digest_mut(&mut self) -> &mut Digest {
        &mut self.digest
    }

    /// Number of changes, which serves as a mark to undo to.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.len() == 0
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.changes.len() * size_of::<Entry>() + self.images.bytes
    }

    /// A change by number.
    pub fn get(&self, number: usize) -> Option<Change<'_>> {
        let entry = self.changes.get(number)?;
        let (before, unread) = match entry.earlier {
            Earlier::None => (None, None),
            Earlier::Image(place) => (Some(self.images.get(place)?), None),
            Earlier::Unread(place) => (None, Some(unread(self.images.get(place)?)?)),
        };
        Some(Change { table: entry.table, id: entry.id, before, unread })
    }

    /// The rows that changed, in the order of the changes.
    pub fn changed(&self) -> impl Iterator<Item = (TableId, TupleId)> {
        self.changes.full.iter().flatten().chain(&self.changes.last).map(|change| (change.table, change.id))
    }

    /// The changes in the order in which they were made.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Change<'_>> {
        (0..self.changes.len()).filter_map(|number| self.get(number))
    }

    /// Drops all changes; keeps a moderate amount of memory for the next transaction, unless that is a noticeable part
    /// of the limit, of which every partition would keep as much.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.images.clear();
        let most = self.budget.as_ref().map_or(u64::MAX, |budget| budget.limit() / KEPT_SHARE);
        if (self.changes.memory_bytes() + self.images.capacity) as u64 > most {
            (self.changes, self.images) = (Changes::default(), Images::default());
        }
        self.digest = Digest::EMPTY;
        self.has_unread = false;
        self.charge();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.resize_working(Working::Undo, self.charged, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(3);

    #[test]
    fn changes_are_the_same_in_any_number_of_chunks() {
        let budget = Arc::new(Budget::new(1 << 30));
        let mut undo = Undo::charged(1 << 30, Arc::clone(&budget));
        let image = |number: usize| vec![number as u8; [0, 1, 100, 5000, 300_000][number % 5]];
        for round in [1, 20_000, 10] {
            let mut bytes = 0;
            for number in 0..round {
                let (id, image) = (TupleId(number as u32), image(if round > 100 { number % 4 } else { number }));
                undo.push(TABLE, id, (number % 7 > 0).then_some(&image)).unwrap();
                bytes += if number % 7 > 0 { image.len() } else { 0 };
                if number % 3 == 0 {
                    undo.push(TABLE, id, Some(&image)).unwrap();
                    undo.forget_last();
                }
            }
            assert_eq!((undo.len(), undo.bytes() - undo.len() * size_of::<Entry>()), (round, bytes));
            for number in 0..round {
                let change = undo.get(number).unwrap();
                let image = image(if round > 100 { number % 4 } else { number });
                let before = (number % 7 > 0).then_some(&*image);
                assert_eq!((change.id, change.before), (TupleId(number as u32), before));
            }
            assert!(undo.get(round).is_none());
            assert!(undo.changed().map(|(_, id)| id.0 as usize).eq(0..round));
            // A part of a chunk of each kind, the ends of chunks for which an image was too long, and a removed image.
            let most = undo.bytes() + undo.bytes() / 8 + 6 * CHUNK_BYTES;
            assert!(undo.charged <= most, "{round}: {} of {most}", undo.charged);
            assert_eq!(budget.working(Working::Undo), undo.charged as u64);
            undo.clear();
            assert!(undo.is_empty() && undo.charged as u64 <= budget.limit() / KEPT_SHARE);
        }
        drop(undo);
        assert_eq!(budget.working_total(), 0);
    }

    #[test]
    fn what_is_undone_can_be_done_again_in_the_same_memory() {
        let budget = Arc::new(Budget::new(1 << 30));
        let mut undo = Undo::charged(1 << 30, Arc::clone(&budget));
        let change = |undo: &mut Undo, number: u32| undo.push(TABLE, TupleId(number), Some(&[1; 1000])).unwrap();
        (0..100).for_each(|number| change(&mut undo, number));
        let mut charged = Vec::new();
        for _ in 0..5 {
            (0..20_000).for_each(|number| change(&mut undo, number));
            assert!(undo.get(undo.len()).is_none());
            charged.push(undo.charged);
            (0..20_000).for_each(|_| undo.forget_last());
            assert!(undo.charged < 2 << 20 && budget.working(Working::Undo) == undo.charged as u64, "{}", undo.charged);
        }
        assert!(charged.iter().all(|bytes| *bytes <= charged[0] + CHUNK_BYTES), "{charged:?}");
        assert_eq!((undo.len(), undo.get(99).unwrap().before), (100, Some(&[1; 1000][..])));
    }

    #[test]
    fn a_refusal_says_how_much_is_possible() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut undo = Undo::charged(1 << 30, Arc::clone(&budget));
        let mut push = || (0..).find_map(|number| undo.push(TABLE, TupleId(number), Some(&[1; 1000])).err()).unwrap();
        let error = push().to_string();
        let rows: u32 = error.split(": change ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((250..1000).contains(&rows), "{error}");
        let mut again = Undo::charged(1 << 30, Arc::new(Budget::new(1 << 20)));
        (0..rows).for_each(|number| again.push(TABLE, TupleId(number), Some(&[1; 1000])).unwrap());
    }
}
