//! Indexes of external tables: what is defined here, and which index objects storage nodes have.

mod definition;
mod indexes;
mod statement;

pub use definition::IndexDefinition;
pub(crate) use indexes::{IndexRow, Indexes, build, remove_objects};
pub(crate) use statement::IndexStatement;
