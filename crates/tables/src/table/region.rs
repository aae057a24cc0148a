use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes of a region that is mapped by itself: a huge page of most processors.
pub const REGION_BYTES: usize = 2 << 20;

/// Zeroed bytes of an arena.
///
/// A whole arena is a mapping of its own, for which the system is asked to use a huge page: rows and pages of
/// indexes are found in any order, and with pages of 4 KiB nearly each of them would miss the TLB. It is
/// resident as a whole then, which is what it is accounted with. Smaller ones are on the heap.
#[derive(Debug)]
pub enum Region {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

impl Region {
    /// No bytes.
    pub const fn empty() -> Self {
        Self::Heap(Vec::new())
    }

    /// At least this many bytes: exactly that many, or [`REGION_BYTES`].
    pub fn new(bytes: usize) -> Self {
        if Self::bytes_of(bytes) == REGION_BYTES
            && let Ok(mapped) = MmapMut::map_anon(REGION_BYTES)
        {
            // Without huge pages it is slower and holds as much.
            #[cfg(target_os = "linux")]
            let _ = mapped.advise(memmap2::Advice::HugePage);
            return Self::Mapped(mapped);
        }
        Self::Heap(vec![0; Self::bytes_of(bytes)])
    }

    /// How many bytes a region for this many has: nearly a whole one is made a whole one.
    pub const fn bytes_of(bytes: usize) -> usize {
        if bytes <= REGION_BYTES && bytes > REGION_BYTES / 16 * 15 { REGION_BYTES } else { bytes }
    }
}

impl Deref for Region {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

impl DerefMut for Region {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}
