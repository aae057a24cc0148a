//! Bitmaps over blocks of 64 bytes: bit `i` stands for byte `i`.

use super::avx2;

/// Bytes in a block.
pub(super) const BLOCK_BYTES: usize = 64;

/// A block of bytes in registers.
pub(super) trait Block {
    /// The block with these bytes.
    fn load(bytes: &[u8; BLOCK_BYTES]) -> Self;

    /// Which bytes equal `byte`.
    fn eq(&self, byte: u8) -> u64;
}

/// A loop over blocks, compiled once for each kind of processor.
pub(super) trait Kernel {
    type Output;

    /// Runs the loop. Must be `#[inline(always)]`, as everything it calls per
    /// block, or the instructions of `B` are not available in it.
    fn run<B: Block>(self) -> Self::Output;
}

/// Runs `kernel` with the best blocks that the processor has.
pub(super) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    match avx2::run(kernel) {
        Ok(output) => output,
        Err(kernel) => kernel.run::<Words>(),
    }
}

/// Bit `i` of the result is the parity of bits `0..=i`: between an opening and
/// a closing quote it is 1.
#[inline(always)]
pub(super) fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

/// A block in eight words, for any processor.
pub(super) struct Words([u64; 8]);

impl Block for Words {
    #[inline(always)]
    fn load(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }

    #[inline(always)]
    fn eq(&self, byte: u8) -> u64 {
        const LOW7: u64 = 0x7F7F_7F7F_7F7F_7F7F;
        let wanted = u64::from_ne_bytes([byte; 8]);
        self.0.iter().rev().fold(0, |mask, word| {
            let differing = word ^ wanted;
            // 0x80 in every byte of `differing` that is zero, without carries
            // between bytes.
            let zero = !(((differing & LOW7) + LOW7) | differing | LOW7);
            // Gathers bit 7 of byte `i` as bit `i` of the top byte.
            let bits = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            (mask << 8) | bits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Eq<'a>(&'a [u8; 64], u8);

    impl Kernel for Eq<'_> {
        type Output = u64;

        #[inline(always)]
        fn run<B: Block>(self) -> u64 {
            B::load(self.0).eq(self.1)
        }
    }

    #[test]
    fn every_kind_of_block_finds_every_byte() {
        for seed in 0..=255u8 {
            let bytes: [u8; 64] = std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(seed) & 0x83);
            for byte in [0, 1, 2, 3, 0x80, 0x81, b'"'] {
                let expected = (0..64).fold(0, |m, i| m | (u64::from(bytes[i] == byte) << i));
                assert_eq!(dispatch(Eq(&bytes, byte)), expected);
                assert_eq!(Eq(&bytes, byte).run::<Words>(), expected);
            }
        }
    }

    #[test]
    fn prefix_xor_is_running_parity() {
        let bits = 0x8421_0F3C_5A00_0011_u64;
        for i in 0..64 {
            let parity = (bits << (63 - i)).count_ones() & 1;
            assert_eq!((prefix_xor(bits) >> i) & 1, u64::from(parity));
        }
    }
}
