//! Stored procedures in SQL, Lua and Rust.
//!
//! ```text
//! CREATE PROCEDURE --compile--> Compiled --run--> Context: statements, calls, limits
//!                                  |                 ^
//!                                  +-- SQL: Prepared statements, one behind the other
//!                                  +-- Lua: a machine for each thread, db.query(...)
//!                                  +-- Rust: registered when the database is opened
//! ```
//!
//! A procedure sees rows, its arguments, and the time and seed that the log records for its transaction. In SQL
//! and Lua it has no other access to the outside, and in Rust it must not use any, because the log holds only the call
//! and replays it. `docs/procedures.md` describes the
//! languages.

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

/// Limits of a procedure's call, including the calls inside it; a statement outside of a procedure has no such limits.
/// They count work and not time, so that the same call ends in the same way on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows that it may read and write.
    pub rows_max: u64,
    /// Instructions of a call in Lua; calls in Lua inside it share them.
    pub instructions_max: u64,
    /// Bytes that a call in Lua may hold, including results of its statements.
    pub lua_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows_max: 10_000_000, instructions_max: 100_000_000, lua_bytes_max: 256 << 20 }
    }
}

impl Limits {
    /// No limits, for replay: committed transactions were within the limits of their time.
    pub const fn unlimited() -> Self {
        Self { rows_max: u64::MAX, instructions_max: u64::MAX, lua_bytes_max: usize::MAX }
    }
}
