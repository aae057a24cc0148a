//! A storage node through its own interface and over a socket.
//!
//! `hostile` is an executable of its own: it measures what the process takes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod arbitration;
mod index;
mod listing;
mod paused_reader;
mod support;
