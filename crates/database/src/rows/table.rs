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

use super::query::RowQuery;
use super::scan::RowScanExec;
use super::snapshot::Request;
use crate::arrow::schema_of;
use crate::bridge::external;

/// A row table as a read-only DataFusion table.
pub struct RowTable {
    definition: Arc<TableDefinition>,
    schema: SchemaRef,
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
    pub fn new(definition: Arc<TableDefinition>) -> Self {
        let schema = schema_of(&definition);
        Self { definition, schema, sql: OnceLock::new() }
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
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let query = RowQuery::of(state.config())?;
        // A view may have been planned with an older definition.
        let definitions = query.session.schema();
        let now = definitions.table(&self.definition.name).map_err(external)?;
        let now = if now.columns.starts_with(&self.definition.columns) { now } else { &self.definition };
        let size = query.snapshot.size_of(&query.session, now).await?;
        let projected = columns.iter().filter_map(|column| now.columns.get(*column));
        // Other columns are read as well, and left where they are.
        let is_long = projected.into_iter().any(|column| !column.data_type.is_of_fixed_width());
        query.snapshot.scans_rows_of(if is_long { size.row_bytes } else { 0 });
        let schema = Arc::new(self.schema.project(&columns)?);
        let partitions = query.session.store().partitions_of(now);
        let request = Request::new(Arc::clone(now), columns, schema, partitions, &state.runtime_env().memory_pool);
        Ok(Arc::new(RowScanExec::new(query.snapshot.register(&query.session, request), size.rows)))
    }
}
