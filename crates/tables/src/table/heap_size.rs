//! Bytes that values own on the heap, for the budget.

use thermocline_types::{DataType, Value};

use super::allocated;

/// Types that own memory besides their fields.
pub trait HeapSize {
    /// Heap bytes that it owns.
    fn heap_bytes(&self) -> usize;

    /// Part of these bytes that their holder charges to the budget.
    fn charged_bytes(&self) -> usize {
        0
    }
}

impl HeapSize for i64 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl HeapSize for u8 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl HeapSize for str {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: HeapSize> HeapSize for [T] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(HeapSize::heap_bytes).sum()
    }
}

impl<T: HeapSize, const N: usize> HeapSize for [T; N] {
    fn heap_bytes(&self) -> usize {
        self.as_slice().heap_bytes()
    }
}

impl<T: HeapSize> HeapSize for Vec<T> {
    fn heap_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + self.as_slice().heap_bytes()
    }
}

impl<T: HeapSize + ?Sized> HeapSize for Box<T> {
    fn heap_bytes(&self) -> usize {
        allocated(size_of_val(&**self)) + (**self).heap_bytes()
    }
}

impl<T: HeapSize> HeapSize for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, HeapSize::heap_bytes)
    }
}

impl<A: HeapSize, B: HeapSize> HeapSize for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}

impl HeapSize for DataType {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl HeapSize for Value {
    fn heap_bytes(&self) -> usize {
        allocated(self.heap_bytes())
    }
}
