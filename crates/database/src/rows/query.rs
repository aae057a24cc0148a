use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::prelude::SessionConfig;

use super::row_session::RowSession;
use super::snapshot::QuerySnapshot;

/// The part of one query in the row engine: whose session it is of, and what its scans share. It is an extension of the
/// configuration that the query is planned with.
#[derive(Debug)]
pub struct RowQuery {
    /// The session.
    pub session: RowSession,
    /// Snapshot that its scans share.
    pub snapshot: QuerySnapshot,
}

impl RowQuery {
    /// That of a query which this session runs now.
    pub fn new(session: RowSession) -> Self {
        Self { session, snapshot: QuerySnapshot::default() }
    }

    /// That of the query which is planned with this configuration.
    ///
    /// # Errors
    /// If no session runs it, which is a bug.
    pub fn of(config: &SessionConfig) -> Result<Arc<Self>> {
        let query = config.get_extension::<Self>();
        query.ok_or_else(|| {
            exec_datafusion_err!("internal error, please report it: row tables in a query of no session")
        })
    }
}
