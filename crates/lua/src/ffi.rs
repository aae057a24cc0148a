//! The part of Lua's interface that this crate uses, from `lua-5.4.9`.

#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A thread of Lua.
#[repr(C)]
pub struct LuaState {
    _opaque: [u8; 0],
}

pub type L = *mut LuaState;
pub type Function = unsafe extern "C-unwind" fn(L) -> c_int;
pub type Hook = unsafe extern "C-unwind" fn(L, *mut c_void);
pub type Allocate = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize) -> *mut c_void;

pub const OK: c_int = 0;
pub const MULTIPLE_RESULTS: c_int = -1;
/// Values that a function may push without asking.
pub const MIN_STACK: c_int = 20;
const MAX_STACK: c_int = 1_000_000;
pub const REGISTRY: c_int = -MAX_STACK - 1000;
pub const MASK_COUNT: c_int = 1 << 3;
pub const GC_COLLECT: c_int = 2;
pub const GC_INCREMENTAL: c_int = 11;

pub const T_BOOLEAN: c_int = 1;
pub const T_LIGHT_USERDATA: c_int = 2;
pub const T_NUMBER: c_int = 3;
pub const T_STRING: c_int = 4;
pub const T_TABLE: c_int = 5;
pub const T_FUNCTION: c_int = 6;
pub const T_USERDATA: c_int = 7;
pub const T_THREAD: c_int = 8;

unsafe extern "C-unwind" {
    pub fn lua_newstate(allocate: Allocate, data: *mut c_void) -> L;
    pub fn lua_close(state: L);
    pub fn lua_gc(state: L, what: c_int, ...) -> c_int;
    pub fn lua_sethook(state: L, hook: Option<Hook>, mask: c_int, count: c_int);
    pub fn lua_error(state: L) -> !;

    pub fn lua_gettop(state: L) -> c_int;
    pub fn lua_settop(state: L, top: c_int);
    pub fn lua_checkstack(state: L, count: c_int) -> c_int;
    pub fn lua_pushvalue(state: L, index: c_int);
    pub fn lua_rotate(state: L, index: c_int, count: c_int);

    pub fn lua_type(state: L, index: c_int) -> c_int;
    pub fn lua_iscfunction(state: L, index: c_int) -> c_int;
    pub fn lua_tointegerx(state: L, index: c_int, is_integer: *mut c_int) -> i64;
    pub fn lua_tolstring(state: L, index: c_int, length: *mut usize) -> *const c_char;
    pub fn lua_rawlen(state: L, index: c_int) -> u64;

    pub fn lua_pushnil(state: L);
    pub fn lua_pushboolean(state: L, value: c_int);
    pub fn lua_pushinteger(state: L, value: i64);
    pub fn lua_pushnumber(state: L, value: f64);
    pub fn lua_pushlstring(state: L, bytes: *const c_char, length: usize) -> *const c_char;
    pub fn lua_pushcclosure(state: L, function: Function, upvalues: c_int);

    pub fn lua_createtable(state: L, array: c_int, records: c_int);
    pub fn lua_rawget(state: L, table: c_int) -> c_int;
    pub fn lua_rawgeti(state: L, table: c_int, index: i64) -> c_int;
    pub fn lua_rawset(state: L, table: c_int);
    pub fn lua_rawseti(state: L, table: c_int, index: i64);
    pub fn lua_next(state: L, table: c_int) -> c_int;
    pub fn lua_getmetatable(state: L, index: c_int) -> c_int;
    pub fn lua_setmetatable(state: L, index: c_int) -> c_int;
    pub fn lua_setupvalue(state: L, function: c_int, number: c_int) -> *const c_char;

    pub fn lua_pcallk(
        state: L,
        arguments: c_int,
        results: c_int,
        handler: c_int,
        context: isize,
        continuation: Option<Function>,
    ) -> c_int;
    pub fn luaL_loadbufferx(
        state: L,
        source: *const c_char,
        length: usize,
        name: *const c_char,
        mode: *const c_char,
    ) -> c_int;
    pub fn luaL_ref(state: L, table: c_int) -> c_int;
    pub fn luaL_unref(state: L, table: c_int, reference: c_int);

    pub fn luaopen_base(state: L) -> c_int;
    pub fn luaopen_coroutine(state: L) -> c_int;
    pub fn luaopen_math(state: L) -> c_int;
    pub fn luaopen_string(state: L) -> c_int;
    pub fn luaopen_table(state: L) -> c_int;

    pub fn thermocline_take_steps() -> usize;
    pub fn thermocline_line(state: L, source: *const c_char) -> c_int;
    pub fn thermocline_read(state: L, position: c_int, read: *mut Value) -> c_int;
    pub fn thermocline_type(state: L, position: c_int) -> c_int;
    pub fn thermocline_get_index(state: L, position: c_int, number: i64);
    pub fn thermocline_get_named(state: L, names: c_int, position: c_int, number: i64, read: *mut Value) -> c_int;
    pub fn thermocline_set_field(state: L, position: c_int, name: *const c_char, length: usize);
    pub fn thermocline_new_user(state: L, size: usize, metatable: c_int) -> *mut c_void;
    pub fn thermocline_to_user(state: L, position: c_int, index: *mut c_int) -> *mut c_void;
}

/// A value read from the stack; its type determines which fields are set.
#[repr(C)]
pub struct Value {
    /// Its index from the bottom.
    pub index: c_int,
    /// Whether a number is an integer.
    pub is_integer: c_int,
    pub integer: i64,
    pub number: f64,
    pub bytes: *const c_char,
    pub length: usize,
}

impl Value {
    /// The state before reading.
    pub const EMPTY: Self =
        Self { index: 0, is_integer: 0, integer: 0, number: 0.0, bytes: std::ptr::null(), length: 0 };
}

/// Index of a closure's own value.
pub const fn upvalue(number: c_int) -> c_int {
    REGISTRY - number
}

/// Place where a thread keeps a pointer for its user.
///
/// # Safety
/// The thread is alive.
pub unsafe fn extra_space<T>(state: L) -> *mut *const T {
    // SAFETY: Lua has this many bytes before each thread.
    unsafe { state.cast::<u8>().sub(size_of::<*const ()>()).cast() }
}

const _: () = assert!(size_of::<c_int>() == 4 && size_of::<c_uint>() == 4);
