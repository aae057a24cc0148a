//! Values between Lua and Rust.

#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::{ptr, slice};

use mlua_sys::lua54 as ffi;

use super::state::{Host, Reference, host_of};

/// The stack of a running function: its arguments from 1 on, then what it pushes.
///
/// Positions are from 1 at the bottom, or from -1 at the top. One where nothing is reads as nil.
#[derive(Debug)]
pub struct Stack<'s, H: Host> {
    state: *mut ffi::lua_State,
    host: PhantomData<&'s H>,
}

/// A value, with text borrowed from Lua. It is to be used while the value is on the stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'s> {
    /// `nil`, or nothing.
    Nil,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A string of any bytes.
    Text(&'s [u8]),
    /// A table.
    Table,
    /// A function.
    Function,
    /// A value of Rust.
    User,
    /// A coroutine.
    Thread,
}

impl Kind<'_> {
    /// What `type` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) | Self::Float(_) => "number",
            Self::Text(_) => "string",
            Self::Table => "table",
            Self::Function => "function",
            Self::User => "userdata",
            Self::Thread => "thread",
        }
    }
}

/// A type of Rust whose values scripts hold.
pub trait UserData: 'static {
    /// A number that no other such type has.
    const KIND: usize;
}

/// How such a value lies in Lua's memory. Scripts cannot make any.
#[repr(C)]
struct Block<T> {
    kind: usize,
    value: T,
}

/// The kind of a block whose value was dropped.
const DROPPED: usize = usize::MAX;

impl<'s, H: Host> Stack<'s, H> {
    /// The stack of a thread.
    ///
    /// # Safety
    ///
    /// The thread is of a machine with a host of type `H`, and lives for `'s`.
    pub(super) const unsafe fn new(state: *mut ffi::lua_State) -> Self {
        Self { state, host: PhantomData }
    }

    pub(super) const fn raw(&self) -> *mut ffi::lua_State {
        self.state
    }

