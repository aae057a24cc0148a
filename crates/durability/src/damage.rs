//! Names of what is damaged or missing in a file of blocks: blocks, tables, and the keys of lost rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_statements::read_schema;
use thermocline_tables::partition::lost_text;
use thermocline_tables::schema::{Schema, TableId};
use thermocline_tables::table::{BlockEntry, BlockNumber, DirectoryEntry, Index, TupleId};
use thermocline_types::{Error, Result};

use crate::blocks::{Segment, SegmentExtent, check_row, read_block, read_directory};
use crate::disk::{Disk, ReadFile};
use crate::snapshot::{Manifest, RowFileReader, RowsHeader, read_definitions};

/// Damaged blocks of a file that an error names.
const BLOCKS_NAMED_MAX: usize = 16;
/// Lost rows of a block that an error names.
const ROWS_NAMED_MAX: usize = 1000;

/// Looks at a file of blocks whose bytes are not those of the snapshot's manifest. If every row that the snapshot needs
/// of it can be read, says where the damage is: it does no harm.
///
/// # Errors
/// If a row is lost: names the damaged blocks to which the snapshot refers, their tables, and the keys of the lost rows.
pub(crate) fn damaged_segment(disk: &dyn Disk, manifest: &Manifest, segment: Segment) -> Result<String> {
    let name = segment.file_name();
    let damage = Content::read(disk, manifest, segment).and_then(|content| content.damage(disk, manifest, segment));
    match damage {
        Ok(Damage { what, rows_lost: 0 }) => {
            Ok(format!("{name} is damaged, but every row that the snapshot needs of it can be read: {what}"))
        }
        Ok(Damage { what, .. }) => Err(Error::corrupt(format_args!(
            "{name} is not the file of the snapshot's manifest. With the whole file in its place nothing is lost; \
             without it, DELETE ... WHERE with their keys removes lost rows from tables with one index, and 'thermocline \
             restore DB NEWDB --lose-rows' makes a database without them. {what}"
        ))),
        Err(Error::Corrupt(why)) => Err(Error::corrupt(format_args!(
            "{name} is not the file of the snapshot's manifest: its blocks are not known: {why}"
        ))),
        Err(error) => Err(error),
    }
}

/// What is damaged in a file of blocks.
struct Damage {
    /// Its blocks and rows.
    what: String,
    /// Rows that the snapshot needs, and that cannot be read.
    rows_lost: usize,
}

/// The error of a file of blocks that is missing, or has only this many bytes: names the tables whose rows are in it,
/// and how many.
pub(crate) fn missing_bytes(disk: &dyn Disk, manifest: &Manifest, extent: SegmentExtent, length: Option<u64>) -> Error {
    let SegmentExtent { segment, bytes, .. } = extent;
    let name = segment.file_name();
    let rows = match Content::read(disk, manifest, segment) {
        Ok(content) => content.rows_text(&schema(disk, manifest)),
        Err(Error::Corrupt(why)) => format!("which rows are in it is not known: {why}"),
        Err(error) => return error,
    };
    let what = match length {
        None => format!("{name} is missing, to which the snapshot refers"),
        Some(length) => format!("{name} has {length} bytes, and the snapshot refers to {bytes}"),
    };
    Error::corrupt(format_args!(
        "{what}: {rows}. With this file in its place the database opens; without it, restore a backup into another \
         directory, or make a database without these rows: 'thermocline restore DB NEWDB --lose-rows'"
    ))
}

/// The definitions; none if they are damaged as well.
fn schema(disk: &dyn Disk, manifest: &Manifest) -> Schema {
    let definitions = read_definitions(disk, manifest);
    definitions.and_then(|definitions| read_schema(&definitions)).unwrap_or_else(|_| Schema::default())
}

fn table_text(schema: &Schema, table: TableId) -> String {
    match schema.table_by_id(table) {
        Some(table) => format!("table \"{}\"", table.name),
        None => format!("table {}", table.0),
    }
}

/// What the snapshot refers to in a file of blocks.
#[derive(Debug, Default)]
struct Content {
    blocks: BTreeMap<BlockNumber, BlockEntry>,
    directories: Vec<DirectoryEntry>,
    /// The rows that have not left each block, with the offsets of their records.
    rows: BTreeMap<BlockNumber, Vec<(TupleId, u32)>>,
}

