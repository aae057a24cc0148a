//! Procedures in Lua: their features and their limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod bench;
mod fuzz;
mod hostile;
mod kinds;
mod language;
mod sealed;
