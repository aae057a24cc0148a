//! Exchange of values between Lua and Rust.

#![expect(unsafe_code, reason = "the interface of a library in C")]

use std::ffi::c_int;
use std::panic::resume_unwind;
use std::{fmt, ptr, slice};

use crate::ffi;
use crate::kind::Kind;
use crate::lines::Lines;
use crate::state::{Host, Inner, Raised};
use crate::user;

/// Number of values for which space is made at once.
const SPACE: c_int = 32;

/// Panic payload of a function of Rust that wants more values than a stack can hold; Lua sees an error.
pub(crate) struct Full;

/// The stack of a running function: its arguments from 1 on, then the values that it pushes.
///
/// Positions count from 1 at the bottom, or from -1 at the top. An empty position reads as nil.
///
/// Text and values of Rust read here are borrowed from Lua, so everything below them stays in place: removing values at
/// or below the highest borrowed one is a panic. [`Stack::scoped`] is for loops.
pub struct Stack<'s, H: Host> {
    state: ffi::L,
    inner: &'s Inner<H>,
    /// Depth of its function or scope among those running. Only the innermost borrows from Lua.
    depth: u32,
}

impl<H: Host> fmt::Debug for Stack<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("top", &self.top()).field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl<'s, H: Host> Stack<'s, H> {
    /// The stack of a thread.
    ///
    /// # Safety
    /// The thread is of the machine of `inner`, and lives for `'s`.
    pub(crate) const unsafe fn new(state: ffi::L, inner: &'s Inner<H>, depth: u32) -> Self {
        Self { state, inner, depth }
    }

    pub(crate) const fn raw(&self) -> ffi::L {
        self.state
    }