impl Content {
    fn read(disk: &dyn Disk, manifest: &Manifest, segment: Segment) -> Result<Self> {
        let owners = (0..).map(PartitionId).zip(&manifest.partitions);
        let Some((partition, rows)) = owners.into_iter().find(|(partition, _)| *partition == segment.partition) else {
            return Ok(Self::default());
        };
        let header = RowsHeader { database: manifest.database, position: manifest.position, partition };
        let mut content = Self::default();
        // Places may precede their blocks.
        let mut reader = RowFileReader::open(disk, header, *rows)?;
        while let Some(chunk) = reader.next_chunk()? {
            let blocks = chunk.blocks().filter(|entry| entry.segment == segment.number);
            content.blocks.extend(blocks.map(|entry| (entry.block, entry)));
            content.directories.extend(chunk.directories().filter(|entry| entry.segment == segment.number));
        }
        let mut reader = RowFileReader::open(disk, header, *rows)?;
        while let Some(chunk) = reader.next_chunk()? {
            for (tuple, place) in chunk.places().filter(|(_, place)| content.blocks.contains_key(&place.block)) {
                content.rows.entry(place.block).or_default().push((tuple, place.offset));
            }
        }
        Ok(content)
    }

    fn rows_of(&self, block: BlockNumber) -> &[(TupleId, u32)] {
        self.rows.get(&block).map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of rows of each table.
    fn rows_text(&self, schema: &Schema) -> String {
        let mut tables: BTreeMap<TableId, usize> = BTreeMap::new();
        for entry in self.blocks.values() {
            *tables.entry(entry.table).or_default() += self.rows_of(entry.block).len();
        }
        let texts = tables.into_iter().map(|(table, rows)| format!("{rows} rows of {}", table_text(schema, table)));
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() { "no rows are in it".to_owned() } else { format!("{} are in it", texts.join(", ")) }
    }

    /// The blocks that are damaged and the rows that cannot be read, of a file that is there.
    fn damage(&self, disk: &dyn Disk, manifest: &Manifest, segment: Segment) -> Result<Damage> {
        let schema = schema(disk, manifest);
        let file: Arc<dyn ReadFile> = Arc::from(disk.open(&segment.file_name())?);
        let mut damaged = Vec::new();
        for entry in self.blocks.values() {
            match read_block(&file, segment, entry) {
                Ok(block) if block.damage().is_none() => {}
                Ok(_) | Err(Error::Corrupt(_)) => damaged.push(*entry),
                Err(error) => return Err(error),
            }
        }
        if damaged.is_empty() {
            // Keys are read from the blocks then.
            let what = format!("no block that the snapshot needs is damaged; {}", self.rows_text(&schema));
            return Ok(Damage { what, rows_lost: 0 });
        }
        damaged.sort_unstable_by_key(|entry| entry.at);
        let keys = self.keys(&schema, &*file, &damaged.iter().map(|entry| entry.block).collect())?;
        let (mut texts, mut rows_lost) = (Vec::new(), 0);
        for entry in &damaged {
            let table = table_text(&schema, entry.table);
            let mut lost = Vec::new();
            for row in self.rows_of(entry.block) {
                match check_row(&file, segment, entry, *row) {
                    Err(Error::Corrupt(_)) => lost.push(row.0),
                    read => read?,
                }
            }
            rows_lost += lost.len();
            if texts.len() == BLOCKS_NAMED_MAX {
                continue;
            }
            let mut text = format!("block {} at byte {} of {table} is damaged, ", entry.block.0, entry.at);
            if lost.is_empty() {
                text.push_str("and no row that the snapshot needs is lost");
            } else {
                let with_key = |tuple: TupleId| (tuple, keys.get(&(entry.block, tuple)).cloned());
                let lost: Vec<_> = lost.into_iter().map(with_key).collect();
                text.push_str(&format!("and of its rows {}", lost_text(&lost, "", ROWS_NAMED_MAX)));
            }
            texts.push(text);
        }
        Ok(Damage { what: texts.join("; ") + &more(damaged.len(), BLOCKS_NAMED_MAX), rows_lost })
    }

    /// Texts of the rows' keys in these blocks, as far as the directories have them.
    fn keys(
        &self,
        schema: &Schema,
        file: &dyn ReadFile,
        blocks: &BTreeSet<BlockNumber>,
    ) -> Result<BTreeMap<(BlockNumber, TupleId), String>> {
        let mut keys = BTreeMap::new();
        for directory in &self.directories {
            let mut bytes = vec![0; directory.bytes as usize];
            let read = file.read_at(directory.at, &mut bytes)?;
            let found = read_directory(bytes.get(..read).unwrap_or_default(), directory.segment);
            for block in found.into_iter().flatten().filter(|block| blocks.contains(&block.block)) {
                let Some(table) = schema.table_by_id(block.table) else { continue };
                let texts = block.rows.iter().filter_map(|(tuple, _, keys)| {
                    Some(((block.block, *tuple), Index::first_key_text(table, &block.indexes, keys)?))
                });
                keys.extend(texts);
            }
        }
        Ok(keys)
    }
}

/// How many are not named.
fn more(count: usize, named: usize) -> String {
    match count.checked_sub(named) {
        Some(more @ 1..) => format!(", and {more} more"),
        _ => String::new(),
    }
}
