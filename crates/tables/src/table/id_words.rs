//! A word for each tuple id.

use super::budget::{Budget, Full, Growth};
use super::tuple_ids::TupleId;

/// Words of a chunk: 2 MiB.
pub const CHUNK: usize = 1 << 18;

/// A word for each tuple id, in chunks, so that growth neither copies nor doubles those of a large table. The first
/// chunk doubles until it has full size. A word that was never set is 0.
#[derive(Debug, Default)]
pub struct IdWords {
    chunks: Vec<Vec<u64>>,
    bytes: usize,
}

impl IdWords {
    /// Bytes of the chunks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Word of an id; `None` if there is no room for it.
    #[inline]
    pub fn get(&self, id: TupleId) -> Option<u64> {
        self.chunks.get(id.0 as usize / CHUNK)?.get(id.0 as usize % CHUNK).copied()
    }

    /// Makes room for the word of `id`.
    #[inline]
    pub fn reserve(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let (chunk, within) = (id.0 as usize / CHUNK, id.0 as usize % CHUNK);
        if self.chunks.get(chunk).is_some_and(|chunk| within < chunk.len()) {
            return Ok(());
        }
        self.grow(chunk, within, budget, growth)
    }

    #[cold]
    fn grow(&mut self, chunk: usize, within: usize, budget: &Budget, growth: Growth) -> Result<(), Full> {
        let need = |number| if number < chunk || number > 0 { CHUNK } else { (within + 1).next_power_of_two().max(32) };
        let mut after = 0;
        for number in 0..=chunk {
            after += self.chunks.get(number).map_or(0, Vec::len).max(need(number)) * 8;
        }
        for number in chunk + 1..self.chunks.len() {
            after += self.chunks.get(number).map_or(0, Vec::len) * 8;
        }
        growth.check(budget, after - self.bytes)?;
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        for (number, words) in self.chunks.iter_mut().enumerate().take(chunk + 1) {
            if words.len() < need(number) {
                let mut grown = vec![0; need(number)];
                if let Some(start) = grown.get_mut(..words.len()) {
                    start.copy_from_slice(words);
                }
                *words = grown;
            }
        }
        budget.resize(self.bytes, after);
        self.bytes = after;
        Ok(())
    }

    /// Sets the word of an id for which there is room.
    #[inline]
    pub fn set(&mut self, id: TupleId, word: u64) {
        if let Some(place) =
            self.chunks.get_mut(id.0 as usize / CHUNK).and_then(|chunk| chunk.get_mut(id.0 as usize % CHUNK))
        {
            *place = word;
        }
    }
}
