/// What takes memory besides its own fields.
pub trait Weigh {
    /// Bytes of memory that it points to.
    fn heap_bytes(&self) -> usize;
}

impl Weigh for i64 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: Copy> Weigh for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}
