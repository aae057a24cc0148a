//! Sessions: SQL in, rows out, and everything that queries of one process share.

mod blame;
mod copy_target;
mod cpu_load;
mod csv_copy;
mod depth;
mod dialect;
mod engine;
mod index_statements;
mod interruptible;
mod memory_watch;
mod plan_size;
mod prepared;
mod public_schema;
mod query_context;
mod query_memory;
mod restore;
mod result;
mod row_comparisons;
mod setting_names;
mod sql_dialect;
mod sql_session;
mod timeout;
mod using_columns;

pub use depth::check_depth;
pub use engine::{Engine, QueryRecord};
pub use memory_watch::HeapGauges;
pub use prepared::{check_preparable, written_type};
pub use query_context::{QueryContext, QueryStats};
pub use result::QueryResult;
pub use sql_dialect::SqlDialect;
pub use sql_session::{QueryStream, Session, SessionOptions};
pub use timeout::StatementTimeout;
