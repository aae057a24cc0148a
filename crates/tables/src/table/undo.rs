//! Changes of a running transaction, with earlier images.

use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::budget::{Budget, Working};
use super::digest::Digest;
use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;
use crate::schema::TableId;

/// Changes of a running transaction with earlier images. An abort restores them, and a commit derives effects, digest
/// and the pre-images of a snapshot.
#[derive(Debug)]
pub struct Undo {
    changes: Vec<Entry>,
    images: Vec<u8>,
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

/// Row before a change; ranges are of `images`.
#[derive(Debug, Clone, Copy)]
enum Earlier {
    /// There was none.
    None,
    Image(usize, usize),
    /// Its place, and an image with the columns of its key.
    Unread(usize, usize),
}

impl Earlier {
    const fn start(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Image(start, _) | Self::Unread(start, _) => Some(start),
        }
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
            changes: Vec::new(),
            images: Vec::new(),
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
        earlier: fn(usize, usize) -> Earlier,
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
        let start = self.images.len();
        let earlier = parts.map_or(Earlier::None, |parts| {
            parts.into_iter().for_each(|part| self.images.extend_from_slice(part));
            earlier(start, self.images.len())
        });
        self.changes.push(Entry { table, id, earlier, digest: self.digest });
        Ok(())
    }

    /// Grows the buffers for one more change, if the budget allows it.
    fn make_room(&mut self, image_bytes: usize) -> Result<()> {
        let images = (self.images.capacity() - self.images.len() < image_bytes)
            .then(|| (self.images.len() + image_bytes).max(2 * self.images.capacity()));
        let changes = (self.changes.len() == self.changes.capacity()).then(|| (2 * self.changes.capacity()).max(16));
        if images.is_none() && changes.is_none() {
            return Ok(());
        }
        if let Some(budget) = &self.budget {
            let more = images.map_or(0, |bytes| bytes - self.images.capacity())
                + changes.map_or(0, |count| (count - self.changes.capacity()) * size_of::<Entry>());
            let room = budget.check_working(more);
            room.map_err(|full| Error::OutOfMemory(format!("a transaction's changes: {full}").into()))?;
        }
        if let Some(bytes) = images {
            self.images.reserve_exact(bytes - self.images.len());
        }
        if let Some(count) = changes {
            self.changes.reserve_exact(count - self.changes.len());
        }
        self.charge();
        Ok(())
    }

    fn charge(&mut self) {
        let bytes = self.images.capacity() + self.changes.capacity() * size_of::<Entry>();
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes != self.charged) {
            budget.resize_working(Working::Undo, self.charged, bytes);
            self.charged = bytes;
        }
    }

    /// Removes the last change, which was not made after all.
    pub fn forget_last(&mut self) {
        let Some(Entry { earlier, digest, .. }) = self.changes.pop() else { return };
        self.digest = digest;
        if let Some(start) = earlier.start() {
            self.images.truncate(start);
        }
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
        self.changes.is_empty()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.changes.len() * size_of::<Entry>() + self.images.len()
    }

    /// A change by number.
    pub fn get(&self, number: usize) -> Option<Change<'_>> {
        let entry = self.changes.get(number)?;
        let (before, unread) = match entry.earlier {
            Earlier::None => (None, None),
            Earlier::Image(start, end) => (Some(self.images.get(start..end)?), None),
            Earlier::Unread(start, end) => (None, Some(unread(self.images.get(start..end)?)?)),
        };
        Some(Change { table: entry.table, id: entry.id, before, unread })
    }

    /// The rows that changed, in the order of the changes.
    pub fn changed(&self) -> impl Iterator<Item = (TableId, TupleId)> {
        self.changes.iter().map(|change| (change.table, change.id))
    }

    /// The changes in the order in which they were made.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Change<'_>> {
        (0..self.changes.len()).filter_map(|number| self.get(number))
    }

    /// Drops all changes; keeps a moderate amount of memory for the next transaction.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.images.clear();
        self.digest = Digest::EMPTY;
        self.has_unread = false;
        self.images.shrink_to(1 << 20);
        self.changes.shrink_to(1 << 14);
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
