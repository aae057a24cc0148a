//! Making a machine, calling into it, and being called by it.

#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use mlua_sys::lua54 as ffi;

use super::meter::{Meter, allocate};
use super::stack::Stack;

/// Instructions between two looks at the budget.
const INSTRUCTIONS_OF_A_LOOK: c_int = 256;

/// A function of the library, in Rust. It pushes its results and says how many there are; an error is on
/// the top of the stack.
pub type Function<H> = fn(&Stack<'_, H>) -> Result<c_int, Raised>;

/// An error value is on the top of the stack.
#[derive(Debug)]
pub struct Raised;

/// What a machine belongs to.
pub trait Host: Sized + 'static {
    /// The functions that scripts call by their numbers.
    fn functions(&self) -> &[Function<Self>];

    /// What the machine's memory and instructions are counted with.
    fn meter(&self) -> &Meter;

    /// Whether the transaction has failed already, so that nothing may go on; why is kept by the host.
    /// Called when the budget was looked at, with whether there is some left. Pushes the error value if so.
    fn must_stop(&self, stack: &Stack<'_, Self>, within_budget: bool) -> bool;

    /// The thread that calls Rust.
    fn active(&self) -> &Active;

    /// A function of Rust panicked. Pushes the error value.
    fn panicked(&self, stack: &Stack<'_, Self>);
}

/// The thread of a machine whose script has called Rust; none while no script runs.
#[derive(Debug)]
pub struct Active(Cell<*mut ffi::lua_State>);

impl Default for Active {
    fn default() -> Self {
        Self(Cell::new(ptr::null_mut()))
    }
}

/// A value that Lua keeps for Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference(c_int);

/// A machine.
pub struct State<H: Host> {
    main: *mut ffi::lua_State,
    /// Calls of the machine's functions get this.
    host: PhantomData<*const H>,
}

impl<H: Host> State<H> {
    /// A machine with nothing in it but what `build` puts there; `None` without memory for it.
    ///
    /// The host must not move, and must live longer than the machine.
    pub fn new(host: &H) -> Option<Self> {
        let meter: *const Meter = host.meter();
        host.meter().exempt(true);
        // SAFETY: the allocator keeps Lua's contract. Memory is not refused, so nothing below raises.
        unsafe {
            let main = ffi::lua_newstate(allocate, meter.cast_mut().cast());
            if main.is_null() {
                return None;
            }
            ffi::lua_getextraspace(main).cast::<*const H>().write(host);
            // Long pauses, because what stays from call to call is marked again and again.
            ffi::lua_gc(main, ffi::LUA_GCINC, 1000 as c_int, 400 as c_int, 0 as c_int);
            ffi::lua_sethook(main, Some(look::<H>), ffi::LUA_MASKCOUNT, INSTRUCTIONS_OF_A_LOOK);
            Some(Self { main, host: PhantomData })
        }
    }

    /// The stack of the thread that has called Rust, or of the main one. The host is the machine's.
    pub fn stack(&self, host: &H) -> Stack<'_, H> {
        let active = host.active().0.get();
        // SAFETY: the machine lives as long as the borrow, and the thread as long as it runs.
        unsafe { Stack::new(if active.is_null() { self.main } else { active }) }
    }

    /// Frees what scripts left.
    pub fn collect(&self) {
        // SAFETY: finalizers are of Rust values, and do not raise.
        unsafe { ffi::lua_gc(self.main, ffi::LUA_GCCOLLECT) };
    }
}

impl<H: Host> Drop for State<H> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and closed once.
        unsafe { ffi::lua_close(self.main) };
    }
}

