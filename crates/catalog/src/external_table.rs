//! External tables.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_formats::csv::CsvDecoder;
use thermocline_formats::csv_options;
use thermocline_pushdown::{FileFormat, user_err, user_error};
use thermocline_storage::{NodeClient, RemoteOptions};

use super::csv_schema::infer_csv_schema;
use super::definition::TableDefinition;
use super::location::{Location, Nodes};
use super::snapshot::{Listing, Snapshot};
use super::unread::UnreadObjects;
use crate::AllowedLocations;

/// A table over objects at storages.
#[derive(Debug)]
pub struct ExternalTable {
    /// The statement that defined it.
    pub definition: TableDefinition,
    schema: SchemaRef,
    locations: Vec<Location>,
    /// The objects as last seen; the next query asks only about what is new.
    latest: Mutex<(u64, Arc<Snapshot>)>,
    /// Entries of its locations that it does not read, as last seen.
    unread: Mutex<UnreadObjects>,
}

impl ExternalTable {
    /// Finds the table's objects and, unless given, its columns.
    ///
    /// # Errors
    /// If a location is not allowed, missing or unreachable, no location holds an object of the format, or an object is
    /// corrupt.
    pub async fn create(
        definition: TableDefinition,
        nodes: &Nodes,
        allowed: &AllowedLocations,
        options: &RemoteOptions,
        partition_size: u64,
    ) -> Result<Self> {
        definition.locations.iter().try_for_each(|location| allowed.check(location))?;
        let locations =
            definition.locations.iter().map(|location| nodes.resolve(location, options)).collect::<Result<Vec<_>>>()?;
        let nothing = Snapshot::empty(&Arc::new(Schema::empty()));
        let listing = Listing::fetch(&locations, &definition.format, &nothing).await?;
        if listing.len() == 0 {
            return user_err!(
                InvalidTableDefinition,
                "table {}: no {} objects at {}",
                definition.name,
                definition.format.name(),
                definition.locations.join(", ")
            );
        }
        let schema = match (&definition.columns, &definition.format) {
            (Some(columns), _) => Arc::clone(columns),
            (None, FileFormat::Parquet) => listing.parquet_schema(partition_size).await?,
            (None, FileFormat::Csv(csv)) => infer_csv_schema(&definition.name, &listing, &csv_options(csv)).await?,
        };
        if schema.fields().is_empty() {
            return user_err!(InvalidTableDefinition, "table {}: its objects have no columns", definition.name);
        }
        if let FileFormat::Csv(csv) = &definition.format {
            let all = (0..schema.fields().len()).collect();
            let readable = CsvDecoder::try_new(Arc::clone(&schema), &csv_options(csv), all, 1);
            readable.map_err(|error| user_error!(InvalidTableDefinition, "table {}: {error}", definition.name))?;
        }
        let latest = Mutex::new((partition_size, Snapshot::empty(&schema)));
        let table = Self { definition, schema, locations, latest, unread: Mutex::default() };
        table.snapshot(partition_size).await?;
        Ok(table)
    }

    /// The table's objects as they are now.
    ///
    /// # Errors
    /// If a node cannot be reached or an object is corrupt.
    pub async fn snapshot(&self, partition_size: u64) -> Result<Arc<Snapshot>> {
        let (known_size, known) = self.latest.lock().clone();
        let listed = Listing::fetch(&self.locations, &self.definition.format, &known).await;
        let mut listing = listed.map_err(|error| error.context(format!("table {}", self.definition.name)))?;
        *self.unread.lock() = std::mem::take(&mut listing.unread);
        let known = if known_size == partition_size { known } else { Snapshot::empty(&self.schema) };
        let snapshot = Snapshot::plan(
            listing,
            &known,
            &self.definition.format,
            &self.schema,
            partition_size,
            self.definition.columns.is_none(),
        )
        .await?;
        *self.latest.lock() = (partition_size, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// The objects as last seen, for `system.partitions`.
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.latest.lock().1)
    }

    /// Entries of its locations that it does not read, as last seen.
    pub fn unread(&self) -> UnreadObjects {
        self.unread.lock().clone()
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns for the wire.
    ///
    /// # Errors
    /// If a type has no encoding.
    pub fn encoded_schema(&self) -> Result<Vec<u8>> {
        thermocline_pushdown::wire::encode_schema(&self.schema)
    }

    /// The storages of its locations.
    pub fn storages(&self) -> impl Iterator<Item = &NodeClient> {
        self.locations.iter().flat_map(|location| &location.nodes)
    }
}
