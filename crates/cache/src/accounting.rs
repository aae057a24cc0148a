//! Exact sizes of Arrow arrays.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData, ArrayRef};

/// Bytes of memory that `array` keeps alive: the capacity of every distinct buffer below it,
/// counted once even if several children share it, and the fixed size of the array itself.
pub fn array_bytes(array: &dyn Array) -> usize {
    CountedBuffers::default().add(array)
}

/// Bytes of memory that the chunks of a column keep alive. A buffer that several chunks share, such
/// as a dictionary's values, counts once.
pub fn column_bytes(chunks: &[ArrayRef]) -> usize {
    let mut counted = CountedBuffers::default();
    chunks.iter().map(|chunk| counted.add(chunk.as_ref())).sum()
}

/// Buffers counted so far, so that arrays which share some count them once.
#[derive(Debug, Default)]
pub struct CountedBuffers {
    /// Addresses of their data.
    seen: HashSet<usize>,
}

impl CountedBuffers {
    /// Bytes of memory that `array` keeps alive and no array before it did: the capacity of its
    /// buffers that were not counted yet, and the fixed size of the array itself.
    pub fn add(&mut self, array: &dyn Array) -> usize {
        self.add_data(&array.to_data()) + std::mem::size_of::<ArrayData>()
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let mut bytes = 0;
        for buffer in data.buffers().iter().chain(nulls) {
            if self.seen.insert(buffer.data_ptr().as_ptr().addr()) {
                bytes += buffer.capacity();
            }
        }
        bytes + data.child_data().iter().map(|child| self.add_data(child)).sum::<usize>()
    }
}
