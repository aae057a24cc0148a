//! Split-block Bloom filters over the keys of a join's build side (PushdownDB section V-A).
//!
//! The layout is Parquet's: blocks of 256 bits, eight words of 32 bits each; a key sets one bit in
//! every word of one block. Parquet's own `Sbbf` is not used because it neither takes a hash nor
//! unites two filters, and the partitions of a build side each fill a filter of their own.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};

/// Words of a block; a key sets one bit in each.
const WORDS: usize = 8;
/// Bytes of a block.
const BLOCK_BYTES: usize = WORDS * size_of::<u32>();
/// Odd constants that spread a hash over the words of a block, as Parquet fixes them.
const SALT: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
/// Seed of the key hash; both sides link the same function.
const HASH_SEED: u64 = 0x7468_6572_6d6f;

type Block = [u32; WORDS];

/// A set of keys that answers "not in it" or "perhaps".
///
/// Invariants: at least one block; the number of blocks is a power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloomFilter {
    blocks: Vec<Block>,
}

impl BloomFilter {
    /// An empty filter of `bytes`, rounded down to a power of two.
    pub fn with_bytes(bytes: usize) -> Self {
        let blocks = (bytes / BLOCK_BYTES).max(1);
        let blocks = if blocks.is_power_of_two() { blocks } else { blocks.next_power_of_two() / 2 };
        Self { blocks: vec![[0; WORDS]; blocks] }
    }

    /// The filter of which [`Self::to_bytes`] gave the bytes; `None` if no filter has that length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        if !rest.is_empty() || !blocks.len().is_power_of_two() {
            return None;
        }
        let block = |bytes: &[u8; BLOCK_BYTES]| {
            let mut block = [0; WORDS];
            let (words, _) = bytes.as_chunks::<4>();
            block.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
            block
        };
        Some(Self { blocks: blocks.iter().map(block).collect() })
    }

    /// The bits, little-endian, block by block.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Size of the bits in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Adds a key by its hash (of [`hash_keys`]).
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let block = self.block_of(hash);
        if let Some(block) = self.blocks.get_mut(block) {
            block.iter_mut().zip(mask(hash)).for_each(|(word, bit)| *word |= bit);
        }
    }

    /// Whether the key with this hash may have been added.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(block) = self.blocks.get(self.block_of(hash)) else { return true };
        block.iter().zip(mask(hash)).fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
    }

    /// Adds all keys of `other`, a filter of the same size.
    ///
    /// # Panics
    /// If the sizes differ, which would lose keys.
    pub fn unite(&mut self, other: &Self) {
        assert_eq!(self.blocks.len(), other.blocks.len(), "filters of different sizes hold keys in different places");
        for (word, more) in self.blocks.iter_mut().flatten().zip(other.blocks.iter().flatten()) {
            *word |= more;
        }
    }

    /// Share of foreign keys that the filter takes for its own, as its bits are set now.
    pub fn false_positive_rate(&self) -> f64 {
        let of = |block: &Block| block.iter().map(|word| f64::from(word.count_ones()) / 32.0).product::<f64>();
        self.blocks.iter().map(of).sum::<f64>() / self.blocks.len() as f64
    }

    /// About how many distinct keys were added, from the share of bits that are still zero.
    pub fn keys(&self) -> u64 {
        let bits = (self.blocks.len() * WORDS * 32) as f64;
        let ones: u64 = self.blocks.iter().flatten().map(|word| u64::from(word.count_ones())).sum();
        // A full filter has seen more keys than it can tell.
        let zeros = (bits - ones as f64).max(0.5) / bits;
        (self.blocks.len() as f64 * zeros.ln() / (31.0_f64 / 32.0).ln()).round() as u64
    }

    /// The smallest filter with the same keys whose false-positive rate is at most `rate`: pairs of
    /// neighbouring blocks are united for as long as that holds.
    #[must_use]
    pub fn shrunk(mut self, rate: f64) -> Self {
        while self.blocks.len() > 1 {
            let (pairs, _) = self.blocks.as_chunks::<2>();
            let half = Self {
                blocks: pairs
                    .iter()
                    .map(|[even, odd]| {
                        let mut both = *even;
                        both.iter_mut().zip(odd).for_each(|(word, more)| *word |= more);
                        both
                    })
                    .collect(),
            };
            if half.false_positive_rate() > rate {
                break;
            }
            self = half;
        }
        self
    }

    /// The high half of a hash picks the block. With twice the blocks the position doubles, which
    /// is why neighbours can be united.
    #[inline]
    fn block_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }
}

