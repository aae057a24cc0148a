//! What the database knows about its row tables: tables of schema `system`.

mod executors;
mod memory;
mod snapshots;
mod tables;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use thermocline_compute::{Columns, SystemTable};
use thermocline_transactions::database::{Session, Statistics};

use crate::rows::RowSession;

/// The tables, by name, as one session sees them.
pub fn tables(session: &RowSession) -> Vec<(String, Arc<dyn TableProvider>)> {
    vec![
        ("tables".to_owned(), table(session, tables::columns(), tables::rows)),
        ("memory".to_owned(), table(session, memory::columns(), memory::rows)),
        ("snapshots".to_owned(), of_snapshots(session)),
        ("executors".to_owned(), table(session, executors::columns(), executors::rows)),
    ]
}

/// A table made of what became of snapshots; without rows if there can be none. It waits for no partition.
fn of_snapshots(session: &RowSession) -> Arc<dyn TableProvider> {
    let session = session.clone();
    Arc::new(SystemTable::new(snapshots::columns(), move || {
        let status = session.store().snapshot_status();
        async move { Ok(status.map(snapshots::row).into_iter().collect()) }
    }))
}

/// A table made of what the row engine holds in memory; without rows if it has not been started.
fn table<T: Send + Sync + 'static>(
    session: &RowSession,
    columns: Columns<T>,
    rows: fn(&Statistics) -> Vec<T>,
) -> Arc<dyn TableProvider> {
    let session = session.clone();
    Arc::new(SystemTable::new(columns, move || {
        let session = session.clone();
        async move {
            match session.store().started() {
                Some(_) => Ok(rows(&session.part(Session::statistics).await?)),
                None => Ok(vec![]),
            }
        }
    }))
}
