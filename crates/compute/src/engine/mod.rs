//! The analytic engine: statements in, rows out.
//!
//! ```text
//! AnalyticEngine   one for each database: base state of the planner, schemas, what queries share
//!   stream         a statement with its session's StatementOptions --> definitions, or a plan --> EngineStream
//! ```
//!
//! It keeps nothing of a session: settings, deadline and prepared statements are its caller's.

mod batches;
mod blame;
mod copy_file;
mod csv_copy;
#[expect(clippy::module_inception, reason = "the room is named after what is in it")]
mod engine;
mod execution;
mod files;
mod index_statements;
mod interruptible;
mod memory_pool;
mod options;
mod parameters;
mod planning;
mod public_schema;
mod reader_call;
mod restore;
mod result;
mod slices;
mod state;
mod statements;

pub use copy_file::CopyFile;
pub use engine::{AnalyticEngine, FunctionEntry};
pub use execution::EngineStream;
pub use options::{CurrentQuery, EngineOptions, StatementOptions};
pub use result::QueryResult;
pub use slices::value_bytes;
pub use state::{CATALOG, SCHEMA, SYSTEM, USER, default_config};
