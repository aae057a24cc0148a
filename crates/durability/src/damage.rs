//! Names of what is damaged in a file of blocks.

use std::fmt::Write;
use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_statements::read_schema;
use thermocline_tables::schema::Schema;
use thermocline_tables::table::BlockEntry;
use thermocline_types::{Error, Result};

use crate::blocks::{Segment, read_block};
use crate::disk::{Disk, ReadFile};
use crate::snapshot::{Manifest, RowFileReader, RowsHeader, read_definitions};

/// Damaged blocks of a file that an error names.
const NAMED_MAX: usize = 16;

/// The error of a file of blocks whose bytes are not those of the snapshot's manifest: names the damaged blocks to
/// which the snapshot refers, and their tables.
pub(crate) fn damaged_segment(disk: &dyn Disk, manifest: &Manifest, segment: Segment) -> Error {
    let what = match damaged_blocks(disk, manifest, segment) {
        Ok(blocks) if blocks.is_empty() => "no block that the snapshot needs is damaged".to_owned(),
        Ok(blocks) => list(disk, manifest, &blocks),
        Err(Error::Corrupt(why)) => format!("its blocks are not known: {why}"),
        Err(error) => return error,
    };
    Error::corrupt(format_args!("{} is not the file of the snapshot's manifest: {what}", segment.file_name()))
}

fn list(disk: &dyn Disk, manifest: &Manifest, blocks: &[BlockEntry]) -> String {
    // The definitions may be damaged as well.
    let definitions = read_definitions(disk, manifest);
    let schema = definitions.and_then(|definitions| read_schema(&definitions)).unwrap_or_else(|_| Schema::default());
    let mut text = String::new();
    for BlockEntry { block, table, at, .. } in blocks.iter().take(NAMED_MAX) {
        let separator = if text.is_empty() { "" } else { ", " };
        let written = match schema.table_by_id(*table) {
            Some(table) => {
                write!(text, "{separator}block {} at byte {at} of table \"{}\" is damaged", block.0, table.name)
            }
            None => write!(text, "{separator}block {} at byte {at} of table {} is damaged", block.0, table.0),
        };
        debug_assert!(written.is_ok(), "a String takes all");
    }
    if let Some(more) = blocks.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// The blocks of a file to which the snapshot refers, and that cannot be read.
fn damaged_blocks(disk: &dyn Disk, manifest: &Manifest, segment: Segment) -> Result<Vec<BlockEntry>> {
    let file: Arc<dyn ReadFile> = Arc::from(disk.open(&segment.file_name())?);
    let owners = (0..).map(PartitionId).zip(&manifest.partitions);
    let Some((partition, rows)) = owners.into_iter().find(|(partition, _)| *partition == segment.partition) else {
        return Ok(Vec::new());
    };
    let header = RowsHeader { database: manifest.database, position: manifest.position, partition };
    let mut reader = RowFileReader::open(disk, header, *rows)?;
    let mut damaged = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        for entry in chunk.blocks().filter(|entry| entry.segment == segment.number) {
            match read_block(&file, segment, &entry) {
                Err(Error::Corrupt(_)) => damaged.push(entry),
                read => drop(read?),
            }
        }
    }
    damaged.sort_unstable_by_key(|entry| entry.at);
    Ok(damaged)
}
