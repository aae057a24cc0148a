//! Tests through the public API; each generates a small scale into a temporary folder.

mod batches;
mod data;
mod objects;
mod read;
