//! Sort of an ordered index's entries, in runs whose blocks are freed while they are merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::collections::binary_heap::PeekMut;

use super::page::compare;

/// Bytes of entries that are sorted together.
const RUN_BYTES: usize = 8 << 20;
/// Bytes of sorted entries that are freed together.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes before a sorted entry.
///
/// ```text
/// 0                 2                     4
/// length of entry   bytes that no other   entry
///                   entry may start with
/// ```
const HEAD_BYTES: usize = 4;

/// Sorter for the entries of an ordered index: sorts runs, in blocks that are freed while the runs are merged.
///
/// ```text
///  push --> open (in any order) --full--> run: block, block, ... --+
///                                         run: block, block, ... --+-- merge --> entries in order
/// ```
#[derive(Debug)]
pub struct Runs {
    /// Bytes of the entries of the open run, one after the other, and the place of each.
    bytes: Vec<u8>,
    places: Vec<Place>,
    runs: Vec<VecDeque<Vec<u8>>>,
    /// Blocks of the runs.
    blocks: usize,
}

/// An entry of the open run.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its first bytes as a number.
    prefix: u64,
    at: u32,
    length: u16,
    distinct: u16,
}

/// The first bytes of an entry, zero-padded.
#[inline]
fn prefix_of(entry: &[u8]) -> u64 {
    if let Some(head) = entry.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    entry.iter().rev().fold(0, |prefix, byte| prefix >> 8 | u64::from(*byte) << 56)
}

impl Runs {
    /// A sorter without entries.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), places: Vec::new(), runs: Vec::new(), blocks: 0 }
    }

    /// Bytes that it takes.
    pub const fn bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>() + self.blocks * BLOCK_BYTES
    }

    /// Adds an entry whose first `distinct` bytes must be unique.
    pub fn push(&mut self, entry: &[u8], distinct: usize) {
        if self.bytes.len() + entry.len() > RUN_BYTES {
            self.seal();
        }
        let (at, length, distinct) = (self.bytes.len() as u32, entry.len() as u16, distinct as u16);
        self.bytes.extend_from_slice(entry);
        self.places.push(Place { prefix: prefix_of(entry), at, length, distinct });
    }

    /// Sorts the open run.
    fn seal(&mut self) {
        let entry = |place: &Place| {
            let at = place.at as usize;
            self.bytes.get(at..at + usize::from(place.length)).unwrap_or_default()
        };
        let order = |left: &Place, right: &Place| {
            left.prefix.cmp(&right.prefix).then_with(|| compare(entry(left), entry(right)))
        };
        self.places.sort_unstable_by(order);
        let mut blocks = VecDeque::new();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        for place in &self.places {
            let entry = entry(place);
            if block.len() + HEAD_BYTES + entry.len() > BLOCK_BYTES {
                blocks.push_back(std::mem::replace(&mut block, Vec::with_capacity(BLOCK_BYTES)));
            }
            block.extend_from_slice(&place.length.to_le_bytes());
            block.extend_from_slice(&place.distinct.to_le_bytes());
            block.extend_from_slice(entry);
        }
        blocks.push_back(block);
        self.blocks += blocks.len();
        self.runs.push(blocks);
        self.bytes.clear();
        self.places.clear();
    }

    /// Calls `next` with all entries in order, each with its distinct bytes, and the bytes that the sorter takes by
    /// then.
    pub fn merge<E>(mut self, mut next: impl FnMut(&[u8], usize, usize) -> Result<(), E>) -> Result<(), E> {
        self.seal();
        (self.bytes, self.places) = (Vec::new(), Vec::new());
        let mut heads: BinaryHeap<Head> = std::mem::take(&mut self.runs).into_iter().filter_map(Head::new).collect();
        while let Some(mut head) = heads.peek_mut() {
            next(head.entry(), head.distinct, self.blocks * BLOCK_BYTES)?;
            let before = head.blocks.len();
            let is_over = !head.advance();
            self.blocks -= before - head.blocks.len();
            if is_over {
                PeekMut::pop(head);
            }
        }
        Ok(())
    }
}

/// The first remaining entry of a run.
#[derive(Debug)]
struct Head {
    blocks: VecDeque<Vec<u8>>,
    /// Its offset in the first block.
    start: usize,
    end: usize,
    distinct: usize,
    prefix: u64,
}

impl Head {
    fn new(blocks: VecDeque<Vec<u8>>) -> Option<Self> {
        let mut head = Self { blocks, start: 0, end: 0, distinct: 0, prefix: 0 };
        head.advance().then_some(head)
    }

    fn entry(&self) -> &[u8] {
        self.blocks.front().and_then(|block| block.get(self.start..self.end)).unwrap_or_default()
    }

    /// Moves to the next entry; returns false if there is none.
    fn advance(&mut self) -> bool {
        loop {
            let Some(block) = self.blocks.front() else { return false };
            let Some((head, _)) = block.get(self.end..).and_then(|rest| rest.split_first_chunk::<HEAD_BYTES>()) else {
                self.blocks.pop_front();
                self.end = 0;
                continue;
            };
            let [l0, l1, d0, d1] = *head;
            self.start = self.end + HEAD_BYTES;
            self.end = self.start + usize::from(u16::from_le_bytes([l0, l1]));
            self.distinct = usize::from(u16::from_le_bytes([d0, d1]));
            self.prefix = prefix_of(self.entry());
            return true;
        }
    }
}

/// Reversed, because the heap returns the greatest head.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.prefix.cmp(&self.prefix).then_with(|| compare(other.entry(), self.entry()))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn entries_of_many_runs_come_in_order() {
        let mut random = StdRng::seed_from_u64(1);
        for length_max in [3, 12, 600] {
            let (mut runs, mut model) = (Runs::new(), Vec::new());
            let mut bytes = 0;
            while bytes < 2 * RUN_BYTES + 1000 {
                let length = random.random_range(0..=length_max);
                let entry: Vec<u8> = (0..length).map(|_| random.random_range(0..3)).collect();
                bytes += length.max(1);
                let distinct = random.random_range(0..=length);
                runs.push(&entry, distinct);
                model.push(entry);
            }
            let mut merged = Vec::new();
            runs.merge(|entry, distinct, _| {
                assert!(distinct <= entry.len());
                merged.push(entry.to_vec());
                Ok::<_, ()>(())
            })
            .unwrap();
            model.sort();
            assert!(merged == model);
        }
        let mut none = 0;
        let counted = Runs::new().merge(|_, _, _| {
            none += 1;
            Ok::<_, ()>(())
        });
        counted.unwrap();
        assert_eq!(none, 0);
    }
}