    /// What the machine belongs to.
    pub fn host(&self) -> &'s H {
        // SAFETY: the state is of such a machine.
        unsafe { host_of(self.state) }
    }

    /// How many values there are.
    pub fn top(&self) -> c_int {
        // SAFETY: reads only.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Removes values, or adds nils, so that there are `top`.
    pub fn set_top(&self, top: c_int) {
        if top <= self.top() || self.has_space(top - self.top()) {
            // SAFETY: there is space.
            unsafe { ffi::lua_settop(self.state, top.max(0)) };
        }
    }

    /// Removes values from the top.
    pub fn pop(&self, count: c_int) {
        self.set_top(self.top() - count);
    }

    /// Makes space for values; false if that would be too many. There is always space for a few.
    pub fn has_space(&self, count: c_int) -> bool {
        // SAFETY: memory is not refused; too many are refused without an error.
        unsafe { ffi::lua_checkstack(self.state, count.saturating_add(8)) != 0 }
    }

    /// The value at a position.
    pub fn kind(&self, position: c_int) -> Kind<'_> {
        if position < 0 && -position > self.top() {
            return Kind::Nil;
        }
        // SAFETY: a position that is on the stack, or above it, which reads as none. Texts are only read
        // as texts, which converts nothing.
        unsafe {
            match ffi::lua_type(self.state, position) {
                ffi::LUA_TBOOLEAN => Kind::Boolean(ffi::lua_toboolean(self.state, position) != 0),
                ffi::LUA_TNUMBER if ffi::lua_isinteger(self.state, position) != 0 => {
                    Kind::Integer(ffi::lua_tointegerx(self.state, position, ptr::null_mut()))
                }
                ffi::LUA_TNUMBER => Kind::Float(ffi::lua_tonumberx(self.state, position, ptr::null_mut())),
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(self.state, position, &raw mut length);
                    Kind::Text(slice::from_raw_parts(bytes.cast(), length))
                }
                ffi::LUA_TTABLE => Kind::Table,
                ffi::LUA_TFUNCTION => Kind::Function,
                ffi::LUA_TUSERDATA | ffi::LUA_TLIGHTUSERDATA => Kind::User,
                ffi::LUA_TTHREAD => Kind::Thread,
                _ => Kind::Nil,
            }
        }
    }

    /// The integer that a number is, or that a string says.
    pub fn to_integer(&self, position: c_int) -> Option<i64> {
        let mut is_integer = 0;
        // SAFETY: converts nothing in place.
        let value = unsafe { ffi::lua_tointegerx(self.state, position, &raw mut is_integer) };
        (is_integer != 0).then_some(value)
    }

    /// Whether there is no value at a position, not even nil.
    pub fn is_none(&self, position: c_int) -> bool {
        position > self.top()
    }

    /// Pushes nil.
    pub fn push_nil(&self) {
        // SAFETY: pushes only; so below.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes a boolean.
    pub fn push_boolean(&self, value: bool) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushboolean(self.state, value.into()) };
    }

    /// Pushes an integer.
    pub fn push_integer(&self, value: i64) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushinteger(self.state, value) };
    }

    /// Pushes a float.
    pub fn push_float(&self, value: f64) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a string.
    pub fn push_bytes(&self, bytes: &[u8]) {
        // SAFETY: a slice and its length; memory is not refused.
        unsafe { ffi::lua_pushlstring(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a copy of a value.
    pub fn push_copy(&self, position: c_int) {
        match position {
            position if position > self.top() || -position > self.top() || position == 0 => self.push_nil(),
            // SAFETY: there is a value.
            position => unsafe { ffi::lua_pushvalue(self.state, position) },
        }
    }

    /// Turns the number on the top into a string, as Lua prints it.
    pub fn print_number(&self) {
        if matches!(self.kind(-1), Kind::Integer(_) | Kind::Float(_)) {
            // SAFETY: a number, and memory is not refused.
            unsafe { ffi::lua_tolstring(self.state, -1, ptr::null_mut()) };
        }
    }

    /// Moves the value on the top to a position, and what is there and above up by one.
    pub fn insert(&self, position: c_int) {
        // SAFETY: used with positions that are on the stack.
        unsafe { ffi::lua_rotate(self.state, position, 1) };
    }

    /// Pushes a table with space for so many values.
    pub fn push_table(&self, array: usize, records: usize) {
        let bounded = |count: usize| c_int::try_from(count.min(1 << 20)).unwrap_or(0);
        // SAFETY: sizes that Lua takes.
        unsafe { ffi::lua_createtable(self.state, bounded(array), bounded(records)) };
    }

    /// Replaces the key on the top by its value in a table, without metamethods.
    pub fn raw_get(&self, table: c_int) {
        if self.kind(table) == Kind::Table {
            // SAFETY: a table.
            unsafe { ffi::lua_rawget(self.state, table) };
        }
    }

    /// Pushes the value of an integer in a table.
    pub fn raw_get_index(&self, table: c_int, index: i64) {
        match self.kind(table) {
            // SAFETY: a table.
            Kind::Table => unsafe {
                ffi::lua_rawgeti(self.state, table, index);
            },
            _ => self.push_nil(),
        }
    }

    /// Pushes the value of a name in a table.
    pub fn raw_get_field(&self, table: c_int, name: &[u8]) {
        let table = self.absolute(table);
        self.push_bytes(name);
        self.raw_get(table);
    }

    /// Takes a key and a value from the top into a table; nothing if the key cannot be one.
    pub fn raw_set(&self, table: c_int) {
        let is_key = match self.kind(-2) {
            Kind::Nil => false,
            Kind::Float(value) => !value.is_nan(),
            _ => true,
        };
        if is_key && self.kind(table) == Kind::Table {
            // SAFETY: a table and a key; memory is not refused.
            unsafe { ffi::lua_rawset(self.state, table) };
        } else {
            self.pop(2);
        }
    }

    /// Takes a value from the top into a table.
    pub fn raw_set_index(&self, table: c_int, index: i64) {
        match self.kind(table) {
            // SAFETY: as above.
            Kind::Table => unsafe { ffi::lua_rawseti(self.state, table, index) },
            _ => self.pop(1),
        }
    }

    /// Takes a value from the top into a table, under a name.
    pub fn raw_set_field(&self, table: c_int, name: &[u8]) {
        let table = self.absolute(table);
        self.push_bytes(name);
        self.insert(-2);
        self.raw_set(table);
    }

    /// What `#` says of a table, without metamethods, or the bytes of a string.
    pub fn raw_len(&self, position: c_int) -> usize {
        // SAFETY: zero for what has no length.
        unsafe { ffi::lua_rawlen(self.state, position) }
    }

    /// Replaces the key on the top by the next one and its value; pops it and returns false at the end.
    /// The key is nil, or one that is in the table.
    pub fn next(&self, table: c_int) -> bool {
        // SAFETY: used while the table does not change.
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pushes the metatable of a value; false, and nothing pushed, if it has none.
    pub fn push_metatable(&self, position: c_int) -> bool {
        // SAFETY: reads only.
        unsafe { ffi::lua_getmetatable(self.state, position) != 0 }
    }

    /// Takes the table or the nil on the top for the metatable of a value.
    pub fn set_metatable(&self, position: c_int) {
        match self.kind(-1) {
            // SAFETY: what Lua takes.
            Kind::Table | Kind::Nil => unsafe {
                ffi::lua_setmetatable(self.state, position);
            },
            _ => self.pop(1),
        }
    }

    /// Pushes the metamethod of this name; false, and nothing pushed, if there is none.
    pub fn push_metamethod(&self, position: c_int, name: &[u8]) -> bool {
        if !self.push_metatable(position) {
            return false;
        }
        self.raw_get_field(-1, name);
        if self.kind(-1) == Kind::Nil {
            self.pop(2);
            return false;
        }
        self.insert(-2);
        self.pop(1);
        true
    }

    /// Pushes a value of Rust, with the metatable of its type.
    pub fn push_user<T: UserData>(&self, value: T, metatable: Reference) {
        const { assert!(align_of::<Block<T>>() <= 8) };
        // SAFETY: a block of this size and alignment is written before anything sees it.
        unsafe {
            let block = ffi::lua_newuserdatauv(self.state, size_of::<Block<T>>(), 0).cast::<Block<T>>();
            block.write(Block { kind: T::KIND, value });
        }
        self.push_kept(metatable);
        self.set_metatable(-2);
    }

    /// A value of Rust, to be used while it is on the stack; `None` if there is none of this type.
    pub fn user<T: UserData>(&self, position: c_int) -> Option<&T> {
        if position < 0 && -position > self.top() {
            return None;
        }
        // SAFETY: blocks are made by `push_user` only, begin with their kind, and are not changed.
        unsafe {
            if ffi::lua_type(self.state, position) != ffi::LUA_TUSERDATA {
                return None;
            }
            let block = ffi::lua_touserdata(self.state, position);
            if *block.cast::<usize>() == T::KIND { Some(&(*block.cast::<Block<T>>()).value) } else { None }
        }
    }

    /// Pushes what drops values of a type: the `__gc` of their metatable.
    pub fn push_finalizer<T: UserData>(&self) {
        // SAFETY: pushes only.
        unsafe { ffi::lua_pushcclosure(self.state, finalize::<T>, 0) };
    }

    fn absolute(&self, position: c_int) -> c_int {
        // SAFETY: computes only.
        unsafe { ffi::lua_absindex(self.state, position) }
    }
}

unsafe extern "C-unwind" fn finalize<T: UserData>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the collector calls this once for each block with the metatable of `T`.
    unsafe {
        let block = ffi::lua_touserdata(state, 1).cast::<Block<T>>();
        if !block.is_null() && (*block).kind == T::KIND {
            (*block).kind = DROPPED;
            ptr::drop_in_place(&raw mut (*block).value);
        }
    }
    0
}
