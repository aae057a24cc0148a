//! Counting what a transaction takes.

#![expect(unsafe_code, reason = "the allocator of a library in C")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Bytes whose allocation counts as one instruction, because they have to be filled.
const BYTES_OF_AN_INSTRUCTION: u64 = 64;
/// What `malloc` promises.
const ALIGNMENT: usize = 16;

/// Memory and instructions of a machine, and what is left of them.
#[derive(Debug, Default)]
pub struct Meter {
    /// Bytes that Lua holds now.
    held: Cell<usize>,
    /// Bytes that it may hold.
    held_max: Cell<usize>,
    /// Bytes that it asked for and that no instruction was taken for.
    unpaid: Cell<u64>,
    instructions_left: Cell<u64>,
    /// Whether Rust runs, to which no memory is refused; what it takes is bounded otherwise, and refused
    /// to the script afterwards.
    exempt: Cell<bool>,
    /// Whether the last request was refused. Lua then collects garbage and asks again.
    refused: Cell<bool>,
    /// Whether memory was refused for good.
    exhausted: Cell<bool>,
}

impl Meter {
    /// Begins a transaction, which may hold `bytes` more than there are now.
    pub fn begin(&self, instructions: u64, bytes: usize) {
        self.instructions_left.set(instructions);
        self.held_max.set(self.held.get().saturating_add(bytes));
        self.unpaid.set(0);
        self.refused.set(false);
        self.exhausted.set(false);
    }

    /// Bytes that Lua holds.
    pub const fn held(&self) -> usize {
        self.held.get()
    }

    /// Whether a script asked for more memory than there is.
    pub const fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Whether more is held than may be, which Rust did.
    pub const fn is_over(&self) -> bool {
        self.held.get() > self.held_max.get()
    }

    /// Whether so many bytes more may be held.
    pub const fn allows(&self, more: usize) -> bool {
        self.held.get().saturating_add(more) <= self.held_max.get()
    }

    /// Takes instructions; false if there are none left.
    pub fn spend(&self, instructions: u64) -> bool {
        let bytes = self.unpaid.take();
        let (all, left) = (instructions + bytes / BYTES_OF_AN_INSTRUCTION, self.instructions_left.get());
        self.instructions_left.set(left.saturating_sub(all));
        left >= all
    }

    /// Counts memory that Rust holds for a script.
    pub fn hold(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_add(bytes));
        self.unpaid.set(self.unpaid.get().saturating_add(bytes as u64));
    }

    /// The memory is free again.
    pub fn release(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// Sets whether Rust runs; returns what was.
    pub(super) fn exempt(&self, exempt: bool) -> bool {
        self.exempt.replace(exempt)
    }

    fn grants(&self, more: usize) -> bool {
        if self.exempt.get() || self.held.get().saturating_add(more) <= self.held_max.get() {
            self.refused.set(false);
            self.unpaid.set(self.unpaid.get().saturating_add(more as u64));
            return true;
        }
        self.exhausted.set(self.exhausted.get() || self.refused.get());
        self.refused.set(true);
        false
    }
}

/// Lua's allocator. `meter` is a [`Meter`] that outlives the machine.
pub(super) unsafe extern "C" fn allocate(
    meter: *mut c_void,
    block: *mut c_void,
    old_size: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: set when the state was made, and cells are all that is in it.
    let meter = unsafe { &*meter.cast::<Meter>() };
    // Without a block the old size says what kind of object is wanted.
    let old_size = if block.is_null() { 0 } else { old_size };
    if size > old_size && !meter.grants(size - old_size) {
        return ptr::null_mut();
    }
    let layout = |size| Layout::from_size_align(size, ALIGNMENT);
    let (Ok(old), Ok(new)) = (layout(old_size), layout(size)) else { return ptr::null_mut() };
    // SAFETY: Lua gives back blocks with the sizes that it asked for; sizes of zero are not passed on.
    let given = unsafe {
        match (old_size, size) {
            (0, 0) => ptr::null_mut(),
            (0, _) => alloc(new),
            (_, 0) => {
                dealloc(block.cast(), old);
                ptr::null_mut()
            }
            _ => realloc(block.cast(), old, size),
        }
    };
    if given.is_null() && size > 0 {
        return ptr::null_mut();
    }
    meter.held.set((meter.held.get() + size).saturating_sub(old_size));
    given.cast()
}
