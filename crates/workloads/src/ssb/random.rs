//! Counter-based random numbers: each row has a generator of its own.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Purpose of a generator; two streams of the same row are independent.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Stream {
    Customer = 1,
    Supplier,
    Part,
    OrderDay,
    OrderLines,
    OrderKey,
    Order,
    Batch,
    Wlfu,
    Shuffle,
    Calibration,
}

/// SplitMix64, seeded by a stream and a row number.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(stream: Stream, row: u64) -> Self {
        let stream = mix((stream as u64).wrapping_mul(GOLDEN));
        Self(mix(stream ^ mix(row.wrapping_add(GOLDEN))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `0..n`. The bias, at most n / 2^32, is far below what a scale can show.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// Uniform in `low..=high`.
    pub(super) fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u32) as i32
    }

    /// A dictionary key, uniform in `0..n`.
    pub(super) fn key(&mut self, n: u16) -> u16 {
        self.below(u32::from(n)) as u16
    }

    /// Two different numbers, uniform in `0..n`.
    pub(super) fn pair(&mut self, n: u16) -> (u16, u16) {
        let first = self.key(n);
        let second = self.key(n - 1);
        (first, if second >= first { second + 1 } else { second })
    }

    /// Shuffles `items` (Fisher-Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
