//! The compute node: from SQL to routes, and back to rows.
//!
//! ```text
//! SQL -> DataFusion plan -> separate -> route per partition -> hybrid scan -> merge
//!            ^ catalog        |            ^ segment cache       |
//!            |                v            |                     v
//!        statistics        fragment      runs here        or at a storage node
//! ```
//!
//! Applications open a database (`thermocline-database`), whose sessions give statements to
//! [`AnalyticEngine::stream`].
//!
//! Deliberately left out: sessions and row tables (`thermocline-database`), listening for anybody (front doors), what a
//! storage node does with a fragment (`thermocline-storage`), and how the cache chooses (`thermocline-cache`).

mod engine;
mod index;
mod join;
mod learning;
mod model;
mod plan;
mod query;
mod scan;
mod settings;
mod system;

pub use engine::{
    AnalyticEngine, CATALOG, CopyFile, CurrentQuery, EngineOptions, EngineStream, FunctionEntry, QueryResult, SCHEMA,
    SYSTEM, StatementOptions, USER, default_config, value_bytes,
};
pub use index::IndexDefinition;
pub use join::{CollectKeysExec, RestartableExec};
pub use model::{
    CALIBRATION_FILE, Calibration, CalibrationFile, CalibrationFileError, CalibrationState, Calibrations, FittedErrors,
    FittedMode, HereIdentity, NodeIdentity, Rates,
};
pub use plan::Separate;
pub use query::{HeapGauges, QueryContext, QueryRecord, QueryStats, Resources, StatementTimeout};
pub use scan::{HybridScanExec, PartitionSample};
pub use settings::{
    CachePolicy, ENGINE_SETTINGS, EngineSettings, PushdownOperators, QUERY_SETTINGS, QuerySettings, WireCompression,
    cache_policy_names,
};
pub use system::{Columns, SystemTable};
pub use thermocline_storage::{NodeConfig, Scheme};
