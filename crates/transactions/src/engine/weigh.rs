use crate::table::allocated;

/// What takes memory besides its own fields.
pub trait Weigh {
    /// Bytes of memory that it points to.
    fn heap_bytes(&self) -> usize;

    /// Bytes of these that the budget has been told of by who holds them.
    fn charged_bytes(&self) -> usize {
        0
    }
}

impl Weigh for i64 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for u8 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for str {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: Weigh> Weigh for [T] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(Weigh::heap_bytes).sum()
    }
}

impl<T: Weigh, const N: usize> Weigh for [T; N] {
    fn heap_bytes(&self) -> usize {
        self.as_slice().heap_bytes()
    }
}

impl<T: Weigh> Weigh for Vec<T> {
    fn heap_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + self.as_slice().heap_bytes()
    }
}

impl<T: Weigh + ?Sized> Weigh for Box<T> {
    fn heap_bytes(&self) -> usize {
        allocated(size_of_val(&**self)) + (**self).heap_bytes()
    }
}

impl<T: Weigh> Weigh for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Weigh::heap_bytes)
    }
}

impl<A: Weigh, B: Weigh> Weigh for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}
