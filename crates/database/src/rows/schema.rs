//! Row tables by name, for DataFusion.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::schema::TableDefinition;

use super::store::RowStore;
use super::table::RowTable;
use crate::bridge::{blocking, external};

/// Follows the name of a table in a statement that needs the [row key](TableDefinition::has_row_key), too.
const WITH_ROW_KEY: &str = "?rowid";

/// The name by which a query reads a table with its row key.
pub fn with_row_key(table: &TableDefinition) -> String {
    format!("{}{WITH_ROW_KEY}", table.name)
}

/// Schema provider of row tables.
#[derive(Debug)]
pub struct RowSchema {
    store: Arc<RowStore>,
}

impl RowSchema {
    /// The row tables of this row engine.
    pub fn new(store: Arc<RowStore>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl SchemaProvider for RowSchema {
    fn table_names(&self) -> Vec<String> {
        self.store.schema().tables().map(|table| table.name.to_string()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.store.is_unusable() {
            let store = Arc::clone(&self.store);
            blocking(move || store.recovered(&Interrupt::new(None))).await?.map_err(external)?;
        }
        let schema = self.store.schema();
        let found = |name| schema.table(name).ok();
        let (table, with_row_key) = match (found(name), name.strip_suffix(WITH_ROW_KEY)) {
            (Some(table), _) => (Some(table), false),
            (None, Some(name)) => (found(name), true),
            (None, None) => (None, false),
        };
        Ok(table.map(|table| Arc::new(RowTable::new(Arc::clone(table), with_row_key)) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.store.schema().table(name).is_ok()
    }
}
