//! Creation of a machine, calls into it, and its calls of Rust.

#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use crate::ffi;
use crate::lines::Lines;
use crate::meter::{Meter, allocate};
use crate::stack::{Full, Stack};
use crate::user::assert_not_dropping;

/// Instructions between two checks of the budget.
const INSTRUCTIONS_OF_A_LOOK: c_int = 256;
/// Message to scripts when a function of Rust wants more values than a stack can hold.
const STACK_OVERFLOW: &[u8] = b"stack overflow";

/// A library function in Rust. It pushes its results and returns their number; on error, the error value is on the top
/// of the stack.
pub type Function<H> = fn(&Stack<'_, H>) -> Result<c_int, Raised>;

/// An error value is on the top of the stack.
#[derive(Debug)]
pub struct Raised;

/// Owner of a machine.
pub trait Host: Sized + 'static {
    /// The functions that scripts call by their numbers.
    fn functions(&self) -> &[Function<Self>];

    /// Error to raise because the script must not continue, as after [`Host::panicked`] or without a budget; `None` if
    /// it may. Called after each check of the budget, with whether instructions are left, and with `true` after a
    /// function of Rust that has made the machine hold more memory than it may.
    fn must_stop(&self, lines: Lines<'_>, within_budget: bool) -> Option<&'static [u8]>;

    /// Called after a panic in a function of Rust; returns the error to raise.
    fn panicked(&self, lines: Lines<'_>) -> &'static [u8];
}

/// A value that Lua keeps for Rust.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference(c_int);

impl Reference {
    /// Its index in the registry.
    pub(crate) const fn number(&self) -> c_int {
        self.0
    }
}

/// A compiled script.
#[derive(Debug)]
pub struct Chunk(Reference);

/// One of Lua's own libraries; those of mathematics, strings and tables only with their deterministic part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// `assert`, `error`, `ipairs`, `pcall`, `select`, ... as in Lua, also the functions that a host has to leave out
    /// or replace: `dofile` and `print` reach outside, and the order of `pairs` is that of memory.
    Base,
    /// `coroutine.create`, ...
    Coroutine,
    /// `math.floor`, ... without `random`, `max` and `min`, sines and logarithms.
    Math,
    /// `string.find`, ... without `format`, `dump` and `pack`.
    String,
    /// `table.concat`, ... without `sort`.
    Table,
}

/// State shared with a machine's functions. It does not move.
pub(crate) struct Inner<H> {
    pub host: H,
    pub meter: Rc<Meter>,
    /// The thread whose script has called Rust; null while no script runs.
    active: Cell<ffi::L>,
    /// Values of the running function up to here are borrowed, or belong to others.
    pub floor: Cell<c_int>,
    /// Number of further values for which there is space.
    pub room: Cell<c_int>,
    /// Number of nested functions of Rust and scopes.
    pub depth: Cell<u32>,
}

/// Restores the state before a function or a scope, also when a panic unwinds.
pub(crate) struct Scope<'i, H> {
    inner: &'i Inner<H>,
    floor: c_int,
    depth: u32,
}

impl<H> Drop for Scope<'_, H> {
    fn drop(&mut self) {
        self.inner.floor.set(self.floor);
        self.inner.depth.set(self.depth);
    }
}

/// Removes the values pushed during a use of a stack, also when a panic unwinds.
struct Back<'i, H> {
    inner: &'i Inner<H>,
    thread: ffi::L,
    top: c_int,
    room: c_int,
}

impl<H> Drop for Back<'_, H> {
    fn drop(&mut self) {
        self.inner.room.set(self.room);
        // SAFETY: no less than there was, and nobody borrows what is above any longer.
        unsafe { ffi::lua_settop(self.thread, self.top) };
    }
}

impl<H> Inner<H> {
    /// Enters a function or a scope above the values at or below `floor`.
    pub fn descend(&self, floor: c_int) -> (Scope<'_, H>, u32) {
        let before = self.depth.get();
        self.depth.set(before + 1);
        (Scope { inner: self, floor: self.floor.replace(floor), depth: before }, before + 1)
    }
}

