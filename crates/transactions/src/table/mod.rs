//! Rows of one table in one partition, and its indexes.

mod arena;
mod budget;
mod index;
mod locator;
mod slab;
mod tuple_ids;
