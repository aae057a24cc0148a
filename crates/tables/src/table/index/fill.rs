//! Filling of an empty index with all keys of a table at once.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::runs::Runs;
use super::{Body, Index, TupleId};
use crate::key;
use crate::table::budget::{Budget, Full, Growth, Working};
use crate::table::charge::Charge;
use crate::table::row::Row;

/// Keys entered between two calls of `between`.
const KEYS_BETWEEN: u32 = 1 << 14;

/// An index that is filled with the keys of all rows of a table at once, however the rows come.
///
/// ```text
///  add: a row's key, in the order of the rows --> gathered --finish: in the order of the index--> Index
/// ```
///
/// Keys of an ordered index are sorted first, and those of a hash index grouped by their place, so that entering a key
/// does not wait for memory. What is gathered is freed step by step while the index grows.
#[derive(Debug)]
pub struct IndexFilling {
    index: Index,
    gathered: Gathered,
    key: Vec<u8>,
    charge: Charge,
}

#[derive(Debug)]
enum Gathered {
    Ordered(Runs),
    Hash(KeyLog),
}

/// Failure to fill an index.
#[derive(Debug)]
pub enum Unfilled {
    /// Two rows share a key that must be unique; its text.
    Duplicate(String),
    /// The index cannot grow.
    Full(Full),
    /// `between` failed.
    Stopped(Error),
}

impl From<Full> for Unfilled {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl IndexFilling {
    /// Begins to fill an empty index.
    pub fn new(index: Index, budget: &Arc<Budget>) -> Self {
        let gathered = match index.body {
            Body::Hash { .. } => Gathered::Hash(KeyLog::default()),
            Body::Ordered(_) => Gathered::Ordered(Runs::new()),
        };
        Self { index, gathered, key: Vec::new(), charge: Charge::new(budget, Working::Indexes) }
    }

    /// Gathers the key of a row.
    ///
    /// # Errors
    /// If it is too long.
    pub fn add(&mut self, id: TupleId, row: Row<'_>) -> Result<()> {
        let distinct = self.index.key(row, &mut self.key)?;
        self.gather(id, distinct);
        Ok(())
    }

    /// Gathers the key of a row, and whether it must be unique.
    pub fn add_key(&mut self, id: TupleId, key: &[u8], distinct: bool) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.gather(id, distinct);
    }

    /// [Fingerprint](Index::fingerprint) of the index.
    pub const fn fingerprint(&self) -> u64 {
        self.index.fingerprint()
    }

    fn gather(&mut self, id: TupleId, distinct: bool) {
        let Self { gathered, key, charge, .. } = self;
        match gathered {
            Gathered::Ordered(runs) => {
                let key_bytes = key.len();
                key.extend_from_slice(&id.0.to_be_bytes());
                runs.push(key, if distinct { key_bytes } else { key.len() });
                charge.set(runs.bytes());
            }
            Gathered::Hash(log) => {
                log.push(key, id);
                charge.set(log.bytes());
            }
        }
    }

    /// The index with all gathered keys, or some of them after a failure. `between` is called every now and then, and
    /// may stop it.
    pub fn finish(self, budget: &Budget, between: &mut dyn FnMut() -> Result<()>) -> (Index, Result<(), Unfilled>) {
        let Self { mut index, gathered, mut charge, .. } = self;
        let mut keys = 0_u32;
        let mut between = |left: usize| {
            keys = keys.wrapping_add(1);
            if keys.is_multiple_of(KEYS_BETWEEN) {
                charge.set(left);
                between().map_err(Unfilled::Stopped)?;
            }
            Ok(())
        };
        let filled = match gathered {
            Gathered::Ordered(runs) => index.fill_ordered(runs, budget, &mut between),
            Gathered::Hash(log) => index.fill_hash(log, budget, &mut between),
        };
        (index, filled)
    }
}

/// Called with the bytes that are still gathered.
type Between<'b> = &'b mut dyn FnMut(usize) -> Result<(), Unfilled>;

impl Index {
    fn fill_ordered(&mut self, runs: Runs, budget: &Budget, between: Between<'_>) -> Result<(), Unfilled> {
        let Self { body: Body::Ordered(set), .. } = self else { return Ok(()) };
        let mut repeated = None;
        runs.merge(|entry, distinct, left| {
            between(left)?;
            if repeated.is_none() && !set.insert(entry, distinct, budget, Growth::Forced)? {
                repeated = entry.get(..distinct).map(<[u8]>::to_vec);
            }
            Ok::<_, Unfilled>(())
        })?;
        repeated.map_or(Ok(()), |key| Err(Unfilled::Duplicate(self.key_text(&key))))
    }

    fn fill_hash(&mut self, mut log: KeyLog, budget: &Budget, between: Between<'_>) -> Result<(), Unfilled> {
        let Self { body: Body::Hash { map, .. }, .. } = self else { return Ok(()) };
        let (mut again, mut grouped) = (Vec::new(), 0);
        map.fill(
            log.keys,
            budget,
            &mut |push| {
                while let Some(block) = log.blocks.pop_front() {
                    log.block_bytes -= block.capacity();
                    for (key, id) in keys_of(&block) {
                        push(key, id);
                        grouped += key.len() + size_of::<TupleId>();
                        between(log.bytes() + grouped)?;
                    }
                }
                Ok(())
            },
            &mut |key, id| again.push((key.to_vec(), TupleId(id))),
        )?;
        for (mut key, id) in again {
            key.truncate(key::length(&key, &self.columns).unwrap_or(key.len()));
            let distinct = self.definition.unique && !self.has_null(&key);
            if !self.insert(&mut key, distinct, id, budget, Growth::Forced)? {
                return Err(Unfilled::Duplicate(self.key_text(&key)));
            }
        }
        Ok(())
    }

    fn has_null(&self, key: &[u8]) -> bool {
        key::decode(key, &self.columns).is_ok_and(|values| values.iter().any(|value| value.as_ref().is_null()))
    }
}

/// Bytes of keys that are freed together.
const BLOCK_BYTES: usize = 64 << 10;

/// Keys with their rows, in the order in which they came.
///
/// ```text
/// block: length of key (2), id (4), key | ...
/// ```
#[derive(Debug, Default)]
struct KeyLog {
    blocks: VecDeque<Vec<u8>>,
    block_bytes: usize,
    keys: usize,
}

impl KeyLog {
    fn push(&mut self, key: &[u8], id: TupleId) {
        let needed = 6 + key.len();
        let open = self.blocks.back_mut().filter(|block| block.capacity() - block.len() >= needed);
        let block = match open {
            Some(block) => block,
            None => {
                let block = Vec::with_capacity(BLOCK_BYTES.max(needed));
                self.block_bytes += block.capacity();
                self.blocks.push_back_mut(block)
            }
        };
        // Keys have less than 64 KiB.
        block.extend_from_slice(&(key.len() as u16).to_le_bytes());
        block.extend_from_slice(&id.0.to_le_bytes());
        block.extend_from_slice(key);
        self.keys += 1;
    }

    fn bytes(&self) -> usize {
        self.block_bytes + self.blocks.capacity() * size_of::<Vec<u8>>()
    }
}

fn keys_of(mut block: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    std::iter::from_fn(move || {
        let (length, rest) = block.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        block = rest;
        Some((key, u32::from_le_bytes(*id)))
    })
}
