//! Stored procedures: in SQL, in Lua, and in Rust.
//!
//! ```text
//! CREATE PROCEDURE --compile--> Compiled --run--> Context: statements, calls, limits
//!                                  |                 ^
//!                                  +-- SQL: Prepared statements, one behind the other
//!                                  +-- Lua: a machine for each thread, db.query(...)
//!                                  +-- Rust: registered when the database is opened
//! ```
//!
//! A procedure sees rows, its arguments, and what the log records of its transaction: a time and a seed.
//! It has no other way to the world, because the log holds the call and replays it.
//! `docs/procedures.md` describes what procedures are written in.

mod compiled;
mod context;
mod definitions;
mod lua;
mod registration;
mod sql;

pub use compiled::Compiled;
pub use context::{CALLS_DEEP_MAX, Context};
pub use definitions::Definitions;
pub use registration::{Procedure, Registration};

/// What a procedure's transaction may do; a statement outside of one has no such limits. Counted, and not timed, so that
/// the same call ends in the same way wherever it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows that it may read and write.
    pub rows_max: u64,
    /// Instructions of Lua.
    pub instructions_max: u64,
    /// Bytes that a call in Lua may hold, with results of its statements.
    pub lua_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows_max: 10_000_000, instructions_max: 100_000_000, lua_bytes_max: 256 << 20 }
    }
}

impl Limits {
    /// For replay: what was committed was within the limits of then.
    pub const fn unlimited() -> Self {
        Self { rows_max: u64::MAX, instructions_max: u64::MAX, lua_bytes_max: usize::MAX }
    }
}
