//! Lua 5.4 for scripts that must be repeatable and must end.
//!
//! This crate is the machine: Lua's own code, changed where it would depend on addresses, clocks, locales or the moment
//! of garbage collection, and where it would run without being counted (`lua-5.4.9/thermocline.h` says how to find each
//! change); and a safe interface to it.
//!
//! ```text
//!   State --enter--> Stack --call--> a script --> a Function of the Host --> Stack ...
//!     |                                |
//!   Meter: bytes and instructions <----+  must_stop: asked every 256 instructions
//! ```
//!
//! A script that calls a function of Rust:
//!
//! ```
//! use std::rc::Rc;
//! use thermocline_lua::{Function, Host, Kind, Lines, Meter, Raised, Stack, State, c_name};
//!
//! struct Doubler;
//!
//! fn double(stack: &Stack<'_, Doubler>) -> Result<i32, Raised> {
//!     match stack.kind(1) {
//!         Kind::Integer(value) => stack.push_integer(value.wrapping_mul(2)),
//!         _ => {
//!             stack.push_bytes(b"not an integer");
//!             return Err(Raised);
//!         }
//!     }
//!     Ok(1)
//! }
//!
//! impl Host for Doubler {
//!     fn functions(&self) -> &[Function<Self>] {
//!         &[double]
//!     }
//!     fn must_stop(&self, _: Lines<'_>, within_budget: bool) -> Option<&'static [u8]> {
//!         (!within_budget).then_some(b"too many instructions")
//!     }
//!     fn panicked(&self, _: Lines<'_>) -> &'static [u8] {
//!         b"a panic"
//!     }
//! }
//!
//! let meter = Rc::new(Meter::default());
//! let lua = State::new(Doubler, Rc::clone(&meter));
//! let run = |source: &str| {
//!     lua.enter(|stack| {
//!         let chunk = stack.load(source, &c_name("=example")).map_err(|Raised| format!("{:?}", stack.kind(-1)))?;
//!         // Globals of its own, as if nothing had run before.
//!         stack.push_table(0, 1);
//!         stack.push_function(0);
//!         stack.raw_set_field(-2, b"double");
//!         stack.push_chunk(&chunk);
//!         meter.begin(10_000, 1 << 20);
//!         stack.call(0, 1, 0).map_err(|Raised| match stack.kind(-1) {
//!             Kind::Text(text) => String::from_utf8_lossy(text).into_owned(),
//!             other => other.name().to_owned(),
//!         })?;
//!         Ok::<_, String>(format!("{:?}", stack.kind(-1)))
//!     })
//! };
//! assert_eq!(run("return double(21)"), Ok("Integer(42)".to_owned()));
//! assert_eq!(run("x = 1 return double('x')"), Err("not an integer".to_owned()));
//! assert_eq!(run("return x"), Ok("Nil".to_owned()));
//! assert_eq!(run("while true do end"), Err("too many instructions".to_owned()));
//! ```
//!
//! Left out: files, clocks, loading of code, `print`, finalizers and weak tables of scripts; any library beyond the
//! deterministic part of Lua's own; anything specific to databases.
//!
//! # Why this is safe
//!
//! 1. Lua reports an error by jumping over the frames above, which runs no destructor. So no function called from Rust
//!    raises one: memory is never refused while Rust runs, functions of Lua's that raise for other reasons are not
//!    called, and scripts are called protected. The two places that raise, below `enter_or_raise` and `look` in
//!    `state.rs`, own nothing.
//! 2. A push makes space first; a function that wants more values than a stack can hold ends in an error of Lua.
//! 3. What is read as a borrow, text and values of Rust, stays on the stack for as long: [`Stack`] panics where
//!    it would be removed.
//! 4. Values of Rust lie in blocks with their type, and are dropped when Lua frees the block.
//! 5. A machine is used by one thread, and everything in it that a callback changes is a cell.

mod blocks;
mod ffi;
mod kind;
mod lines;
mod loan;
mod meter;
mod stack;
mod state;
mod user;

pub use kind::Kind;
pub use lines::Lines;
pub use loan::{Lent, Loan};
pub use meter::{Budget, Meter};
pub use stack::Stack;
pub use state::{Chunk, Function, Host, Library, Raised, Reference, State, c_name};
