//! Memory of arenas: huge pages, or the heap for small ones.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes of a region with its own mapping: a huge page on most processors.
pub const REGION_BYTES: usize = 2 << 20;

/// Zeroed bytes of an arena.
///
/// A full-size arena is a mapping of its own, for which a huge page is requested: rows and index pages are accessed in
/// random order, and with pages of 4 KiB nearly every access would miss the TLB. The whole arena is resident then, and
/// is charged as such. Smaller arenas are on the heap.
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
            // Without huge pages it is slower, but works.
            #[cfg(target_os = "linux")]
            let _ = mapped.advise(memmap2::Advice::HugePage);
            return Self::Mapped(mapped);
        }
        Self::Heap(vec![0; Self::bytes_of(bytes)])
    }

    /// Size of a region for this many bytes: nearly full-size ones are rounded up.
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
