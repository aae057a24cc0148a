use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::prelude::SessionConfig;

use super::async_row_session::AsyncRowSession;
use super::snapshot::QuerySnapshot;

/// Row engine context of one query: its session, and the snapshot that its scans share. Stored as an extension of the
/// configuration that the query is planned with.
#[derive(Debug)]
pub struct RowQuery {
    /// Session.
    pub session: AsyncRowSession,
    /// Snapshot that its scans share.
    pub snapshot: QuerySnapshot,
}

impl RowQuery {
    /// The context of a new query of this session.
    pub fn new(session: AsyncRowSession) -> Self {
        Self { session, snapshot: QuerySnapshot::default() }
    }

    /// The context in this configuration.
    ///
    /// # Errors
    /// If there is none, which is a bug.
    pub fn of(config: &SessionConfig) -> Result<Arc<Self>> {
        let query = config.get_extension::<Self>();
        query.ok_or_else(|| {
            exec_datafusion_err!("internal error, please report it: row tables in a query of no session")
        })
    }
}
