//! Pseudo-random numbers for simulations.

/// SplitMix64 (Steele, Lea, Flood 2014). Implemented here because a seed must mean the same run with every version of
/// every dependency.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `bound`; 0 if `bound` is 0. The bias of the modulo is far below what a
    /// simulation could notice.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// The same for places in memory.
    #[expect(clippy::cast_possible_truncation, reason = "less than a usize")]
    pub const fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// True once in `n` times on average; never if `n` is 0.
    pub const fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(n as u64) == 0
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// A sequence of its own, which later calls do not disturb.
    pub const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of recorded failures keep their meaning.
    #[test]
    fn seeds_do_not_change() {
        let mut random = Random::new(7);
        assert_eq!([random.next(), random.next()], [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]);
        assert_eq!((random.below(0), random.one_in(0), random.pick(&[0_u8; 0])), (0, false, None));
    }
}
