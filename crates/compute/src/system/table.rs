//! Tables whose rows are made when a query is planned.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::columns::Columns;

/// Makes the rows.
type Rows<T> = Box<dyn Fn(&SessionConfig) -> BoxFuture<'static, Result<Vec<T>>> + Send + Sync>;

/// A table whose rows are made when a query is planned, not when the table is looked up.
pub struct SystemTable<T> {
    columns: Columns<T>,
    schema: SchemaRef,
    rows: Rows<T>,
}

impl<T> fmt::Debug for SystemTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTable").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl<T> SystemTable<T> {
    /// A table of what `rows` makes for a statement with this configuration.
    pub fn new<F>(columns: Columns<T>, rows: impl Fn(&SessionConfig) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<T>>> + Send + 'static,
    {
        let schema = columns.schema();
        Self { columns, schema, rows: Box::new(move |config| rows(config).boxed()) }
    }
}

#[async_trait]
impl<T: Send + Sync + 'static> TableProvider for SystemTable<T> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.columns.batch(&(self.rows)(state.config()).await?)?;
        MemTable::try_new(self.schema(), vec![vec![rows]])?.scan(state, projection, filters, limit).await
    }
}