impl<H: Host> Stack<'_, H> {
    /// Compiles a function; its text is an error where it is not Lua. `name` is what errors call it.
    pub fn load(&self, source: &str, name: &CStr) -> Result<(), Raised> {
        // SAFETY: a text, of this length; `t` refuses what is not text. Loading is protected.
        let status = unsafe {
            ffi::luaL_loadbufferx(self.raw(), source.as_ptr().cast(), source.len(), name.as_ptr(), c"t".as_ptr())
        };
        if status == ffi::LUA_OK { Ok(()) } else { Err(Raised) }
    }

    /// Calls the function below the `arguments` values on the top, with memory and instructions counted.
    /// `handler` is where on the stack the function is that sees an error where it arises; 0 for none.
    /// `results` of -1 takes all of them.
    pub fn call(&self, arguments: c_int, results: c_int, handler: c_int) -> Result<(), Raised> {
        let meter = self.host().meter();
        let was = meter.exempt(false);
        // SAFETY: a protected call.
        let status = unsafe { ffi::lua_pcall(self.raw(), arguments, results, handler) };
        meter.exempt(was);
        if status == ffi::LUA_OK { Ok(()) } else { Err(Raised) }
    }

    /// Pushes the function of the library with this number.
    pub fn push_function(&self, number: usize) {
        // SAFETY: pushes only, and memory is not refused.
        unsafe {
            ffi::lua_pushinteger(self.raw(), i64::try_from(number).unwrap_or(i64::MAX));
            ffi::lua_pushcclosure(self.raw(), enter_or_raise::<H>, 1);
        }
    }

    /// Pushes what one of Lua's own libraries gives: `_G` with the basic functions, or `coroutine`.
    pub fn push_library(&self, library: Library) {
        let open = match library {
            Library::Base => ffi::luaopen_base,
            Library::Coroutine => ffi::luaopen_coroutine,
        };
        // SAFETY: these only make tables.
        unsafe {
            ffi::lua_pushcclosure(self.raw(), open, 0);
            ffi::lua_callk(self.raw(), 0, 1, 0, None);
        }
    }

    /// Takes the value from the top and keeps it.
    pub fn keep(&self) -> Reference {
        // SAFETY: memory is not refused.
        Reference(unsafe { ffi::luaL_ref(self.raw(), ffi::LUA_REGISTRYINDEX) })
    }

    /// Pushes a value that is kept.
    pub fn push_kept(&self, reference: Reference) {
        // SAFETY: a raw access.
        unsafe { ffi::lua_rawgeti(self.raw(), ffi::LUA_REGISTRYINDEX, reference.0.into()) };
    }

    /// Keeps a value no longer.
    pub fn forget(&self, reference: Reference) {
        // SAFETY: as above.
        unsafe { ffi::luaL_unref(self.raw(), ffi::LUA_REGISTRYINDEX, reference.0) };
    }

    /// Takes the table on the top for the globals of the function below it.
    pub fn set_globals(&self) {
        // SAFETY: the first upvalue of a main function is `_ENV`; without one the value is popped here.
        unsafe {
            if ffi::lua_setupvalue(self.raw(), -2, 1).is_null() {
                ffi::lua_settop(self.raw(), -2);
            }
        }
    }

    /// The line that runs, of the innermost function whose chunk has this name; 0 if there is none.
    pub fn line_of(&self, is_chunk: impl Fn(&CStr) -> bool) -> u32 {
        // SAFETY: a structure of C for which zeros are valid; Lua fills in what is asked for.
        let mut frame: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        let mut level = 0;
        // SAFETY: the frame is filled by the call before; the source is a text that lives with its function.
        unsafe {
            while ffi::lua_getstack(self.raw(), level, &raw mut frame) != 0 {
                ffi::lua_getinfo(self.raw(), c"Sl".as_ptr(), &raw mut frame);
                if frame.currentline > 0 && is_chunk(CStr::from_ptr(frame.source)) {
                    return u32::try_from(frame.currentline).unwrap_or(0);
                }
                level += 1;
            }
        }
        0
    }
}

/// One of Lua's own libraries.
#[derive(Debug, Clone, Copy)]
pub enum Library {
    /// `assert`, `error`, `ipairs`, `pcall`, `select`, ...
    Base,
    /// `coroutine.create`, ...
    Coroutine,
}

/// A name as C has it, cut at what C cannot have.
pub fn c_name(name: &str) -> CString {
    CString::new(name.replace('\0', "")).unwrap_or_default()
}

/// What Lua calls for a function of the library.
unsafe extern "C-unwind" fn enter_or_raise<H: Host>(state: *mut ffi::lua_State) -> c_int {
    match enter::<H>(state) {
        Some(count) => count,
        // SAFETY: the error value is on the top, and this frame owns nothing.
        None => unsafe { ffi::lua_error(state) },
    }
}

/// Runs a function of the library; `None` if it put an error onto the stack.
fn enter<H: Host>(state: *mut ffi::lua_State) -> Option<c_int> {
    // SAFETY: called by a running machine; the number is the closure's.
    let (stack, number) =
        unsafe { (Stack::<H>::new(state), ffi::lua_tointegerx(state, ffi::lua_upvalueindex(1), ptr::null_mut())) };
    let host = stack.host();
    let was = host.meter().exempt(true);
    let before = host.active().0.replace(state);
    let function = usize::try_from(number).ok().and_then(|number| host.functions().get(number));
    let result = match function {
        // Its values are dropped, and cells hold what they held.
        Some(function) => catch_unwind(AssertUnwindSafe(|| function(&stack))),
        None => Ok(Ok(0)),
    };
    let outcome = match result {
        Ok(Ok(_)) if host.meter().is_over() && host.must_stop(&stack, true) => None,
        Ok(Ok(count)) => Some(count),
        Ok(Err(Raised)) => None,
        Err(_) => {
            host.panicked(&stack);
            None
        }
    };
    host.active().0.set(before);
    host.meter().exempt(was);
    outcome
}

/// What Lua calls now and then, to have its instructions counted.
unsafe extern "C-unwind" fn look<H: Host>(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    if !may_go_on::<H>(state) {
        // SAFETY: the error value is on the top, and this frame owns nothing.
        unsafe { ffi::lua_error(state) };
    }
}

/// Takes the instructions since the last look; false if it put an error onto the stack.
fn may_go_on<H: Host>(state: *mut ffi::lua_State) -> bool {
    // SAFETY: called by a running machine.
    let stack = unsafe { Stack::<H>::new(state) };
    let host = stack.host();
    let was = host.meter().exempt(true);
    let within = host.meter().spend(INSTRUCTIONS_OF_A_LOOK.unsigned_abs().into());
    let stop = host.must_stop(&stack, within);
    host.meter().exempt(was);
    !stop
}

/// The host of a machine.
///
/// # Safety
///
/// The state is one that [`State::new`] made for this type of host, or a thread of it.
pub(super) unsafe fn host_of<'s, H: Host>(state: *mut ffi::lua_State) -> &'s H {
    // SAFETY: written by `new`; threads have a copy. The host outlives its machine.
    unsafe { &**ffi::lua_getextraspace(state).cast::<*const H>() }
}

const _: () = assert!(size_of::<*const c_void>() == ffi::LUA_EXTRASPACE && size_of::<c_char>() == 1);
