//! The catalog: external tables, where they live, how they are cut, what is known of them.

mod definition;
mod external_table;
mod files;
mod location;
mod partition;
mod pruning;
mod snapshot;

pub use definition::TableDefinition;
pub(crate) use definition::quote_name;
pub use external_table::ExternalTable;
pub use files::CatalogFile;
pub use location::{Location, Nodes};
pub use partition::{ColumnRange, Partition, PlannedObject};
pub use pruning::prune;
pub use snapshot::Snapshot;