/// A machine and its host.
pub struct State<H: Host> {
    main: ffi::L,
    inner: NonNull<Inner<H>>,
}

impl<H: Host> fmt::Debug for State<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("meter", &self.inner().meter).finish_non_exhaustive()
    }
}

impl<H: Host> State<H> {
    /// An empty machine; the meter counts its memory and instructions.
    pub fn new(host: H, meter: Rc<Meter>) -> Self {
        let data: *const Meter = &raw const *meter;
        meter.exempt(true);
        let inner = Box::new(Inner {
            host,
            meter,
            active: Cell::new(ptr::null_mut()),
            floor: Cell::new(0),
            room: Cell::new(0),
            depth: Cell::new(0),
        });
        let inner = NonNull::from(Box::leak(inner));
        // SAFETY: the allocator keeps Lua's contract, and what it is given lives as long as the machine. Memory
        // is not refused, so nothing raises, and there is a machine.
        unsafe {
            let main = ffi::lua_newstate(allocate, data.cast_mut().cast());
            assert!(!main.is_null(), "memory is not refused");
            ffi::extra_space::<Inner<H>>(main).write(inner.as_ptr());
            // Long pauses, because surviving objects are marked again in each cycle.
            ffi::lua_gc(main, ffi::GC_INCREMENTAL, 1000 as c_int, 400 as c_int, 0 as c_int);
            ffi::lua_sethook(main, Some(look::<H>), ffi::MASK_COUNT, INSTRUCTIONS_OF_A_LOOK);
            Self { main, inner }
        }
    }

    const fn inner(&self) -> &Inner<H> {
        // SAFETY: leaked by `new`, and freed when the state is.
        unsafe { self.inner.as_ref() }
    }

    /// Owner of the machine.
    pub const fn host(&self) -> &H {
        &self.inner().host
    }

    /// Uses the stack of the thread that has called Rust, or of the main thread. Values on it stay; values pushed are
    /// removed at the end.
    pub fn enter<T>(&self, run: impl FnOnce(&Stack<'_, H>) -> T) -> T {
        assert_not_dropping();
        let inner = self.inner();
        let active = inner.active.get();
        let thread = if active.is_null() { self.main } else { active };
        // SAFETY: the machine lives as long as the borrow, and the thread as long as it runs.
        let top = unsafe { ffi::lua_gettop(thread) };
        let (_scope, depth) = inner.descend(top);
        let room = inner.room.replace(0);
        let _back = Back { inner, thread, top, room };
        // SAFETY: as above.
        run(&unsafe { Stack::new(thread, inner, depth) })
    }

    /// Collects garbage.
    pub fn collect(&self) {
        assert_not_dropping();
        // SAFETY: what is freed are values of Rust and memory; nothing raises.
        unsafe { ffi::lua_gc(self.main, ffi::GC_COLLECT) };
    }
}

impl<H: Host> Drop for State<H> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and closed once. The allocator's meter lives until after that.
        unsafe {
            ffi::lua_close(self.main);
            drop(Box::from_raw(self.inner.as_ptr()));
        }
    }
}