/// The low half of a hash picks one bit in each word.
#[inline]
fn mask(hash: u64) -> Block {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// Whether equal keys of this type have equal hashes on both sides of a join. Floats have: readers
/// yield them in one form (see [`canonical_floats`](crate::canonical_floats)). Nested values are not
/// worth it.
pub fn is_hashable(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_temporal()
        || data_type.is_string()
        || data_type.is_binary()
        || matches!(data_type, DataType::Boolean | DataType::FixedSizeBinary(_))
}

/// A hash per row over all key columns, and which rows have a key: one with a NULL has none, as it
/// equals nothing.
///
/// # Errors
/// If a column is of a type that has no hash.
pub fn hash_keys(columns: &[ArrayRef], rows: usize) -> Result<(Vec<u64>, Option<NullBuffer>)> {
    let mut hashes = vec![0; rows];
    create_hashes(columns, &RandomState::with_seed(HASH_SEED), &mut hashes)?;
    // The hash function is made for tables, which use few of its bits; all of them count here.
    hashes.iter_mut().for_each(|hash| *hash = mixed(*hash));
    let keyed =
        columns.iter().fold(None, |known, column| NullBuffer::union(known.as_ref(), column.logical_nulls().as_ref()));
    Ok((hashes, keyed))
}

/// Every bit of the result depends on every bit of `hash` (the finaliser of SplitMix64).
#[inline]
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    fn hashes(keys: std::ops::Range<i64>) -> Vec<u64> {
        let rows = keys.clone().count();
        hash_keys(&[Arc::new(Int64Array::from_iter_values(keys))], rows).unwrap().0
    }

    fn filter_of(keys: std::ops::Range<i64>, bytes: usize) -> BloomFilter {
        let mut filter = BloomFilter::with_bytes(bytes);
        hashes(keys).into_iter().for_each(|hash| filter.insert(hash));
        filter
    }

    #[test]
    fn keeps_every_key_and_its_rate_in_every_size() {
        for keys in [0, 1, 10, 1000, 20_000] {
            let filter = filter_of(0..keys, 1 << 18).shrunk(0.01);
            assert!(hashes(0..keys).into_iter().all(|hash| filter.may_contain(hash)), "{keys} keys");
            let strangers = 100_000;
            let taken = hashes(1_000_000..1_000_000 + strangers).into_iter().filter(|hash| filter.may_contain(*hash));
            let rate = taken.count() as f64 / strangers as f64;
            assert!(rate <= 0.015, "{keys} keys in {} bytes: {rate}", filter.bytes());
            // Half the size would pass the rate, so the filter is no larger than it must be.
            assert!(keys == 0 || filter.bytes() <= 32.max(keys as usize * 4), "{keys} keys: {}", filter.bytes());
            assert!(filter.keys().abs_diff(keys as u64) <= keys as u64 / 20 + 1, "{keys}: {}", filter.keys());
        }
    }

    #[test]
    fn a_union_has_the_keys_of_both() {
        let mut filter = filter_of(0..500, 1 << 12);
        filter.unite(&filter_of(500..900, 1 << 12));
        assert_eq!(filter, filter_of(0..900, 1 << 12));
    }

    #[test]
    fn bytes_of_another_length_are_no_filter() {
        let filter = filter_of(0..100, 1 << 10);
        assert_eq!(BloomFilter::from_bytes(&filter.to_bytes()), Some(filter));
        for length in [0, 1, 31, 33, 96, 1000] {
            assert_eq!(BloomFilter::from_bytes(&vec![0; length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_key_with_a_null_is_no_key() {
        let columns: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])),
        ];
        let (_, keyed) = hash_keys(&columns, 3).unwrap();
        assert_eq!(keyed.unwrap().iter().collect::<Vec<_>>(), [true, false, false]);
    }
}
