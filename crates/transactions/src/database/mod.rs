//! The row engine: its directory, the executors over it, and sessions that speak SQL.
//!
//! ```text
//! RowSession --text--> Command (kept) --Work--> Executors --> partitions
//!    |                 ^                       |
//!    +--definition--> Catalog <---version------+   (a statement of an older version runs again)
//! ```
//!
//! The catalog holds one version of the schema and its compiled procedures. It changes only
//! while no transaction runs, so that [`Work`] can compare versions without a lock.
//!
//! ```
//! use thermocline_transactions::database::{RowEngine, Settings};
//! use thermocline_transactions::types::{Value, ValueRef};
//!
//! let database = RowEngine::in_memory(Settings::default())?;
//! let mut session = database.session();
//! session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)", &[])?;
//! session.execute("INSERT INTO t VALUES ($1, $2)", &[Value::Int(1), Value::Text("one".into())])?;
//! let answer = session.execute("SELECT v FROM t WHERE k = 1", &[])?;
//! assert_eq!(answer.rows.value(0, 0), ValueRef::Text("one"));
//! # Ok::<(), thermocline_transactions::Error>(())
//! ```

mod block_writer;
mod catalog;
mod check;
mod definition;
mod load;
mod loading;
mod memory;
mod notice;
mod opening;
mod repartition;
mod replay;
mod restore;
mod row_engine;
mod row_session;
mod settings;
mod snapshots;
mod source;
mod statistics;
mod table_reader;
mod trimmer;
mod work;

pub use load::Load;
pub use memory::MemoryReport;
pub use notice::{Notice, Notices};
pub use opening::Opening;
pub use restore::{RestoreTo, Restored};
pub use row_engine::RowEngine;
pub use row_session::{Canceller, RowSession};
pub use settings::Settings;
pub use snapshots::{SnapshotReport, SnapshotSettings, SnapshotStatus};
pub use source::Source;
pub use statistics::{PartitionStatistics, Statistics, TableStatistics};
pub use table_reader::TableReader;
pub use thermocline_statements::StatementResult;
pub use work::Work;

pub use catalog::Catalog;
pub use definition::Definition;
pub use loading::{Loading, Portions};
pub use replay::Replayer;
pub use snapshots::start_barrier;
