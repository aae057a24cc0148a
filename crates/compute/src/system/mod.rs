//! The database about itself: schema `system`.
//!
//! ```text
//! SystemSchema -- name --> SystemTable = Columns<T> + what makes the rows, when a query is planned
//! ```

mod columns;
mod schema;
mod table;
mod tables;

pub use columns::Columns;
pub(crate) use schema::SystemSchema;
pub use table::SystemTable;
