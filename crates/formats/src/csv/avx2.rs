//! Blocks in AVX2 registers.
//!
//! The only file of the reader with `unsafe` code. It is needed because an
//! AVX2 instruction is undefined on a processor that lacks it, which no type
//! can rule out: [`run`] is the one place that asks the processor, and the one
//! way to get at `Registers`. Without it the split scanner takes 3.7 times
//! as long, and reading 5 of 17 columns 1.3 times (`benches/csv.rs`).
#![expect(unsafe_code, reason = "AVX2 needs a run-time check, see above")]

pub(super) use imp::run;

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use crate::csv::mask::Kernel;

    /// Gives `kernel` back: there is no AVX2.
    pub(in crate::csv) fn run<K: Kernel>(kernel: K) -> Result<K::Output, K> {
        Err(kernel)
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::x86_64::{__m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set_epi64x, _mm256_set1_epi8};

    use crate::csv::mask::{BLOCK_BYTES, Block, Kernel};

    /// Runs `kernel` with AVX2; gives it back if the processor has no AVX2.
    pub(in crate::csv) fn run<K: Kernel>(kernel: K) -> Result<K::Output, K> {
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            // SAFETY: the processor has all features of `with_avx2`.
            Ok(unsafe { with_avx2(kernel) })
        } else {
            Err(kernel)
        }
    }

    #[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
    fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Registers>()
    }

    /// A block in two registers. Private, so that it exists only within
    /// [`with_avx2`].
    struct Registers([__m256i; 2]);

    impl Block for Registers {
        #[inline(always)]
        fn load(bytes: &[u8; BLOCK_BYTES]) -> Self {
            let [low, high] = [0, 1].map(|half| {
                let mut words = [0; 4];
                let half = bytes.as_chunks::<8>().0.iter().skip(4 * half);
                for (word, bytes) in words.iter_mut().zip(half) {
                    *word = i64::from_le_bytes(*bytes);
                }
                let [a, b, c, d] = words;
                // SAFETY: called within `with_avx2` only.
                unsafe { _mm256_set_epi64x(d, c, b, a) }
            });
            Self([low, high])
        }

        #[inline(always)]
        fn eq(&self, byte: u8) -> u64 {
            let [low, high] = self.0.map(|half| {
                // SAFETY: called within `with_avx2` only.
                let mask = unsafe {
                    let wanted = _mm256_set1_epi8(byte.cast_signed());
                    _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, wanted))
                };
                u64::from(mask.cast_unsigned())
            });
            low | (high << 32)
        }
    }
}
