//! Tables of files that statements named by their paths, for the next statement that does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermocline_catalog::{ExternalTable, FilePath};

/// Tables that are remembered.
const TABLES_MAX: usize = 256;
/// Objects of all of them together; the last one may have more.
const OBJECTS_MAX: usize = 200_000;

/// What tells tables of files apart: the path, and how remote storages are spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesKey {
    /// The path.
    pub(crate) files: FilePath,
    /// Longest wait for a remote storage.
    pub(crate) request_timeout: Duration,
}

/// Tables by their paths, the one used last at the end. They save what has not changed since: inferring columns, and
/// descriptions of objects.
#[derive(Debug, Default)]
pub(super) struct FileTables {
    tables: VecDeque<(FilesKey, Arc<ExternalTable>)>,
}

impl FileTables {
    pub(super) fn get(&self, key: &FilesKey) -> Option<Arc<ExternalTable>> {
        self.tables.iter().find(|(known, _)| known == key).map(|(_, table)| Arc::clone(table))
    }

    /// Remembers a table as the one used last. Whether others were forgotten for it.
    pub(super) fn put(&mut self, key: FilesKey, table: Arc<ExternalTable>) -> bool {
        self.tables.retain(|(known, _)| *known != key);
        self.tables.push_back((key, table));
        let mut objects: usize = self.tables.iter().map(|(_, table)| table.latest().objects.len()).sum();
        let mut has_forgotten = false;
        while self.tables.len() > TABLES_MAX || objects > OBJECTS_MAX && self.tables.len() > 1 {
            let Some((_, oldest)) = self.tables.pop_front() else { break };
            objects = objects.saturating_sub(oldest.latest().objects.len());
            has_forgotten = true;
        }
        has_forgotten
    }
}
