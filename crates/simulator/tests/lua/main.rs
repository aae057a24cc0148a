//! Procedures in Lua: what they can do, and what they cannot.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod bench;
mod fuzz;
mod hostile;
mod kinds;
mod language;
mod sealed;
