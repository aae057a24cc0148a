//! Rows of a snapshot that are in blocks of an earlier process.
//!
//! ```text
//!  places --> rows of the table, without keys --directory--> keys: the block is taken, and not read
//!                                             --block------> keys: where there is no directory, or not of all indexes
//!                                             --block------> keys and rows, where the partition has no such blocks
//! ```
//!
//! A block that is read may be damaged in rows that have left it. Where a row that is needed is lost, and its keys with
//! it, this fails, unless the replay [loses rows](SnapshotRows::loses).

use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::Filling;
use thermocline_tables::table::{BlockEntry, BlockRows, DirectoryEntry};
use thermocline_types::{Error, Result};

use super::SnapshotRows;
use crate::blocks::{Segment, read_block, read_directory};
use crate::disk::ReadFile;
use crate::snapshot::{Chunk, Kind};

/// Blocks and directories of a partition to which the snapshot refers.
#[derive(Debug, Default)]
pub(super) struct BlocksOfSnapshot {
    blocks: Vec<BlockEntry>,
    directories: Vec<DirectoryEntry>,
}

impl BlocksOfSnapshot {
    /// Adds what a chunk has to a partition, or notes it for later.
    pub fn add(&mut self, chunk: &Chunk<'_>, filling: &mut Filling<'_>) -> Result<()> {
        match chunk.kind {
            Kind::Rows => filling.add(chunk.table, chunk.load, chunk.rows()),
            Kind::Places => filling.add_evicted(chunk.table, chunk.load, chunk.places()),
            Kind::Layouts => filling.add_earlier_layouts(chunk.table, chunk.layouts().collect()),
            Kind::Blocks => {
                self.blocks.extend(chunk.blocks());
                Ok(())
            }
            Kind::Directories => {
                self.directories.extend(chunk.directories());
                Ok(())
            }
        }
    }

    /// Adds the keys of the rows in blocks. The partition takes the blocks if they are its own; otherwise the rows come
    /// into memory, from where it may evict them.
    pub fn finish(
        mut self,
        (rows, owner): (&SnapshotRows<'_>, PartitionId),
        filling: &mut Filling<'_>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let takes = filling.takes_blocks(owner);
        let mut files = Files { rows, owner, open: None };
        self.blocks.sort_unstable_by_key(|entry| entry.block);
        let mut has_keys = vec![false; self.blocks.len()];
        if takes {
            self.directories.sort_unstable_by_key(|directory| (directory.segment, directory.at));
            for directory in &self.directories {
                check()?;
                // Without it, blocks are read.
                let Ok(bytes) = files.read(directory) else { continue };
                for block in read_directory(&bytes, directory.segment).unwrap_or_default() {
                    let found = self.blocks.binary_search_by_key(&block.block, |entry| entry.block);
                    let Ok(at) = found else { continue };
                    if let (Some(entry), Some(has_keys)) = (self.blocks.get(at), has_keys.get_mut(at))
                        && !*has_keys
                        && entry.table == block.table
                    {
                        *has_keys = filling.add_keys(entry, &block.indexes, block.rows.into_iter())?;
                    }
                }
            }
        }
        let without_keys = self.blocks.iter().zip(&has_keys).filter(|(_, has_keys)| !**has_keys);
        let mut unread: Vec<&BlockEntry> = without_keys.map(|(entry, _)| entry).collect();
        unread.sort_unstable_by_key(|entry| (entry.segment, entry.at));
        let mut rows_of_blocks = None;
        for entry in unread {
            check()?;
            let (block, damage) = match files.block(entry) {
                Ok(block) => (Some(block), None),
                Err(error @ Error::Corrupt(_)) => (None, Some(error)),
                Err(error) => return Err(error),
            };
            let Some(damage) = damage.or_else(|| block.as_ref().and_then(BlockRows::damage).cloned()) else {
                if let Some(block) = block {
                    filling.add_block(entry, block, takes)?;
                }
                continue;
            };
            let needed = rows_of_blocks.get_or_insert_with(|| filling.rows_of_blocks()).get(&entry.block).copied();
            let found = block.map_or(Ok(0), |block| filling.add_block(entry, block, takes))?;
            let lost = needed.unwrap_or(0).saturating_sub(found);
            if lost > 0 {
                if !rows.loses() {
                    return Err(needs_rows(filling.table_name(entry.table)?, &damage, lost));
                }
                filling.lose(entry.block, lost, damage);
            }
        }
        if takes {
            filling.adopt_directories(&self.directories);
        }
        Ok(())
    }
}

#[cold]
fn needs_rows(table: &str, damage: &Error, rows: u32) -> Error {
    let (row, are, their) = if rows == 1 { ("row", "is", "its key") } else { ("rows", "are", "their keys") };
    Error::corrupt(format_args!(
        "table \"{table}\": {damage}: {rows} {row} there {are} lost, and {their}, without which a look-up could take a row \
         for one that does not exist. With the whole file in its place nothing is lost; 'thermocline restore DB NEWDB \
         --lose-rows' makes a database without the lost rows"
    ))
}

/// The files of a partition's blocks; one is open.
struct Files<'a> {
    rows: &'a SnapshotRows<'a>,
    owner: PartitionId,
    open: Option<OpenFile>,
}

#[derive(Clone)]
struct OpenFile {
    segment: Segment,
    file: Arc<dyn ReadFile>,
    /// Bytes to which the snapshot refers.
    bytes: u64,
}

impl Files<'_> {
    /// The file with these bytes: its number, the first byte, and how many; an error unless the snapshot refers to them.
    fn open(&mut self, (number, at, bytes): (u64, u64, u32)) -> Result<OpenFile> {
        let open = match self.open.take().filter(|open| open.segment.number == number) {
            Some(open) => open,
            None => {
                let segment = Segment { partition: self.owner, number };
                if self.rows.is_missing(segment) {
                    return Err(Error::corrupt(format_args!("{} is missing", segment.file_name())));
                }
                let (file, bytes) = (segment.file_name(), self.rows.referred_bytes(segment));
                OpenFile { segment, file: Arc::from(self.rows.disk().open_direct(&file)?), bytes }
            }
        };
        self.open = Some(open.clone());
        if at.checked_add(bytes.into()).is_none_or(|end| end > open.bytes) {
            let name = open.segment.file_name();
            return Err(Error::corrupt(format_args!("the snapshot does not refer to byte {at} of {name}")));
        }
        Ok(open)
    }

    /// Reads a block, as far as its rows can be read.
    fn block(&mut self, entry: &BlockEntry) -> Result<BlockRows> {
        let OpenFile { segment, file, .. } = self.open((entry.segment, entry.at, entry.bytes))?;
        read_block(&file, segment, entry)
    }

    fn read(&mut self, directory: &DirectoryEntry) -> Result<Vec<u8>> {
        let OpenFile { segment, file, .. } = self.open((directory.segment, directory.at, directory.bytes))?;
        let mut bytes = vec![0; directory.bytes as usize];
        if file.read_at(directory.at, &mut bytes)? < bytes.len() {
            let name = segment.file_name();
            return Err(Error::corrupt(format_args!("{name}, offset {}: it ends in a directory", directory.at)));
        }
        Ok(bytes)
    }
}
