//! The catalog: external tables, their locations, their objects' partitions and statistics.
//!
//! ```text
//! CREATE EXTERNAL TABLE --> ExternalTable --list, describe--> Snapshot: partitions, sizes, ranges
//! ```
//!
//! A query plans with one [`Snapshot`], so that it sees one version of each object.
//!
//! Deliberately left out: what runs over partitions (`thermocline-compute`).

mod column_range;
mod csv_schema;
mod definition;
mod external_table;
mod file_path;
mod file_reading;
mod files;
mod glob;
mod header_fields;
mod location;
mod locations;
mod partition;
mod partition_set;
mod ranges;
mod schemes;
mod snapshot;
mod statistics;
mod table_schema;
mod unread;

pub use definition::{TableDefinition, declared_time_zone, quote_name};
pub use external_table::{Access, ExternalTable};
pub use file_path::FilePath;
pub use file_reading::{CsvReading, FileReader, FileReading};
pub use files::{SqlFile, replace_file};
pub use location::{Location, Nodes};
pub use locations::AllowedLocations;
pub use partition::{Partition, PlannedObject};
pub use partition_set::PartitionSet;
pub use ranges::{fetch, ranges_ticket};
pub use snapshot::Snapshot;
pub use table_schema::narrows;
pub use unread::{UnreadObject, UnreadObjects};
