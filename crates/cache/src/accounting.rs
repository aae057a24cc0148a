//! Exact sizes of Arrow arrays.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData};

/// Bytes of memory that `array` keeps alive: the capacity of every distinct buffer below it,
/// counted once even if several children share it, and the fixed size of the array itself.
pub fn array_bytes(array: &dyn Array) -> usize {
    let mut seen = HashSet::new();
    data_bytes(&array.to_data(), &mut seen) + std::mem::size_of::<ArrayData>()
}

fn data_bytes(data: &ArrayData, seen: &mut HashSet<*const u8>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let own: usize = data
        .buffers()
        .iter()
        .chain(nulls)
        .filter(|buffer| seen.insert(buffer.data_ptr().as_ptr().cast_const()))
        .map(|buffer| buffer.capacity())
        .sum();
    own + data.child_data().iter().map(|child| data_bytes(child, seen)).sum::<usize>()
}
