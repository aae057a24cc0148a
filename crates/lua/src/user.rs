//! Values of Rust in Lua's memory.

#![expect(unsafe_code, reason = "memory of a library in C")]

use std::any::TypeId;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, needs_drop};

use crate::Reference;
use crate::ffi;

/// Layout of a value. When Lua frees the block, and at no other time, it calls the function at the block's beginning:
/// there is no finalizer that a script could find, or that could fail for lack of stack.
#[repr(C)]
struct Block<T> {
    drop: unsafe extern "C" fn(*mut c_void),
    kind: TypeId,
    value: ManuallyDrop<T>,
}

/// Pushes a value, with a metatable that is kept and has no finalizer.
///
/// # Safety
/// The state is alive and has space for one more value, and memory is not refused.
pub(crate) unsafe fn push<T: 'static>(state: ffi::L, value: T, metatable: &Reference) {
    const { assert!(align_of::<Block<T>>() <= 8, "Lua aligns blocks to eight bytes") };
    // SAFETY: a block of this size and alignment is written before anything sees it.
    unsafe {
        let block = ffi::thermocline_new_user(state, size_of::<Block<T>>(), metatable.number()).cast::<Block<T>>();
        block.write(Block { drop: drop_block::<T>, kind: TypeId::of::<T>(), value: ManuallyDrop::new(value) });
    }
}

/// The value at a position if it is of this type, and its index from the bottom.
///
/// # Safety
/// The state is alive, and the value stays there for `'a`.
#[inline]
pub(crate) unsafe fn get<'a, T: 'static>(state: ffi::L, position: i32) -> Option<(&'a T, i32)> {
    let mut index = 0;
    // SAFETY: marked blocks are made by `push` only, begin with their kind, and are not changed.
    unsafe {
        let block = ffi::thermocline_to_user(state, position, &raw mut index).cast::<Block<()>>();
        if block.is_null() || (*block).kind != TypeId::of::<T>() {
            return None;
        }
        Some((&(*block.cast::<Block<T>>()).value, index))
    }
}

thread_local! {
    /// Whether a value is being dropped in this thread, in the middle of a collection.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
}

/// Makes sure that no destructor uses a machine, which may be the one that frees the value.
pub(crate) fn assert_not_dropping() {
    assert!(!DROPPING.get(), "a value that Lua frees uses Lua");
}

unsafe extern "C" fn drop_block<T>(block: *mut c_void) {
    if needs_drop::<T>() {
        let was = DROPPING.replace(true);
        // SAFETY: Lua calls this once, with the block that it is written in. A panic does not get out.
        unsafe { ManuallyDrop::drop(&mut (*block.cast::<Block<T>>()).value) };
        DROPPING.set(was);
    }
}
