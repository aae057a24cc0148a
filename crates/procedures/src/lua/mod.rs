//! `LANGUAGE lua`: Lua 5.4 without a way to the world.
//!
//! ```text
//! LuaProcedure --call--> Machine (one for each thread) --> Lua --db.query(...)--> library --> Context
//!   its source             compiled functions, planned statements                   |
//!                          Meter: instructions, memory <----------------------------+
//! ```
//!
//! A partition has one thread and so one machine, which keeps the compiled functions and the planned
//! statements of its procedures. What a script sees follows from its arguments, the rows, and the time and
//! the seed of its transaction:
//!
//! - Lua itself is changed where it would depend on anything else (crate `thermocline-lua`); scripts have no
//!   finalizers and weak tables, so that when the collector runs is not to be seen.
//! - `pairs` and `next` go by order of keys, `table.sort` is a stable merge sort, nothing prints an
//!   address ([`library`] lists what is not Lua's own, and why).
//! - There is no file, no clock, no other code to load. Each call has globals of its own, and nothing stays from one
//!   call to the next but what is compiled and planned.
//! - What an error of the database or a limit ended stays ended: `pcall` raises it again, and the
//!   transaction fails whatever the script returns.
//!
//! All of the library that could run long is counted with the budget of instructions.

mod budgeted;
mod library;
mod loaded;
mod machine;
mod procedure;

pub(super) use procedure::LuaProcedure;
