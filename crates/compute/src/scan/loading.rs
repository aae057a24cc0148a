//! A segment on its way into the cache: chunks are counted as they come.

use arrow::array::ArrayRef;
use thermocline_cache::{CountedBuffers, LoadTicket, PinnedSegment};

/// A segment being loaded.
pub(super) struct Loading {
    position: usize,
    ticket: LoadTicket,
    counted: CountedBuffers,
    /// Bytes of its chunks so far.
    bytes: usize,
    /// Bytes that the cache is known to have reserved.
    reserved: usize,
}

impl Loading {
    /// The column that its loader knows by `position`, for which the cache has reserved `reserved` bytes.
    pub(super) fn new(position: usize, ticket: LoadTicket, reserved: usize) -> Self {
        Self { position, ticket, counted: CountedBuffers::default(), bytes: 0, reserved }
    }

    /// Its loader's number for it.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Bytes of its chunks so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets the chunks so far; what was reserved for them stays so.
    pub(super) fn restart(&mut self) {
        (self.counted, self.bytes) = (CountedBuffers::default(), 0);
    }

    /// Counts a chunk; `false` if the cache has no room for it.
    pub(super) fn add(&mut self, chunk: &ArrayRef) -> bool {
        self.bytes += self.counted.add(chunk.as_ref());
        if self.bytes > self.reserved {
            // More than that, so that not every chunk asks.
            let wanted = self.bytes + self.bytes / 4;
            if !self.ticket.reserve(wanted) {
                return false;
            }
            self.reserved = wanted;
        }
        true
    }

    /// Hands its chunks over; says whether they stay.
    pub(super) fn complete(self, chunks: Vec<ArrayRef>) -> (PinnedSegment, bool) {
        self.ticket.complete(chunks)
    }
}
