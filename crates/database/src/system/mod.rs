//! Tables of schema `system` about row tables and settings.

mod blocks;
mod evicted;
mod executors;
mod memory;
mod snapshots;
mod tables;
mod transactions;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use thermocline_compute::{Columns, SystemTable};
use thermocline_transactions::database::{RowSession, Statistics};

use crate::rows::{RowQuery, RowStore};
use crate::settings;

/// The tables, by name.
pub fn tables(store: &Arc<RowStore>) -> Vec<(String, Arc<dyn TableProvider>)> {
    vec![
        ("tables".to_owned(), table(tables::columns(), tables::rows)),
        ("memory".to_owned(), table(memory::columns(), memory::rows)),
        ("snapshots".to_owned(), of_snapshots(store)),
        ("executors".to_owned(), table(executors::columns(), executors::rows)),
        ("evicted".to_owned(), table(evicted::columns(), evicted::rows)),
        ("blocks".to_owned(), table(blocks::columns(), blocks::rows)),
        ("transactions".to_owned(), table(transactions::columns(), transactions::rows)),
        ("settings".to_owned(), of_settings()),
    ]
}

/// `system.snapshots`; empty for databases without snapshots. Does not wait for partitions.
fn of_snapshots(store: &Arc<RowStore>) -> Arc<dyn TableProvider> {
    let store = Arc::clone(store);
    Arc::new(SystemTable::new(snapshots::columns(), move |_| {
        let status = store.snapshot_status();
        async move { Ok(status.map(snapshots::row).into_iter().collect()) }
    }))
}

/// `system.settings`, for the session of the query.
fn of_settings() -> Arc<dyn TableProvider> {
    Arc::new(SystemTable::new(settings::columns(), |config| std::future::ready(Ok(settings::rows_in_use(config)))))
}

/// A table of row engine statistics; empty if the engine has not been started.
fn table<T: Send + Sync + 'static>(columns: Columns<T>, rows: fn(&Statistics) -> Vec<T>) -> Arc<dyn TableProvider> {
    Arc::new(SystemTable::new(columns, move |config| {
        let query = RowQuery::of(config);
        async move {
            let session = &query?.session;
            match session.store().started() {
                Some(_) => Ok(rows(&session.part(RowSession::statistics).await?)),
                None => Ok(vec![]),
            }
        }
    }))
}
