//! What the database knows about its row tables: tables of schema `system`.

mod memory;
mod table;
mod tables;

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use self::table::StatisticsTable;
use crate::rows::RowSession;

/// The tables, by name, as one session sees them.
pub fn tables(session: &RowSession) -> Vec<(String, Arc<dyn TableProvider>)> {
    let made: [(&str, table::MakeRows); 2] = [("tables", tables::rows), ("memory", memory::rows)];
    made.into_iter()
        .map(|(name, rows)| {
            let table = StatisticsTable::new(session.clone(), rows);
            (name.to_owned(), Arc::new(table) as Arc<dyn TableProvider>)
        })
        .collect()
}
