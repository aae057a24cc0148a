//! What a store knows of a block.

use thermocline_tables::schema::TableId;

/// A block with rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub table: TableId,
    pub segment: u64,
    /// First byte in the segment.
    pub at: u64,
    /// Bytes there, with zeros up to the end of a page.
    pub bytes: u32,
    /// Rows that have not left it.
    pub rows: u32,
    /// Mean bytes of a row when it was written.
    pub row_bytes: u32,
    /// Number of the last snapshot that refers to it.
    pub snapshot: u64,
}
