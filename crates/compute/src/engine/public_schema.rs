//! The schema `public`: external tables, views, and the tables of another engine.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::TableType;
use futures::FutureExt;
use thermocline_pushdown::user_err;

use crate::query::Resources;
use crate::scan::ExternalScan;

/// Users' relations: external tables, views, and another engine's tables.
#[derive(Debug)]
pub(super) struct PublicSchema {
    resources: Arc<Resources>,
    views: MemorySchemaProvider,
    /// Tables of another engine, if there is one.
    guests: Option<Arc<dyn SchemaProvider>>,
}

impl PublicSchema {
    pub(super) fn new(resources: Arc<Resources>, guests: Option<Arc<dyn SchemaProvider>>) -> Self {
        Self { resources, views: MemorySchemaProvider::new(), guests }
    }

    pub(super) fn has_guest(&self, name: &str) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.table_exist(name))
    }

    /// Names of external tables and views.
    pub(super) fn own_names(&self) -> Vec<String> {
        let mut names = self.views.table_names();
        names.extend(self.resources.tables().iter().map(|table| table.definition.name.clone()));
        names
    }

    /// Columns of an external table or a view.
    pub(super) fn schema_of(&self, name: &str) -> Option<SchemaRef> {
        if let Some(table) = self.resources.table(name) {
            return Some(Arc::clone(table.schema()));
        }
        // Views are in memory.
        self.views.table(name).now_or_never()?.ok()?.map(|view| view.schema())
    }

    pub(super) fn has_view(&self, name: &str) -> bool {
        self.views.table_exist(name)
    }
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.own_names();
        names.extend(self.guests.iter().flat_map(|guests| guests.table_names()));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.resources.table(name) {
            return Ok(Some(Arc::new(ExternalScan(table))));
        }
        if let Some(guests) = &self.guests
            && let Some(table) = guests.table(name).await?
        {
            return Ok(Some(table));
        }
        if let Some(absent) = self.resources.absent(name) {
            return user_err!(
                NotInState,
                "{name} could not be restored when the database was opened: {}",
                absent.error
            );
        }
        self.views.table(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        if table.table_type() == TableType::View {
            self.views.register_table(name, table)
        } else {
            user_err!(NotInState, "{name}: tables are made by CREATE EXTERNAL TABLE")
        }
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.views.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.views.table_exist(name) || self.resources.table(name).is_some() || self.has_guest(name)
    }
}
