//! Rows of a partition that are lost, because the block in which they are is damaged or missing.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_types::{Error, Result};

use super::Partition;
use crate::schema::TableId;
use crate::table::{BlockNumber, Table, TupleId};

/// Rows of one block that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRows {
    /// Their table.
    pub table: TableId,
    /// Its name.
    pub table_name: String,
    /// Their block.
    pub block: BlockNumber,
    /// Each with its key as messages show it; `None` if that is lost, too.
    pub rows: Vec<(TupleId, Option<String>)>,
    /// The error of the first, which names table, file and block.
    pub why: Error,
}

/// The key of a row as messages show it, or its id where the key is lost, too.
fn key_or_row(id: TupleId, key: Option<String>) -> String {
    key.unwrap_or_else(|| format!("row {} of unknown key", id.0))
}

/// Lost rows as messages show them: how many, and up to `most` of their keys. What it is that they are `of` comes
/// between, such as a table's name.
pub fn lost_text(rows: &[(TupleId, Option<String>)], of: &str, most: usize) -> String {
    let known: Vec<&str> = rows.iter().filter_map(|(_, key)| key.as_deref()).collect();
    let mut keys: Vec<String> = known.iter().take(most).map(|&key| key.to_owned()).collect();
    if let more @ 1.. = known.len().saturating_sub(most) {
        keys.push(format!("{more} more"));
    }
    if let unknown @ 1.. = rows.len() - known.len()
        && !known.is_empty()
    {
        keys.push(format!("{unknown} unknown"));
    }
    let keys = keys.join(", ");
    match (rows.len(), known.len()) {
        (1, 0) => format!("1 row{of} is lost, with an unknown key"),
        (1, _) => format!("1 row{of} is lost, with the key {keys}"),
        (rows, 0) => format!("{rows} rows{of} are lost, with unknown keys"),
        (rows, _) => format!("{rows} rows{of} are lost, with the keys {keys}"),
    }
}

impl Partition {
    /// The keys of rows that are lost, among these rows, up to `most` of them, as messages show them.
    pub fn lost_keys(&self, rows: &[(TableId, TupleId)], most: usize) -> Vec<String> {
        let is_lost = |(table, id): &&(TableId, TupleId)| {
            self.table(*table).is_ok_and(|table| table.block_place(*id).is_some())
                && matches!(self.visit(*table, *id, &mut |_| Ok(())), Err(Error::Corrupt(_)))
        };
        let mut lost: BTreeMap<TableId, BTreeSet<TupleId>> = BTreeMap::new();
        for (table, id) in rows.iter().filter(is_lost).take(most) {
            lost.entry(*table).or_default().insert(*id);
        }
        let texts = lost.iter().flat_map(|(table, rows)| {
            let mut keys = self.table(*table).map(|table| table.key_texts(rows)).unwrap_or_default();
            rows.iter().map(move |id| key_or_row(*id, keys.remove(id)))
        });
        texts.collect()
    }

    /// All rows that are lost, by block. Reads each block, and calls `check` before each, whose error ends this. Copies of
    /// replicated tables count in the first partition only.
    ///
    /// # Errors
    /// Those of `check`, and if the disk fails.
    pub fn lost_rows(&self, check: &dyn Fn() -> Result<()>) -> Result<Vec<LostRows>> {
        let mut all = Vec::new();
        for table in self.tables() {
            let is_copy = table.definition().partition_by.is_none() && self.id().0 != 0;
            if !is_copy {
                self.lost_rows_of(table, check, &mut all)?;
            }
        }
        Ok(all)
    }

    fn lost_rows_of(&self, table: &Table, check: &dyn Fn() -> Result<()>, all: &mut Vec<LostRows>) -> Result<()> {
        let mut of_blocks: BTreeMap<BlockNumber, Vec<TupleId>> = BTreeMap::new();
        for id in table.evicted_from(TupleId(0)) {
            if let Some(place) = table.block_place(id) {
                of_blocks.entry(place.block).or_default().push(id);
            }
        }
        let (first, mut lost) = (all.len(), BTreeSet::new());
        for (block, ids) in of_blocks {
            check()?;
            let damage = self.damage(table, block, &ids)?;
            let Some((_, why)) = damage.first() else { continue };
            lost.extend(damage.iter().map(|(id, _)| *id));
            all.push(LostRows {
                table: table.definition().id,
                table_name: table.definition().name.to_string(),
                block,
                why: why.clone(),
                rows: damage.into_iter().map(|(id, _)| (id, None)).collect(),
            });
        }
        if !lost.is_empty() {
            let mut keys = table.key_texts(&lost);
            let rows = all.iter_mut().skip(first).flat_map(|lost| &mut lost.rows);
            rows.for_each(|(id, key)| *key = keys.remove(id));
        }
        Ok(())
    }

    /// Those of a block's rows that cannot be read.
    fn damage(&self, table: &Table, block: BlockNumber, ids: &[TupleId]) -> Result<Vec<(TupleId, Error)>> {
        let read = self.blocks().ok_or_else(|| Error::internal("evicted rows without blocks"))?;
        if let Ok(mut rows) = read.block_reader(block).and_then(|read| read()) {
            rows.choose(|id, place| table.block_place(id) == Some(place));
            if rows.chosen().count() == ids.len() {
                return Ok(Vec::new());
            }
        }
        let mut lost = Vec::new();
        for id in ids {
            match table.visit(*id, self.blocks(), &mut |_| Ok(())) {
                Err(why @ Error::Corrupt(_)) => lost.push((*id, why)),
                read => read?,
            }
        }
        Ok(lost)
    }

    /// Removes lost rows. The partition can be copied from now on, and nothing else: its indexes keep their keys.
    ///
    /// # Errors
    /// If there is no such table, or a file of blocks cannot be removed.
    pub fn lose(&mut self, lost: &LostRows) -> Result<()> {
        for (id, _) in &lost.rows {
            let place = self.table_mut(lost.table)?.forget_lost(*id);
            if let (Some(place), Some(blocks)) = (place, self.blocks_mut()) {
                blocks.release(place.block)?;
            }
        }
        Ok(())
    }
}
