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
//! - Lua is compiled with a fixed seed for hashes, no weak tables, and its own way to print what is no
//!   number (`vm/deterministic.h`); scripts have no finalizers, so that when the collector runs is not to be
//!   seen.
//! - `pairs` and `next` go by order of keys, `table.sort` is a stable merge sort, nothing prints an
//!   address.
//! - There is no file, no clock, no other code to load, and nothing that stays from one call to the next.
//! - What an error of the database or a limit ended stays ended: `pcall` raises it again, and the
//!   transaction fails whatever the script returns.
//!
//! All of the library that could run long is counted: strings, patterns and tables are of this crate and
//! spend the same budget as instructions.

mod library;
mod loaded;
mod machine;
mod procedure;
mod vm;

pub(super) use procedure::LuaProcedure;
