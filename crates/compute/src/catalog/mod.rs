//! The catalog: external tables, their locations, their objects' partitions and statistics.

mod column_range;
mod csv_schema;
mod definition;
mod external_table;
mod files;
mod header_fields;
mod location;
mod partition;
mod partition_set;
mod ranges;
mod snapshot;
mod statistics;
mod table_schema;
mod unread;

pub use definition::TableDefinition;
pub(crate) use definition::{declared_time_zone, quote_name};
pub use external_table::ExternalTable;
pub use files::SqlFile;
pub use location::{Location, Nodes};
pub use partition::{Partition, PlannedObject};
pub use partition_set::PartitionSet;
pub(crate) use ranges::{fetch, ranges_ticket};
pub use snapshot::Snapshot;
pub(crate) use table_schema::narrows;
pub use unread::{UnreadObject, UnreadObjects};
