//! What tables need of blocks of evicted rows.

use std::fmt::Debug;

use thermocline_types::Result;

use super::locator::{BlockNumber, BlockPlace};
use super::tuple_ids::TupleId;
use crate::schema::TableId;

/// Reads the image of a row, or says why it cannot.
pub type RowReader = Box<dyn FnOnce() -> Result<Vec<u8>> + Send>;

/// Blocks of one partition's evicted rows (Anti-Caching 2013, section 3.1).
pub trait Blocks: Debug + Send {
    /// Writes a block of rows of one table, given by their images. Returns its number, and the place of each row in it.
    ///
    /// # Errors
    /// If it cannot be written: then there is no such block.
    fn put(
        &mut self,
        table: TableId,
        rows: &mut dyn Iterator<Item = (TupleId, &[u8])>,
    ) -> Result<(BlockNumber, Vec<u32>)>;

    /// Reads the image of a row, and gives it to `each`.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written; and those of `each`.
    fn read(&self, place: BlockPlace, tuple: TupleId, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// A read of a row's image that can be done on any thread, at any later time: the block may go meanwhile.
    ///
    /// # Errors
    /// If there is no such block.
    fn reader(&self, place: BlockPlace, tuple: TupleId) -> Result<RowReader>;

    /// The number that the next block gets: greater than those of all blocks so far, of any table.
    fn next(&self) -> BlockNumber;

    /// Whether a block of this table has more than this many bytes.
    fn has_longer(&self, table: TableId, bytes: usize) -> bool;

    /// Notes that a row has left a block: it is live again, or removed.
    ///
    /// # Errors
    /// If a file that nothing refers to any more cannot be removed.
    fn release(&mut self, block: BlockNumber) -> Result<()>;
}
