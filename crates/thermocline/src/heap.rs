//! The program's allocator, which counts allocated bytes.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of counters, so that threads seldom share one.
const COUNTERS: usize = 64;

/// A counter in cache lines of its own.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// Bytes allocated less bytes freed by the threads of each counter. One thread may free memory of another, so only the
/// sum is meaningful.
static BYTES: [Counter; COUNTERS] = [const { Counter(AtomicUsize::new(0)) }; COUNTERS];

thread_local! {
    /// A variable whose address distinguishes threads.
    static PLACE: u8 = const { 0 };
}

/// The system's allocator with counting.
pub struct Counted;

/// Bytes allocated at present.
pub fn allocated_bytes() -> usize {
    let sum = BYTES.iter().fold(0_usize, |sum, counter| sum.wrapping_add(counter.0.load(Ordering::Relaxed)));
    // Counters are read one after the other, so the sum may be slightly below zero.
    if sum > usize::MAX / 2 { 0 } else { sum }
}

#[inline]
fn count(bytes: usize) {
    let address = PLACE.try_with(|place| std::ptr::from_ref(place).addr()).unwrap_or_default();
    // Thread-local blocks are pages apart.
    if let Some(counter) = BYTES.get((address >> 12) % COUNTERS) {
        counter.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts the block, if there is one, and returns it.
#[inline]
fn counted(block: *mut u8, bytes: usize) -> *mut u8 {
    if !block.is_null() {
        count(bytes);
    }
    block
}

// SAFETY: all is done by the system's allocator; counting allocates nothing and does not panic.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this is called; so below.
        counted(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        counted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size().wrapping_neg());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        counted(unsafe { System.realloc(block, layout, size) }, size.wrapping_sub(layout.size()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_thread_allocates_and_another_frees_is_counted_once() {
        const BYTES: usize = 64 << 20;
        let before = allocated_bytes();
        let block = std::thread::spawn(|| vec![1_u8; BYTES]).join().unwrap();
        let with = allocated_bytes();
        drop(block);
        let after = allocated_bytes();
        // Other tests run concurrently.
        assert!(with >= before + BYTES / 2, "{before} {with}");
        assert!(after + BYTES / 2 <= with, "{with} {after}");
    }
}
