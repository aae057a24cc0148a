//! Memory that devices read and write without a copy.

/// Alignment of memory, offsets and lengths: that of every device at hand, and of pages in memory.
pub const ALIGNMENT: usize = 4096;

/// Aligned bytes, which stay where they are in memory when this moves.
#[derive(Debug, Default)]
pub struct Aligned {
    bytes: Vec<u8>,
    /// The first aligned byte.
    start: usize,
    length: usize,
}

impl Aligned {
    /// Memory of this many bytes.
    pub fn new(length: usize) -> Self {
        let mut memory = Self::default();
        memory.set_length(length);
        memory
    }

    /// Takes other memory if this has fewer bytes.
    pub fn set_length(&mut self, length: usize) {
        if self.bytes.len() < length + ALIGNMENT {
            self.bytes = vec![0; (length + ALIGNMENT).max(2 * ALIGNMENT)];
            self.start = self.bytes.as_ptr().align_offset(ALIGNMENT);
        }
        self.length = length;
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.length).unwrap_or_default()
    }

    /// Its bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.length).unwrap_or_default()
    }
}
