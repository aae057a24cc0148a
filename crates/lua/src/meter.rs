use std::alloc::{Layout, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::ptr;

use crate::blocks::Blocks;
use crate::ffi;

/// Bytes whose allocation counts as one instruction, because they have to be filled.
const BYTES_OF_AN_INSTRUCTION: u64 = 64;
/// Steps of the library, such as a comparison or an iteration, that count as one instruction.
const STEPS_OF_AN_INSTRUCTION: u64 = 1;
/// Number of collections between two checks of the budget that may be forced by lack of memory and free little. Without
/// the limit, a script near its memory limit would collect at each instruction.
const POOR_COLLECTIONS_MAX: u32 = 4;
/// Fraction of all memory below which a collection freed little.
const POOR_PART: usize = 16;
/// Bytes that may stay granted but unused when nothing runs.
const IDLE_BYTES: usize = 1 << 20;

/// Budget that grants a machine memory.
pub trait Budget {
    /// Grants memory up to the returned number of bytes, at least `held`; `None` if that much is refused.
    fn ask(&self, held: usize) -> Option<usize>;

    /// Reports the bytes held, whether granted or not.
    fn tell(&self, held: usize);
}

/// Counts memory and instructions of a machine against their limits.
///
/// Invariant: the budget has been told of `held - elsewhere` bytes or, if that is less, of `granted - elsewhere`.
#[derive(Default)]
pub struct Meter {
    /// Bytes that Lua holds now.
    held: Cell<usize>,
    /// Bytes that it may hold.
    held_max: Cell<usize>,
    /// Bytes requested but not yet charged as instructions.
    unpaid: Cell<u64>,
    instructions_left: Cell<u64>,
    /// Whether Rust runs, which is never refused memory; its use is bounded otherwise, and refused to the script
    /// afterwards.
    exempt: Cell<bool>,
    /// Bytes held when the last request was refused, if it was. Lua then collects garbage and asks again.
    refused: Cell<Option<usize>>,
    /// Collections since the last check that freed little.
    poor_collections: Cell<u32>,
    /// Whether memory was refused for good; Lua reports this by requesting the maximum size.
    exhausted: Cell<bool>,
    /// Bytes that the budget has granted. Only Rust can hold more.
    granted: Cell<usize>,
    /// Bytes held that another holder reports to the budget.
    elsewhere: Cell<usize>,
    /// Budget asked for more; `None` without a budget.
    budget: RefCell<Option<Box<dyn Budget>>>,
    /// Free blocks, which do not count as held.
    blocks: Blocks,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("held", &self.held).field("granted", &self.granted).finish_non_exhaustive()
    }
}

impl Meter {
    /// Begins a transaction, which may hold `bytes` more than are held now.
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

    /// Whether Rust made the machine hold more than it may.
    pub fn is_over(&self) -> bool {
        self.held.get() > self.held_max.get().min(self.granted.get())
    }

    /// Whether this many more bytes may be held, including garbage.
    #[inline]
    pub fn allows(&self, more: usize) -> bool {
        let held = self.held.get().saturating_add(more);
        held <= self.held_max.get() && (held <= self.granted.get() || self.ask(held))
    }

    /// Sets the budget; `None` for no budget.
    pub fn set_budget(&self, budget: Option<Box<dyn Budget>>) {
        self.budget.replace(budget);
        self.granted.set(0);
        self.force();
    }

    /// Reports the bytes held to the budget if they are much less than was granted.
    pub fn settle(&self) {
        if self.granted.get().saturating_sub(self.held.get()) > IDLE_BYTES {
            self.force();
        }
    }

    /// Asks for this many bytes.
    #[cold]
    fn ask(&self, held: usize) -> bool {
        let elsewhere = self.elsewhere.get();
        let budget = self.budget.borrow();
        let granted = budget.as_ref().map_or(Some(usize::MAX), |budget| budget.ask(held.saturating_sub(elsewhere)));
        if let Some(granted) = granted {
            self.granted.set(granted.saturating_add(elsewhere));
        }
        granted.is_some()
    }

    /// Reports bytes already held, which cannot be refused.
    #[cold]
    fn force(&self) {
        let held = self.held.get();
        if !self.ask(held)
            && let Some(budget) = &*self.budget.borrow()
        {
            budget.tell(held.saturating_sub(self.elsewhere.get()));
        }
    }

    /// Spends instructions, plus the library's steps since the last call; false if none are left.
    pub fn spend(&self, instructions: u64) -> bool {
        let bytes = self.unpaid.take();
        self.poor_collections.set(0);
        let steps = take_steps() / STEPS_OF_AN_INSTRUCTION;
        let all = instructions.saturating_add(bytes / BYTES_OF_AN_INSTRUCTION).saturating_add(steps);
        let left = self.instructions_left.get();
        self.instructions_left.set(left.saturating_sub(all));
        left >= all
    }

    /// Counts memory that Rust holds for a script; another holder reports `told` of it to the budget.
    pub fn hold(&self, bytes: usize, told: usize) {
        self.elsewhere.set(self.elsewhere.get().saturating_add(told));
        self.granted.set(self.granted.get().saturating_add(told));
        self.unpaid.set(self.unpaid.get().saturating_add(bytes as u64));
        self.add(bytes);
    }

    /// Releases such memory.
    pub fn release(&self, bytes: usize, told: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
        self.elsewhere.set(self.elsewhere.get().saturating_sub(told));
        self.granted.set(self.granted.get().saturating_sub(told));
    }

    #[inline]
    fn add(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_add(bytes));
        if self.held.get() > self.granted.get() {
            self.force();
        }
    }

    /// Sets whether Rust runs; returns the earlier state.
    pub(crate) fn exempt(&self, exempt: bool) -> bool {
        self.exempt.replace(exempt)
    }

    #[inline]
    fn grants(&self, more: usize) -> bool {
        if self.exempt.get() || self.allows(more) {
            if let Some(before) = self.refused.get() {
                self.refused.set(None);
                if before.saturating_sub(self.held.get()) < self.held_max.get().min(self.granted.get()) / POOR_PART {
                    self.poor_collections.set(self.poor_collections.get() + 1);
                }
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

    /// Counts a collection, which traverses all live objects.
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
    if !Blocks::can_have(size) {
        // Lua also reports exhaustion in this way.
        meter.exhausted.set(true);
        return ptr::null_mut();
    }
    if size > old_size && !meter.grants(size - old_size) {
        return ptr::null_mut();
    }
    // SAFETY: Lua gives back blocks with the sizes that it asked for.
    let given = unsafe { meter.blocks.resize(block.cast(), old_size, size) };
    if given.is_null() && size > old_size {
        // As for allocations of Rust. An error here could be caught by the script, which replay would not repeat, and
        // would be raised below frames of Rust.
        handle_alloc_error(Layout::from_size_align(size, 1).unwrap_or(Layout::new::<u8>()));
    }
    if given.is_null() && size > 0 {
        // A block that could not be shrunk.
        return ptr::null_mut();
    }
    if size > old_size {
        meter.add(size - old_size);
    } else {
        meter.held.set(meter.held.get().saturating_sub(old_size - size));
    }
    given.cast()
}
