use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::TableType;

use super::engine::Engine;

/// External tables of the engine, and this session's views.
#[derive(Debug)]
pub(super) struct PublicSchema {
    engine: Arc<Engine>,
    views: MemorySchemaProvider,
    /// Tables of another engine, if there is one.
    guests: Option<Arc<dyn SchemaProvider>>,
}

impl PublicSchema {
    pub(super) fn new(engine: Arc<Engine>, guests: Option<Arc<dyn SchemaProvider>>) -> Self {
        Self { engine, views: MemorySchemaProvider::new(), guests }
    }

    pub(super) fn has_guest(&self, name: &str) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.table_exist(name))
    }

    pub(super) fn has_view(&self, name: &str) -> bool {
        self.views.table_exist(name)
    }
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.views.table_names();
        names.extend(self.engine.tables().iter().map(|table| table.definition.name.clone()));
        names.extend(self.guests.iter().flat_map(|guests| guests.table_names()));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.engine.table(name) {
            return Ok(Some(table));
        }
        if let Some(guests) = &self.guests
            && let Some(table) = guests.table(name).await?
        {
            return Ok(Some(table));
        }
        if let Some(absent) = self.engine.absent(name) {
            return exec_err!("{name} could not be restored when the database was opened: {}", absent.error);
        }
        self.views.table(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        if table.table_type() == TableType::View {
            self.views.register_table(name, table)
        } else {
            exec_err!("{name}: tables are made by CREATE EXTERNAL TABLE")
        }
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.views.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.views.table_exist(name) || self.engine.table(name).is_some() || self.has_guest(name)
    }
}
