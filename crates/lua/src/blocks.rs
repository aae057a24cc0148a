//! Memory blocks of a machine.

#![expect(unsafe_code, reason = "the allocator of a library in C")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::{fmt, ptr};

/// Alignment of `malloc`, and the step between sizes of small blocks.
const ALIGNMENT: usize = 16;
/// Maximum bytes of a small block; none is small when every access is checked.
const SMALL_BYTES_MAX: usize = if cfg!(checked_blocks) { 0 } else { ALIGNMENT * SIZES };
const SIZES: usize = 16;
/// Maximum bytes of free blocks that are kept.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Maximum bytes of a block.
const BYTES_MAX: usize = isize::MAX as usize - ALIGNMENT;

/// Free blocks of a machine, by size: the blocks that one call frees are requested by the next.
///
/// ```text
/// free[0], 16 bytes: -> block -> block -> null
/// free[1], 32 bytes: -> block -> null
/// ```
///
/// Invariants: each block in a list has that list's size and is unused; `kept` is the sum of their sizes, at most
/// [`KEPT_BYTES_MAX`].
pub(crate) struct Blocks {
    free: [Cell<*mut Free>; SIZES],
    kept: Cell<usize>,
}

/// A free block.
struct Free {
    next: *mut Free,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { free: [const { Cell::new(ptr::null_mut()) }; SIZES], kept: Cell::new(0) }
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Blocks {
    /// Whether a block can have this many bytes.
    pub const fn can_have(size: usize) -> bool {
        size <= BYTES_MAX
    }

    /// Resizes a block from `old_size` to `size` bytes and keeps its content as far as it fits. Returns null and leaves
    /// the block unchanged if there is no memory. Size zero means no block.
    ///
    /// # Safety
    /// The block was given by this function for `old_size` bytes, which is zero if there was none, and can have `size`.
    #[inline]
    pub unsafe fn resize(&self, block: *mut u8, old_size: usize, size: usize) -> *mut u8 {
        // SAFETY: blocks come back with the sizes that they were given with.
        unsafe {
            if old_size == 0 {
                return if size == 0 { ptr::null_mut() } else { self.take(size) };
            }
            if size == 0 {
                self.give(block, old_size);
                return ptr::null_mut();
            }
            match (list_of(old_size), list_of(size)) {
                (None, None) => realloc(block, layout(old_size), size),
                (old, new) if old == new => block,
                _ => {
                    let other = self.take(size);
                    if !other.is_null() {
                        ptr::copy_nonoverlapping(block, other, old_size.min(size));
                        self.give(block, old_size);
                    }
                    other
                }
            }
        }
    }

    /// # Safety
    /// There can be a block of this size, which is not zero.
    #[inline]
    unsafe fn take(&self, size: usize) -> *mut u8 {
        // SAFETY: what is in a list is a free block, whose beginning is the address of the next.
        unsafe {
            let Some(number) = list_of(size) else { return alloc(layout(size)) };
            let Some(list) = self.free.get(number) else { return alloc(layout(size)) };
            let first = list.get();
            if first.is_null() {
                return alloc(layout(size_of_list(number)));
            }
            list.set((*first).next);
            self.kept.set(self.kept.get() - size_of_list(number));
            first.cast()
        }
    }

    /// # Safety
    /// The block was given for this size, and is in no use.
    #[inline]
    unsafe fn give(&self, block: *mut u8, size: usize) {
        // SAFETY: a block of at least the alignment's bytes, which nobody uses.
        unsafe {
            let Some(number) = list_of(size) else { return dealloc(block, layout(size)) };
            let kept = self.kept.get() + size_of_list(number);
            match self.free.get(number) {
                Some(list) if kept <= KEPT_BYTES_MAX => {
                    let block = block.cast::<Free>();
                    block.write(Free { next: list.replace(block) });
                    self.kept.set(kept);
                }
                _ => dealloc(block, layout(size_of_list(number))),
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (number, list) in self.free.iter().enumerate() {
            let mut next = list.get();
            while !next.is_null() {
                // SAFETY: as in `take`.
                unsafe {
                    let block = next;
                    next = (*block).next;
                    dealloc(block.cast(), layout(size_of_list(number)));
                }
            }
        }
    }
}

/// List for blocks of a size; `None` for large ones.
#[inline]
const fn list_of(size: usize) -> Option<usize> {
    if size <= SMALL_BYTES_MAX { Some((size - 1) / ALIGNMENT) } else { None }
}

#[inline]
const fn size_of_list(number: usize) -> usize {
    ALIGNMENT * (number + 1)
}

/// # Safety
/// There can be a block of this size.
#[inline]
const unsafe fn layout(size: usize) -> Layout {
    // SAFETY: a power of two, and a size that is not too large for it.
    unsafe { Layout::from_size_align_unchecked(size, ALIGNMENT) }
}

const _: () = assert!(size_of::<Free>() <= ALIGNMENT && align_of::<Free>() <= ALIGNMENT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_what_is_in_them() {
        let blocks = Blocks::default();
        let sizes = [1, 8, 16, 17, 100, 255, 256, 257, 5000, 257, 256, 64, 33, 2];
        for round in 0..3_u8 {
            let mut held: Vec<(*mut u8, usize, u8)> = Vec::new();
            for (number, size) in sizes.into_iter().enumerate() {
                // SAFETY: blocks are used within their sizes, and given back with them.
                unsafe {
                    let block = blocks.resize(ptr::null_mut(), 0, size);
                    let mark = number as u8 + round;
                    block.write_bytes(mark, size);
                    held.push((block, size, mark));
                }
            }
            for (number, (block, size, mark)) in held.into_iter().enumerate() {
                let other = sizes[(number + 5) % sizes.len()];
                // SAFETY: as above.
                unsafe {
                    let moved = blocks.resize(block, size, other);
                    assert!((0..size.min(other)).all(|at| moved.add(at).read() == mark));
                    assert_eq!(moved.addr() % ALIGNMENT, 0);
                    assert!(blocks.resize(moved, other, 0).is_null());
                }
            }
        }
        assert!(blocks.kept.get() > 0 || SMALL_BYTES_MAX == 0);
    }

    #[test]
    fn so_many_bytes_are_kept_and_no_more() {
        let blocks = Blocks::default();
        // SAFETY: as above.
        unsafe {
            let held: Vec<*mut u8> = (0..10_000).map(|_| blocks.resize(ptr::null_mut(), 0, 100)).collect();
            for block in held {
                blocks.resize(block, 100, 0);
            }
        }
        assert!(blocks.kept.get() <= KEPT_BYTES_MAX);
    }
}
