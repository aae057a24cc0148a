//! Databases, sessions, and the dispatch of statements to an engine.

mod copy;
mod create_table_as;
mod database;
mod describe;
mod dispatch;
mod explain;
mod insert;
mod listing;
mod pattern;
mod prepared;
mod prepared_statements;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod session;
mod settings;
mod stream;
mod streams;
mod write_query;

pub use database::{Database, OpenOptions};
pub use listing::{Description, Listing};
pub use session::Session;
pub use stream::QueryStream;
pub use streams::Streams;
