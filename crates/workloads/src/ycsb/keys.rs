//! Skewed and scrambled choice of keys.

use thermocline_transactions::random::Random;

use super::Zipf;

/// Distribution of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    /// The exponent of the Zipf distribution; 0 is uniform.
    pub exponent: f64,
    /// Whether the hot keys are spread over the table instead of being the lowest ones, which are neighbours.
    pub scrambled: bool,
}

/// Draws keys 0 to `rows - 1`.
#[derive(Debug, Clone)]
pub struct KeyChooser {
    zipf: Zipf,
    rows: u64,
    /// Factor of ranks, modulo `rows`; 1 leaves them unchanged.
    factor: u64,
}

impl KeyChooser {
    /// Keys of a table of this many rows, at least one.
    pub fn new(rows: u64, skew: Skew) -> Self {
        let rows = rows.max(1);
        let factor = if skew.scrambled { spreading_factor(rows) } else { 1 };
        Self { zipf: Zipf::new(rows, skew.exponent), rows, factor }
    }

    /// A key.
    pub fn draw(&self, random: &mut Random) -> i64 {
        self.key(self.zipf.draw(random) - 1).cast_signed()
    }

    /// The key with this rank, from 0 for the hottest. A permutation instead of the original's hash: two ranks with one
    /// key would change the distribution.
    fn key(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.rows)) as u64
    }
}

/// A number coprime to `rows`, so that multiplying by it is a permutation; near the golden section, so that neighbours
/// come far apart, and so do their neighbours.
fn spreading_factor(rows: u64) -> u64 {
    let near = (rows as f64 * 0.618_033_988_749_895) as u64;
    (near.max(1)..).find(|factor| greatest_common_divisor(*factor, rows) == 1).unwrap_or(1)
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrambling_is_a_permutation_that_parts_neighbours() {
        for rows in [1, 2, 3, 10, 1000, 1024, 99_991, 100_000] {
            let chooser = KeyChooser::new(rows, Skew { exponent: 1.0, scrambled: true });
            let keys: Vec<u64> = (0..rows).map(|rank| chooser.key(rank)).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..rows), "{rows}");
            if rows >= 99_991 {
                // The hundred hottest are at least a third of the even distance apart.
                let mut hot = keys[..100].to_vec();
                hot.sort_unstable();
                assert!(hot.windows(2).all(|pair| pair[1] - pair[0] >= rows / 300), "{rows}");
            }
        }
    }

    #[test]
    fn the_hottest_key_is_the_one_of_rank_one() {
        for scrambled in [false, true] {
            let chooser = KeyChooser::new(1000, Skew { exponent: 1.5, scrambled });
            let mut random = Random::new(5);
            let mut seen = vec![0_u32; 1000];
            (0..10_000).for_each(|_| seen[usize::try_from(chooser.draw(&mut random)).unwrap()] += 1);
            // 1 / zeta(1.5) of all.
            assert!((3600..4200).contains(&seen[0]), "{}", seen[0]);
            let second = chooser.key(1) as usize;
            assert_eq!(seen.iter().skip(1).max(), Some(&seen[second]));
        }
    }
}
