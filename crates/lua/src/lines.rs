#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use crate::ffi;

/// The functions that run in a thread.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'l> {
    state: ffi::L,
    lifetime: PhantomData<&'l ()>,
}

impl Lines<'_> {
    /// # Safety
    /// The thread lives for the lifetime.
    pub(crate) const unsafe fn new(state: ffi::L) -> Self {
        Self { state, lifetime: PhantomData }
    }

    /// The line that runs, of the innermost function whose chunk has this name; 0 if there is none.
    pub fn line_of(&self, is_chunk: impl Fn(&CStr) -> bool) -> u32 {
        for level in 0.. {
            let mut source = ptr::null();
            // SAFETY: reads only; the source is a text that lives with its function.
            unsafe {
                match ffi::thermocline_line(self.state, level, &raw mut source) {
                    ..0 => break,
                    0 => {}
                    line if is_chunk(CStr::from_ptr(source)) => return line.unsigned_abs(),
                    _ => {}
                }
            }
        }
        0
    }
}
