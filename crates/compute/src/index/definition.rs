//! Definition of an index.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use thermocline_catalog::{ExternalTable, PlannedObject, quote_name};
use thermocline_pushdown::user_err;
use thermocline_pushdown::wire::{DropIndexRequest, Format, IndexRequest, IndexStatusRequest, Origin};
use thermocline_storage::NodeClient;

/// An index of one column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Its name, unique in the database.
    pub name: String,
    /// Name of the table.
    pub table: String,
    /// Name of the column.
    pub column: String,
}

impl IndexDefinition {
    /// The statement as the catalog keeps it.
    pub fn sql(&self) -> String {
        let [name, table, column] = [&self.name, &self.table, &self.column].map(|name| quote_name(name));
        format!("CREATE INDEX {name} ON {table} ({column});")
    }

    /// Checks that `table` can have the index.
    ///
    /// # Errors
    /// If it has no such column or no storage node, or values of the column's type have no order
    /// that an index could use.
    pub(crate) fn check(&self, table: &ExternalTable) -> Result<()> {
        let name = &self.name;
        let schema = table.schema();
        let Some((_, column)) = schema.column_with_name(&self.column) else {
            let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return user_err!(
                InvalidTableDefinition,
                "index {name}: table {} has no column '{}'; there are {}",
                self.table,
                self.column,
                columns.join(", ")
            );
        };
        if !has_order(column.data_type()) {
            return user_err!(
                InvalidTableDefinition,
                "index {name}: column '{}' is {}, which cannot be indexed",
                self.column,
                column.data_type()
            );
        }
        if let Some(storage) = without_indexes(table) {
            return user_err!(
                InvalidTableDefinition,
                "index {name}: table {} is at {}, which keeps no indexes; \
                 serve the location with `thermocline storage` and --index-dir",
                self.table,
                storage.label()
            );
        }
        Ok(())
    }

    pub(super) fn build_request(
        &self,
        table: &ExternalTable,
        object: &PlannedObject,
        origin: Origin,
        partition_bytes: u64,
    ) -> Result<IndexRequest> {
        Ok(IndexRequest {
            origin: Some(origin),
            object: Some(object.entry.clone()),
            format: Some(Format::from(&object.format(&table.definition.format))),
            table_schema: table.encoded_schema()?,
            column: self.column.clone(),
            partition_bytes,
        })
    }

    pub(super) fn status_request(
        &self,
        table: &ExternalTable,
        objects: &[Arc<PlannedObject>],
    ) -> Result<IndexStatusRequest> {
        Ok(IndexStatusRequest {
            objects: objects.iter().map(|object| object.entry.clone()).collect(),
            format: format_of(table, objects),
            table_schema: table.encoded_schema()?,
            column: self.column.clone(),
        })
    }

    pub(super) fn drop_request(
        &self,
        table: &ExternalTable,
        objects: &[Arc<PlannedObject>],
    ) -> Result<DropIndexRequest> {
        Ok(DropIndexRequest {
            objects: objects.iter().map(|object| object.entry.clone()).collect(),
            format: format_of(table, objects),
            table_schema: table.encoded_schema()?,
            column: self.column.clone(),
        })
    }
}

/// A storage of the table that keeps no indexes.
pub(super) fn without_indexes(table: &ExternalTable) -> Option<&NodeClient> {
    table.storages().find(|storage| !storage.capabilities().indexes)
}

/// The format of objects that share one.
fn format_of(table: &ExternalTable, objects: &[Arc<PlannedObject>]) -> Option<Format> {
    objects.first().map(|object| Format::from(&object.format(&table.definition.format)))
}

fn has_order(data_type: &DataType) -> bool {
    thermocline_storage::is_indexable(data_type)
}