impl<H: Host> Stack<'_, H> {
    /// Compiles a script; an error if its text is not Lua. Errors call it `name`.
    pub fn load(&self, source: &str, name: &CStr) -> Result<Chunk, Raised> {
        self.make_space();
        // SAFETY: a text, of this length; `t` refuses what is not text. Loading is protected.
        let status = unsafe {
            ffi::luaL_loadbufferx(self.raw(), source.as_ptr().cast(), source.len(), name.as_ptr(), c"t".as_ptr())
        };
        if status == ffi::OK { Ok(Chunk(self.keep())) } else { Err(Raised) }
    }

    /// Replaces the table or nil on the top by a script with it as its globals.
    pub fn push_chunk(&self, chunk: &Chunk) {
        self.push_kept(&chunk.0);
        self.insert(-2);
        // SAFETY: a function and a value above it. The one thing that a script has from outside are its globals.
        unsafe {
            let is_script = ffi::lua_type(self.raw(), -2) == ffi::T_FUNCTION
                && ffi::lua_iscfunction(self.raw(), -2) == 0
                && !ffi::lua_setupvalue(self.raw(), -2, 1).is_null();
            if !is_script {
                self.pop(1);
            }
        }
    }

    /// Calls the function below the `arguments` values on the top, counting memory and instructions. `handler` is the
    /// position of the message handler; 0 for none. `results` of -1 keeps all results.
    pub fn call(&self, arguments: c_int, results: c_int, handler: c_int) -> Result<(), Raised> {
        let (arguments, results) = (arguments.max(0), results.max(ffi::MULTIPLE_RESULTS));
        self.let_go(arguments.saturating_add(1));
        let function = self.top() - arguments;
        if results > 0 && !self.has_space(results) {
            resume_unwind(Box::new(Full));
        }
        let handler = if (1..function).contains(&handler) { handler } else { 0 };
        let inner = self.inner();
        let was = inner.meter.exempt(false);
        // SAFETY: a protected call of what is there.
        let status = unsafe { ffi::lua_pcallk(self.raw(), arguments, results, handler, 0, None) };
        inner.meter.exempt(was);
        inner.room.set(0);
        if status == ffi::OK { Ok(()) } else { Err(Raised) }
    }

    /// Pushes the function of the library with this number.
    pub fn push_function(&self, number: usize) {
        self.push_integer(i64::try_from(number).unwrap_or(i64::MAX));
        // SAFETY: replaces the number; memory is not refused.
        unsafe { ffi::lua_pushcclosure(self.raw(), enter_or_raise::<H>, 1) };
    }

    /// Pushes the table of one of Lua's own libraries.
    pub fn push_library(&self, library: Library) {
        let open = match library {
            Library::Base => ffi::luaopen_base,
            Library::Coroutine => ffi::luaopen_coroutine,
            Library::Math => ffi::luaopen_math,
            Library::String => ffi::luaopen_string,
            Library::Table => ffi::luaopen_table,
        };
        self.make_space();
        // SAFETY: these only make tables; memory is not refused.
        unsafe {
            ffi::lua_pushcclosure(self.raw(), open, 0);
            ffi::lua_pcallk(self.raw(), 0, 1, 0, 0, None);
        }
        self.inner().room.set(0);
    }

    /// Pops a value and keeps it.
    pub fn keep(&self) -> Reference {
        self.let_go(1);
        self.make_space();
        // SAFETY: a value; memory is not refused.
        Reference(unsafe { ffi::luaL_ref(self.raw(), ffi::REGISTRY) })
    }

    /// Pushes a kept value.
    pub fn push_kept(&self, reference: &Reference) {
        self.make_room();
        // SAFETY: a raw access.
        unsafe { ffi::lua_rawgeti(self.raw(), ffi::REGISTRY, reference.0.into()) };
    }

    /// Releases a kept script.
    pub fn forget(&self, chunk: Chunk) {
        self.make_space();
        // SAFETY: as above; a reference is given back once.
        unsafe { ffi::luaL_unref(self.raw(), ffi::REGISTRY, chunk.0.0) };
    }
}

/// A name as a C string, without its NULs.
pub fn c_name(name: &str) -> CString {
    CString::new(name.replace('\0', "")).unwrap_or_default()
}

/// Entry point from Lua to library functions.
unsafe extern "C-unwind" fn enter_or_raise<H: Host>(state: ffi::L) -> c_int {
    // SAFETY: called by a running machine.
    match unsafe { enter::<H>(state) } {
        Some(count) => count,
        // SAFETY: the error value is on the top, and this frame owns nothing.
        None => unsafe { ffi::lua_error(state) },
    }
}

