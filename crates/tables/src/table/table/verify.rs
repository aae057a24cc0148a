//! Invariants of a table, and its hash.

use thermocline_types::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{HEADER_BYTES, Table};
use crate::table::blocks::Blocks;

impl Table {
    /// Hash of all visible rows and their ids. Equal for equal content, however it came about and wherever it is.
    pub fn state_hash(&self) -> Result<u64> {
        self.state_hash_with(None)
    }

    /// [`Table::state_hash`] of a table with evicted rows.
    pub fn state_hash_with(&self, blocks: Option<&dyn Blocks>) -> Result<u64> {
        let mut hash = u64::from(self.id().0);
        for id in self.scan() {
            self.visit(id, blocks, &mut |row| {
                hash = xxh3_64_with_seed(row.image(), hash.wrapping_mul(31).wrapping_add(u64::from(id.0) + 1));
                Ok(())
            })?;
        }
        Ok(hash)
    }

    /// Checks the invariants: rows can be read, and the indexes have exactly their keys.
    pub fn check(&self) -> Result<()> {
        self.check_with(None)
    }

    /// [`Table::check`] of a table with evicted rows.
    pub fn check_with(&self, blocks: Option<&dyn Blocks>) -> Result<()> {
        let wrong = |what: String| Error::Corrupt(format!("table \"{}\": {what}", self.definition.name).into());
        let mut key = Vec::new();
        let mut evicted = 0;
        for id in self.ids.iter() {
            if self.block_place(id).is_some() {
                evicted += 1;
            } else {
                let header: Option<&[u8; HEADER_BYTES]> =
                    self.rows.get(self.item(id)?).and_then(|bytes| bytes.first_chunk());
                if header != Some(&u64::from(id.0).to_le_bytes()) {
                    return Err(wrong(format!("the slot of row {} belongs to another", id.0)));
                }
            }
            self.visit(id, blocks, &mut |row| {
                self.layout.validate(row.image())?;
                for index in &self.indexes {
                    let distinct = index.key(row, &mut key)?;
                    let mut found = index.lookup(&key);
                    let there = match distinct {
                        true => found.next() == Some(id) && found.next().is_none(),
                        false => index.contains(&key, id),
                    };
                    if !there {
                        let name = &index.definition().name;
                        return Err(wrong(format!("row {} is missing in index \"{name}\", or not alone there", id.0)));
                    }
                }
                Ok(())
            })?;
        }
        if evicted != self.evicted {
            return Err(wrong(format!("{} rows are said to be in blocks, and {evicted} are", self.evicted)));
        }
        if let Some(what) = self.wrong_chain() {
            return Err(wrong(what));
        }
        if let Some(id) = self.loads().flat_map(|(_, ids)| ids.iter()).find(|id| !self.ids.contains(*id)) {
            return Err(wrong(format!("a load has row {}, which is not there", id.0)));
        }
        if let Some(building) = &self.building {
            let verified = building.verify(self, blocks, self.ids.iter());
            verified.map_err(|what| wrong(format!("{} that is being built: {what}", building.name())))?;
        }
        match self.indexes.iter().find(|index| index.entries() != self.ids.live()) {
            None => Ok(()),
            Some(index) => Err(wrong(format!(
                "index \"{}\" has {} entries for {} rows",
                index.definition().name,
                index.entries(),
                self.ids.live()
            ))),
        }
    }
}