    pub(crate) const fn inner(&self) -> &'s Inner<H> {
        self.inner
    }

    /// Owner of the machine.
    pub const fn host(&self) -> &'s H {
        &self.inner.host
    }

    /// The running functions.
    pub fn lines(&self) -> Lines<'_> {
        // SAFETY: the thread lives as long as the borrow.
        unsafe { Lines::new(self.state) }
    }

    /// Number of values.
    pub fn top(&self) -> c_int {
        // SAFETY: reads only.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Removes values, or adds nils, so that there are `top`.
    pub fn set_top(&self, top: c_int) {
        let (now, top) = (self.top(), top.max(0));
        if top <= now {
            self.let_go(now - top);
        } else if !self.has_space(top - now) {
            resume_unwind(Box::new(Full));
        }
        // SAFETY: there is space, for some more as well.
        unsafe { ffi::lua_settop(self.state, top) };
        if top > now {
            self.inner.room.set(SPACE);
        }
    }

    /// Removes values from the top.
    pub fn pop(&self, count: c_int) {
        self.set_top(self.top() - count.max(0));
    }

    /// Whether this many more bytes may be held, if necessary after collecting garbage.
    pub fn may_hold(&self, bytes: usize) -> bool {
        let meter = &self.inner.meter;
        if !meter.allows(bytes) {
            meter.note_collection();
            // SAFETY: what is freed are values of Rust and memory that nothing on a stack leads to.
            unsafe { ffi::lua_gc(self.state, ffi::GC_COLLECT) };
        }
        meter.allows(bytes)
    }

    /// Makes space for values; false if there would be too many. A few fit without asking.
    pub fn has_space(&self, count: c_int) -> bool {
        let count = count.max(0).saturating_add(SPACE);
        // SAFETY: memory is not refused; too many are refused without an error.
        let made = unsafe { ffi::lua_checkstack(self.state, count) != 0 };
        if made {
            self.inner.room.set(count);
        }
        made
    }

    /// Runs `run`, and removes the values that it pushed, except an error. Borrows end with it.
    pub fn scoped<T>(&self, run: impl FnOnce(&Stack<'_, H>) -> Result<T, Raised>) -> Result<T, Raised> {
        let top = self.top();
        let (_scope, depth) = self.inner.descend(self.inner.floor.get());
        // SAFETY: the thread is alive while `self` is borrowed.
        let result = run(&unsafe { Stack::new(self.state, self.inner, depth) });
        let (now, kept) = (self.top(), c_int::from(result.is_err()));
        if now > top + kept {
            // SAFETY: what is above was borrowed by the scope alone.
            unsafe {
                ffi::lua_rotate(self.state, top + 1, kept);
                ffi::lua_settop(self.state, top + kept);
            }
        }
        result
    }

    /// The value at a position.
    #[inline]
    pub fn kind(&self, position: c_int) -> Kind<'_> {
        let mut value = ffi::Value::EMPTY;
        // SAFETY: reads only.
        let kind = unsafe { ffi::thermocline_read(self.state, position, &raw mut value) };
        // SAFETY: what is there.
        unsafe { self.kind_of(kind, &value) }
    }

    /// # Safety
    /// The value has just been read, and is of this type.
    #[inline(always)]
    unsafe fn kind_of(&self, kind: c_int, value: &ffi::Value) -> Kind<'_> {
        match kind {
            ffi::T_BOOLEAN => Kind::Boolean(value.integer != 0),
            ffi::T_NUMBER if value.is_integer != 0 => Kind::Integer(value.integer),
            ffi::T_NUMBER => Kind::Float(value.number),
            ffi::T_STRING => {
                self.hold(value.index);
                // SAFETY: the bytes of a string, which stays there while they are borrowed.
                Kind::Text(unsafe { slice::from_raw_parts(value.bytes.cast(), value.length) })
            }
            ffi::T_TABLE => Kind::Table,
            ffi::T_FUNCTION => Kind::Function,
            ffi::T_USERDATA | ffi::T_LIGHT_USERDATA => Kind::User,
            ffi::T_THREAD => Kind::Thread,
            _ => Kind::Nil,
        }
    }

    /// The float at a position; `None` for everything else.
    pub fn float(&self, position: c_int) -> Option<f64> {
        let mut value = ffi::Value::EMPTY;
        // SAFETY: reads only.
        let kind = unsafe { ffi::thermocline_read(self.state, position, &raw mut value) };
        (kind == ffi::T_NUMBER && value.is_integer == 0).then_some(value.number)
    }

    /// Whether the value at a position is nil, or there is none.
    pub fn is_nil(&self, position: c_int) -> bool {
        self.raw_type(position) <= 0
    }

    /// Whether the value at a position is a table.
    pub fn is_table(&self, position: c_int) -> bool {
        self.raw_type(position) == ffi::T_TABLE
    }

    /// Whether there is no value at a position, not even nil.
    pub fn is_none(&self, position: c_int) -> bool {
        self.index(position).is_none()
    }

    /// A value of Rust; `None` if there is none of this type.
    #[inline]
    pub fn user<T: 'static>(&self, position: c_int) -> Option<&T> {
        // SAFETY: what is at a position of a running function, and stays there while it is borrowed.
        let (value, index) = unsafe { user::get(self.state, position) }?;
        self.hold(index);
        Some(value)
    }

    /// Whether the value at a position is a value of Rust of this type.
    pub fn is_user<T: 'static>(&self, position: c_int) -> bool {
        // SAFETY: as above, and not kept.
        unsafe { user::get::<T>(self.state, position) }.is_some()
    }

    /// Pushes nil.
    pub fn push_nil(&self) {
        self.make_room();
        // SAFETY: there is space; so below.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes a boolean.
    pub fn push_boolean(&self, value: bool) {
        self.make_room();
        // SAFETY: as above.
        unsafe { ffi::lua_pushboolean(self.state, value.into()) };
    }

    /// Pushes an integer.
    pub fn push_integer(&self, value: i64) {
        self.make_room();
        // SAFETY: as above.
        unsafe { ffi::lua_pushinteger(self.state, value) };
    }

    /// Pushes a float.
    pub fn push_float(&self, value: f64) {
        self.make_room();
        // SAFETY: as above.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a string.
    pub fn push_bytes(&self, bytes: &[u8]) {
        self.make_room();
        // SAFETY: a slice and its length; memory is not refused.
        unsafe { ffi::lua_pushlstring(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a copy of a value.
    pub fn push_copy(&self, position: c_int) {
        match self.index(position) {
            None => self.push_nil(),
            Some(index) => {
                self.make_room();
                // SAFETY: there is a value, and space.
                unsafe { ffi::lua_pushvalue(self.state, index) };
            }
        }
    }

    /// Pushes a value of Rust, with the metatable of its type.
    pub fn push_user<T: 'static>(&self, value: T, metatable: &super::Reference) {
        self.make_room();
        // SAFETY: there is space, and memory is not refused.
        unsafe { user::push(self.state, value, metatable) };
    }

    /// Turns the number on the top into a string, as Lua prints it.
    pub fn print_number(&self) {
        if self.raw_type(-1) == ffi::T_NUMBER {
            self.let_go(1);
            // SAFETY: a number, and memory is not refused.
            unsafe { ffi::lua_tolstring(self.state, -1, ptr::null_mut()) };
        }
    }

    /// Moves the top value to a position, and the values from there on up by one.
    pub fn insert(&self, position: c_int) {
        if let Some(index) = self.index(position) {
            self.let_go(self.top() - index + 1);
            // SAFETY: a value that is not borrowed.
            unsafe { ffi::lua_rotate(self.state, index, 1) };
        }
    }

    /// Pushes a table with space for this many values.
    pub fn push_table(&self, array: usize, records: usize) {
        let bounded = |count: usize| c_int::try_from(count.min(1 << 20)).unwrap_or(0);
        self.make_room();
        // SAFETY: sizes that Lua takes, and space.
        unsafe { ffi::lua_createtable(self.state, bounded(array), bounded(records)) };
    }

    /// Replaces the key on the top by its value in a table, without metamethods.
    pub fn raw_get(&self, table: c_int) {
        match self.index(table).filter(|_| self.is_table(table)) {
            Some(table) => {
                self.let_go(1);
                // SAFETY: a table, and a key above it.
                unsafe { ffi::lua_rawget(self.state, table) };
            }
            None => {
                self.pop(1);
                self.push_nil();
            }
        }
    }

    /// Pushes the value of an integer in a table.
    #[inline]
    pub fn raw_get_index(&self, table: c_int, index: i64) {
        self.make_room();
        // SAFETY: there is space.
        unsafe { ffi::thermocline_get_index(self.state, table, index) };
    }

    /// Pushes a table's value for the name with this number in a table of names or, if that is nil, for the number
    /// itself; returns the value.
    #[inline]
    pub fn raw_get_named(&self, names: c_int, table: c_int, number: i64) -> Kind<'_> {
        self.make_room();
        let mut value = ffi::Value::EMPTY;
        // SAFETY: there is space.
        let kind = unsafe { ffi::thermocline_get_named(self.state, names, table, number, &raw mut value) };
        // SAFETY: what is on the top now.
        unsafe { self.kind_of(kind, &value) }
    }

    /// Pushes the value of a name in a table.
    pub fn raw_get_field(&self, table: c_int, name: &[u8]) {
        let table = self.index(table).unwrap_or(0);
        self.push_bytes(name);
        self.raw_get(table);
    }

    /// Pops a key and a value into a table; drops them if the key cannot be one, or there is no table.
    pub fn raw_set(&self, table: c_int) {
        let is_key = match self.raw_type(-2) {
            ffi::T_NUMBER => !matches!(self.kind(-2), Kind::Float(value) if value.is_nan()),
            kind => kind > 0,
        };
        match self.index(table) {
            Some(index) if is_key && self.is_table(table) && index <= self.top() - 2 => {
                self.let_go(2);
                // SAFETY: a table and a key; memory is not refused.
                unsafe { ffi::lua_rawset(self.state, index) };
            }
            _ => self.pop(2),
        }
    }

    /// Pops a value into a table.
    pub fn raw_set_index(&self, table: c_int, index: i64) {
        match self.index(table) {
            Some(table) if self.is_table(table) && table < self.top() => {
                self.let_go(1);
                // SAFETY: as above.
                unsafe { ffi::lua_rawseti(self.state, table, index) };
            }
            _ => self.pop(1),
        }
    }

    /// Pops a value into a table, under a name.
    pub fn raw_set_field(&self, table: c_int, name: &[u8]) {
        self.let_go(1);
        self.make_room();
        // SAFETY: a value on the top, with space for the name; memory is not refused.
        unsafe { ffi::thermocline_set_field(self.state, table, name.as_ptr().cast(), name.len()) };
        self.inner.room.set(self.inner.room.get() + 1);
    }

    /// Length of a table as by `#`, without metamethods, or the bytes of a string.
    pub fn raw_len(&self, position: c_int) -> usize {
        // SAFETY: zero for what has no length.
        self.index(position).map_or(0, |index| unsafe { ffi::lua_rawlen(self.state, index) } as usize)
    }

    /// Replaces the key on the top by the next one and its value; pops it and returns false at the end. The key is nil,
    /// or one of the table's. The order is that of Lua's memory.
    pub fn next(&self, table: c_int) -> bool {
        match self.index(table) {
            Some(index) if self.is_table(table) && index < self.top() => {
                self.let_go(1);
                self.make_room();
                // SAFETY: a table and a key, with space for the value. A key that is in no table is its end.
                unsafe { ffi::lua_next(self.state, index) != 0 }
            }
            _ => {
                self.pop(1);
                false
            }
        }
    }

    /// Pushes the metatable of a value; false, and nothing pushed, if it has none.
    pub fn push_metatable(&self, position: c_int) -> bool {
        self.make_room();
        // SAFETY: a value, and space.
        self.index(position).is_some_and(|index| unsafe { ffi::lua_getmetatable(self.state, index) } != 0)
    }

    /// Pops a table or nil and sets it as the metatable of a value.
    pub fn set_metatable(&self, position: c_int) {
        match (self.index(position), self.raw_type(-1)) {
            (Some(index), 0 | ffi::T_TABLE) if index < self.top() => {
                self.let_go(1);
                // SAFETY: what Lua takes.
                unsafe { ffi::lua_setmetatable(self.state, index) };
            }
            _ => self.pop(1),
        }
    }

    /// Pushes the metamethod of this name; false, and nothing pushed, if there is none.
    pub fn push_metamethod(&self, position: c_int, name: &[u8]) -> bool {
        if !self.push_metatable(position) {
            return false;
        }
        self.raw_get_field(-1, name);
        if self.is_nil(-1) {
            self.pop(2);
            return false;
        }
        self.insert(-2);
        self.pop(1);
        true
    }

    /// The index of a value from the bottom; `None` where there is none.
    fn index(&self, position: c_int) -> Option<c_int> {
        let top = self.top();
        match position {
            1.. => (position <= top).then_some(position),
            _ => (position < 0 && position >= -top).then_some(top + 1 + position),
        }
    }

    /// The type of a value as Lua numbers it; -1 for none.
    fn raw_type(&self, position: c_int) -> c_int {
        // SAFETY: reads only.
        unsafe { ffi::thermocline_type(self.state, position) }
    }

    /// Makes sure that there is space for one more value.
    #[inline]
    pub(crate) fn make_room(&self) {
        let room = self.inner.room.get();
        if room > 0 {
            self.inner.room.set(room - 1);
        } else if self.has_space(0) {
            self.inner.room.set(SPACE - 1);
        } else {
            resume_unwind(Box::new(Full));
        }
    }

    /// Makes space for a function of Lua's that pushes a few values on its way.
    pub(crate) fn make_space(&self) {
        if !self.has_space(0) {
            resume_unwind(Box::new(Full));
        }
    }

    /// Marks the value at an index as borrowed.
    #[inline]
    fn hold(&self, index: c_int) {
        assert!(self.depth == self.inner.depth.get(), "only the innermost scope borrows from Lua");
        if index > self.inner.floor.get() {
            self.inner.floor.set(index);
        }
    }

    /// Makes sure that this many values on the top exist and are not borrowed.
    pub(crate) fn let_go(&self, count: c_int) {
        let left = self.top() - count;
        assert!(left >= self.inner.floor.get() && left >= 0, "a value that is borrowed, or that is not there");
    }
}
