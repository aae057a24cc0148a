//! The compute node: from SQL to routes, and back to rows.
//!
//! ```text
//! SQL -> DataFusion plan -> separate -> route per partition -> hybrid scan -> merge
//!            ^ catalog        |            ^ segment cache       |
//!            |                v            |                     v
//!        statistics        fragment      runs here        or at a storage node
//! ```
//!
//! ```no_run
//! # async fn example() -> datafusion::common::Result<()> {
//! use thermocline_compute::Session;
//!
//! let session = Session::in_memory()?;
//! session.run("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/data/t'").await?;
//! let result = session.run("SELECT count(*) FROM t").await?;
//! println!("{} rows, {} bytes moved", result.rows(), result.stats.bytes_from_storage);
//! # Ok(())
//! # }
//! ```
//!
//! Deliberately left out: listening for anybody (front doors), what a storage node does with a
//! fragment (`thermocline-storage`), and how the cache chooses (`thermocline-cache`).

mod catalog;
mod index;
mod join;
mod learning;
mod locations;
mod plan;
mod scan;
mod session;
mod settings;
mod syntax;
mod system;

pub use catalog::{
    CatalogFile, ExternalTable, Location, Nodes, Partition, PlannedObject, Snapshot, TableDefinition, UnreadObject,
    UnreadObjects,
};
pub use index::IndexDefinition;
pub use join::{CollectKeysExec, RestartableExec};
pub use locations::AllowedLocations;
pub use plan::{Averages, Separate, register_operators};
pub use scan::HybridScanExec;
pub use session::{
    Engine, HeapGauges, QueryContext, QueryRecord, QueryResult, QueryStats, QueryStream, Session, SessionOptions,
    SqlDialect, StatementTimeout, check_depth, check_preparable, written_type,
};
pub use settings::{PushdownOperators, Settings, WireCompression};
pub use syntax::{any_expression, folded};
pub use system::{Columns, SystemTable};