/// Runs a library function; `None` if it put an error onto the stack.
///
/// # Safety
/// Called by a running machine with a host of type `H`.
unsafe fn enter<H: Host>(state: ffi::L) -> Option<c_int> {
    // SAFETY: written by `State::new`; threads have a copy. The number is the closure's.
    let (inner, number) = unsafe {
        (&**ffi::extra_space::<Inner<H>>(state), ffi::lua_tointegerx(state, ffi::upvalue(1), ptr::null_mut()))
    };
    let was = inner.meter.exempt(true);
    let before = inner.active.replace(state);
    let room = inner.room.replace(ffi::MIN_STACK);
    let (scope, depth) = inner.descend(0);
    // SAFETY: the thread runs this function.
    let stack = unsafe { Stack::new(state, inner, depth) };
    let function = usize::try_from(number).ok().and_then(|number| inner.host.functions().get(number));
    let result = match function {
        // Its values are dropped, and cells are restored.
        Some(function) => catch_unwind(AssertUnwindSafe(|| function(&stack))),
        None => Ok(Ok(0)),
    };
    // All borrows have ended.
    inner.floor.set(0);
    let outcome = match result {
        Ok(Ok(count)) => match (inner.meter.is_over() && !stack.may_hold(0)).then(|| stop(&stack)).flatten() {
            Some(message) => raise(&stack, message),
            None => Some(count.clamp(0, stack.top())),
        },
        Ok(Err(Raised)) => {
            if stack.top() == 0 {
                stack.push_nil();
            }
            None
        }
        Err(payload) if payload.is::<Full>() => raise(&stack, STACK_OVERFLOW),
        Err(_) => raise(&stack, panicked(&stack)),
    };
    drop(scope);
    inner.room.set(room);
    inner.active.set(before);
    inner.meter.exempt(was);
    outcome
}

/// Puts an error onto a stack that may be full.
fn raise<H: Host>(stack: &Stack<'_, H>, message: &[u8]) -> Option<c_int> {
    stack.set_top(0);
    stack.inner().room.set(1);
    stack.push_bytes(message);
    None
}

fn stop<H: Host>(stack: &Stack<'_, H>) -> Option<&'static [u8]> {
    let host = stack.host();
    catch_unwind(AssertUnwindSafe(|| host.must_stop(stack.lines(), true))).unwrap_or_else(|_| Some(panicked(stack)))
}

fn panicked<H: Host>(stack: &Stack<'_, H>) -> &'static [u8] {
    let host = stack.host();
    catch_unwind(AssertUnwindSafe(|| host.panicked(stack.lines()))).unwrap_or(b"a panic")
}

/// Hook called by Lua every few instructions, to count them.
unsafe extern "C-unwind" fn look<H: Host>(state: ffi::L, _: *mut c_void) {
    // SAFETY: called by a running machine.
    if !unsafe { may_go_on::<H>(state) } {
        // SAFETY: the error value is on the top, and this frame owns nothing.
        unsafe { ffi::lua_error(state) };
    }
}

/// Counts the instructions since the last check; false if it put an error onto the stack.
///
/// # Safety
/// Called by a running machine with a host of type `H`. The values of the stack are those of a function of Lua or
/// C in its midst, so they are left alone.
unsafe fn may_go_on<H: Host>(state: ffi::L) -> bool {
    // SAFETY: as in `enter`.
    let inner = unsafe { &**ffi::extra_space::<Inner<H>>(state) };
    let was = inner.meter.exempt(true);
    let within = inner.meter.spend(INSTRUCTIONS_OF_A_LOOK.unsigned_abs().into());
    // SAFETY: the thread runs.
    let lines = unsafe { Lines::new(state) };
    let stopped = catch_unwind(AssertUnwindSafe(|| inner.host.must_stop(lines, within)));
    let message = stopped.unwrap_or(Some(b"a panic"));
    if let Some(message) = message {
        // SAFETY: one of the places that Lua has for the values of errors, if there is no other.
        unsafe {
            ffi::lua_checkstack(state, 1);
            ffi::lua_pushlstring(state, message.as_ptr().cast(), message.len());
        }
    }
    inner.meter.exempt(was);
    message.is_none()
}

const _: () = assert!(size_of::<*const c_void>() == size_of::<*const Inner<()>>());
