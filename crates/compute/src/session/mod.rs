//! Sessions: SQL in, rows out, and everything that queries of one process share.

mod engine;
mod query_context;
mod result;
mod session;
mod system;

pub use engine::{Engine, QueryRecord};
pub use query_context::{QueryContext, QueryStats};
pub use result::QueryResult;
pub use session::{QueryStream, Session, SessionOptions};
