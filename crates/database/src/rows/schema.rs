//! Row tables by name, for DataFusion.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use thermocline_transactions::interrupt::Interrupt;

use super::store::RowStore;
use super::table::RowTable;
use crate::bridge::{blocking, external};

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
        let table = schema.tables().find(|table| &*table.name == name);
        Ok(table.map(|table| Arc::new(RowTable::new(Arc::clone(table))) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.store.schema().table(name).is_ok()
    }
}
