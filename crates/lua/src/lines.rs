#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::ffi::CStr;
use std::marker::PhantomData;

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

    /// Current line of the innermost function of the script with this name; 0 if there is none.
    pub fn line_of(&self, name: &CStr) -> u32 {
        // SAFETY: reads only.
        u32::try_from(unsafe { ffi::thermocline_line(self.state, name.as_ptr()) }).unwrap_or(0)
    }
}
