//! A row table as a table of DataFusion, whose scans are registered in the query's snapshot.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use thermocline_transactions::schema::TableDefinition;
use thermocline_types::Class;

use super::query::RowQuery;
use super::scan::RowScanExec;
use super::snapshot::Request;
use crate::arrow::schema_of;
use crate::bridge::external;

/// Name of the [row key](TableDefinition::has_row_key) in queries that need it: no column of a user has it.
pub const ROW_KEY: &str = "?rowid";

/// A row table as a read-only DataFusion table.
pub struct RowTable {
    definition: Arc<TableDefinition>,
    /// Its columns; without the [row key](TableDefinition::has_row_key), unless a statement needs it.
    schema: SchemaRef,
    /// Columns of the table before those of the schema.
    skipped: usize,
    /// Text for `SHOW CREATE TABLE`, made on first use.
    sql: OnceLock<String>,
}

impl fmt::Debug for RowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowTable").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl RowTable {
    /// The table with this definition, as of planning.
    pub fn new(definition: Arc<TableDefinition>, with_row_key: bool) -> Self {
        let schema = schema_of(&definition, with_row_key.then_some(ROW_KEY));
        let skipped = definition.columns.len() - schema.fields().len();
        Self { definition, schema, skipped, sql: OnceLock::new() }
    }
}

impl RowTable {
    /// The places that these columns have in the table of this name as it is now.
    ///
    /// # Errors
    /// If one is not there any more, has another type, or may be NULL now: 42703.
    fn columns_now(&self, now: &TableDefinition, columns: &[usize]) -> Result<Vec<usize>> {
        let place = |planned: &usize| {
            let column = self.definition.columns.get(*planned)?;
            now.columns.iter().position(|known| {
                let is_same = known.name == column.name && known.data_type == column.data_type;
                is_same && (column.nullable || !known.nullable)
            })
        };
        let changed = |planned: &usize| {
            let name = self.definition.columns.get(*planned).map_or("", |column| &*column.name);
            external(Class::UndefinedColumn.error(format_args!(
                "column \"{name}\" of table \"{}\" has changed since the view that reads it was made: CREATE OR REPLACE \
                 VIEW makes it again",
                now.name
            )))
        };
        columns.iter().map(|planned| place(planned).ok_or_else(|| changed(planned))).collect()
    }
}

#[async_trait]
impl TableProvider for RowTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(self.sql.get_or_init(|| self.definition.to_sql().trim_end().to_owned()))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projected = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projected)?);
        let columns: Vec<usize> = projected.into_iter().map(|column| self.skipped + column).collect();
        let query = RowQuery::of(state.config())?;
        // A view may have been planned with an older definition.
        let definitions = query.session.schema();
        let now = definitions.table(&self.definition.name).map_err(external)?;
        let columns = self.columns_now(now, &columns)?;
        let size = query.snapshot.size_of(&query.session, now).await?;
        let projected = columns.iter().filter_map(|column| now.columns.get(*column));
        // Other columns are read as well, and left where they are.
        let is_long = projected.into_iter().any(|column| !column.data_type.is_of_fixed_width());
        query.snapshot.scans_rows_of(if is_long { size.row_bytes } else { 0 });
        let partitions = query.session.store().partitions_of(now);
        let request = Request::new(Arc::clone(now), columns, schema, partitions, &state.runtime_env().memory_pool);
        Ok(Arc::new(RowScanExec::new(query.snapshot.register(&query.session, request), size.rows)))
    }
}
