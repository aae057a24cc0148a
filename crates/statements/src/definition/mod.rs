//! Schemas from SQL.

mod read;

pub(crate) use read::{bind_check, bind_default};
pub use read::{define, read_schema};

#[cfg(test)]
mod tests;
