//! Tests of the product from outside: its library, its program, its servers.
//!
//! One executable, because each costs a link of the whole engine and a third of a gigabyte of disk. `random` and
//! `semantics` are separate: they run for minutes and have settings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod adaptive;
mod auto;
mod awkward_types;
mod bad_input;
mod bitmap;
mod cache_benches;
mod cached;
mod calibrate;
mod cli;
mod database_files;
mod definitions;
mod encoded_scan;
mod faults;
mod file_readers;
mod files;
mod first_hour;
mod fourth_storage;
mod habits;
mod hostile_clients;
mod house;
mod indexes;
mod interrupts;
mod many_partitions;
mod memory;
mod moments;
mod nesting;
mod representations;
mod resident;
mod rows;
mod screens;
mod scripts;
mod sessions;
mod shell;
mod soak;
mod ssb;
mod ssb_sweep;
mod statements;
mod text_objects;
mod tpch;
mod transactional_benches;
