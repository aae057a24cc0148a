//! Row tables as DataFusion tables.
//!
//! ```text
//!  plan: RowTable::scan -----> RowScanExec    (one for each time that a table is named)
//!            | registers           |
//!            v                     v first batch wanted
//!        RowSnapshot --------> RowSnapshot::begin: all tables of the query, as of one moment
//!                                  |
//!                                  +--> TableReader -- step --> BatchSink --> Outbox --> batches
//!                                         (thread of the partition, between transactions)
//! ```

mod async_row_session;
mod copied;
mod files;
mod mark;
mod outbox;
mod query;
mod scan;
mod schema;
mod settings;
mod snapshot;
mod store;
mod table;

pub use async_row_session::AsyncRowSession;
pub use files::{DatabaseFiles, LOCK, ROWS};
pub use mark::RowMark;
pub use query::RowQuery;
pub use schema::{RowSchema, with_row_key};
pub use settings::{ROW_SETTINGS, RowSettings};
pub use store::RowStore;
pub use table::ROW_KEY;
