//! Schemas from SQL.

mod alter;
mod elements;
mod read;

pub(crate) use elements::{bind_check, bind_default};
pub use read::{define, read_schema};

#[cfg(test)]
mod tests;
