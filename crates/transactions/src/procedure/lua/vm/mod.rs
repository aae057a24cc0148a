//! Lua's machine behind functions that are safe to call.
//!
//! The only folder with `unsafe` code: Lua is a library in C. What its callers rely on:
//!
//! 1. Lua reports an error by jumping over the frames above, which runs no destructor. So nothing that is
//!    called from Rust raises one: memory is never refused while Rust runs ([`Meter::exempt`]), functions
//!    of Lua's that raise for other reasons are not called, and scripts are called protected. The one
//!    place that raises is [`state::enter`]'s caller, which owns nothing.
//! 2. A machine is used by one thread, and everything in it that a callback changes is a cell.

mod loan;
mod meter;
mod stack;
mod state;

pub use loan::Loan;
pub use meter::Meter;
pub use stack::{Kind, Stack, UserData};
pub use state::{Active, Function, Host, Library, Raised, Reference, State, c_name};
