use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use thermocline_transactions::interrupt::Interrupt;

use super::row_session::RowSession;
use super::table::RowTable;

/// Row tables, by name, as one session sees them.
#[derive(Debug)]
pub struct RowSchema {
    session: RowSession,
}

impl RowSchema {
    /// The row tables of a session.
    pub fn new(session: RowSession) -> Self {
        Self { session }
    }
}

#[async_trait]
impl SchemaProvider for RowSchema {
    fn table_names(&self) -> Vec<String> {
        self.session.schema().tables().map(|table| table.name.to_string()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.session.store().is_unusable() {
            self.session.recovered(&Arc::new(Interrupt::new(None))).await?;
        }
        let schema = self.session.schema();
        let table = schema.tables().find(|table| &*table.name == name);
        Ok(table.map(|table| Arc::new(RowTable::new(self.session.clone(), Arc::clone(table))) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.session.schema().table(name).is_ok()
    }
}
