//! `LANGUAGE lua`: Lua 5.4 without access to the outside.
//!
//! ```text
//! LuaProcedure --call--> Machine (one for each thread) --> Lua --db.query(...)--> library --> Context
//!   its source             compiled functions, planned statements                   |
//!                          Meter: instructions, memory <----------------------------+
//! ```
//!
//! A partition has one thread and so one machine, which keeps the compiled functions and the planned statements of its
//! procedures. A script sees only what follows from its arguments, the rows, and the time and seed of its transaction:
//!
//! - Lua itself is changed where it would depend on anything else (crate `thermocline-lua`); scripts have no finalizers
//!   or weak tables, so that they cannot see when the collector runs.
//! - `pairs` and `next` go by order of keys, `table.sort` is a stable merge sort, nothing prints an address
//!   ([`library`] lists the replaced functions, and why).
//! - There is no access to files, clocks or other code. Each call has globals of its own; only compiled functions and
//!   planned statements survive a call.
//! - An error of the database or a limit ends the transaction for good: `pcall` raises it again, and the transaction
//!   fails whatever the script returns.
//!
//! All library functions that could run long are charged to the instruction budget.

mod budgeted;
mod library;
mod loaded;
mod machine;
mod procedure;

pub(super) use procedure::LuaProcedure;
