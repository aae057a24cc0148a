use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use crate::ffi;

/// Bytes whose allocation counts as one instruction, because they have to be filled.
const BYTES_OF_AN_INSTRUCTION: u64 = 64;
/// Steps of the library, a comparison or a loop's turn, that count as one instruction.
const STEPS_OF_AN_INSTRUCTION: u64 = 1;
/// How often memory may run out and be found by a collection that frees little, between two looks at the budget.
/// A script that lives at the limit would collect for each of its instructions.
const POOR_COLLECTIONS_MAX: u32 = 4;
/// The part of all memory that is little.
const POOR_PART: usize = 16;
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
    /// What was held when the last request was refused, if it was. Lua then collects garbage and asks again.
    refused: Cell<Option<usize>>,
    /// Collections since the last look that freed little.
    poor_collections: Cell<u32>,
    /// Whether memory was refused for good, which Lua says by a request for all that there could be.
    exhausted: Cell<bool>,
}

impl Meter {
    /// Begins a transaction, which may hold `bytes` more than there are now.
    pub fn begin(&self, instructions: u64, bytes: usize) {
        take_steps();
        self.instructions_left.set(instructions);
        self.held_max.set(self.held.get().saturating_add(bytes));
        self.unpaid.set(0);
        self.refused.set(None);
        self.poor_collections.set(0);
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

    /// Whether so many bytes more may be held, with what is garbage.
    pub const fn allows(&self, more: usize) -> bool {
        self.held.get().saturating_add(more) <= self.held_max.get()
    }

    /// Takes instructions, and what the library did since; false if there are none left.
    pub fn spend(&self, instructions: u64) -> bool {
        let bytes = self.unpaid.take();
        self.poor_collections.set(0);
        let steps = take_steps() / STEPS_OF_AN_INSTRUCTION;
        let all = instructions.saturating_add(bytes / BYTES_OF_AN_INSTRUCTION).saturating_add(steps);
        let left = self.instructions_left.get();
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
    pub(crate) fn exempt(&self, exempt: bool) -> bool {
        self.exempt.replace(exempt)
    }

    fn grants(&self, more: usize) -> bool {
        if self.exempt.get() || self.allows(more) {
            if let Some(before) = self.refused.take()
                && before.saturating_sub(self.held.get()) < self.held_max.get() / POOR_PART
            {
                self.poor_collections.set(self.poor_collections.get() + 1);
            }
            self.unpaid.set(self.unpaid.get().saturating_add(more as u64));
            return true;
        }
        if self.poor_collections.get() >= POOR_COLLECTIONS_MAX {
            self.exhausted.set(true);
        } else if self.refused.replace(Some(self.held.get())).is_none() {
            self.note_collection();
        }
        false
    }

    /// Counts that Lua goes through all that it holds.
    pub(crate) fn note_collection(&self) {
        self.unpaid.set(self.unpaid.get().saturating_add(self.held.get() as u64));
    }
}

#[expect(unsafe_code, reason = "a counter of a library in C")]
fn take_steps() -> u64 {
    // SAFETY: reads and writes a variable of this thread.
    unsafe { ffi::thermocline_take_steps() as u64 }
}

/// Lua's allocator. `meter` is a [`Meter`] that outlives the machine.
#[expect(unsafe_code, reason = "the allocator of a library in C")]
pub(crate) unsafe extern "C" fn allocate(
    meter: *mut c_void,
    block: *mut c_void,
    old_size: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: set when the state was made, and cells are all that is in it.
    let meter = unsafe { &*meter.cast::<Meter>() };
    // Without a block the old size says what kind of object is wanted.
    let old_size = if block.is_null() { 0 } else { old_size };
    let layout = |size| Layout::from_size_align(size, ALIGNMENT);
    let (Ok(old), Ok(new)) = (layout(old_size), layout(size)) else {
        // Also what Lua says when it gives up.
        meter.exhausted.set(true);
        return ptr::null_mut();
    };
    if size > old_size && !meter.grants(size - old_size) {
        return ptr::null_mut();
    }
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
    if given.is_null() && size > old_size {
        // As where Rust allocates. An error here could be caught by the script, which replay would not see,
        // and raised below frames of Rust.
        handle_alloc_error(new);
    }
    if given.is_null() && size > 0 {
        // A block that could not be made smaller.
        return ptr::null_mut();
    }
    meter.held.set((meter.held.get() + size).saturating_sub(old_size));
    given.cast()
}
