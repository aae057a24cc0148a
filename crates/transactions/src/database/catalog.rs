//! The schema and its compiled procedures, one version at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use thermocline_machine::Turns;
use thermocline_procedures::Definitions;

/// The current definitions.
///
/// Invariant: `version` is that of `current`, and both change only while all partitions are held, so work in a
/// partition sees one version from beginning to end.
#[derive(Debug)]
pub struct Catalog {
    version: AtomicU64,
    current: RwLock<Arc<Definitions>>,
    /// Turn of a definition, held from reading the old version to installing the new one.
    pub defining: Arc<Turns>,
}

impl Catalog {
    /// A catalog with its first version.
    pub fn new(definitions: Definitions) -> Self {
        let (version, current) = (AtomicU64::new(definitions.version), RwLock::new(Arc::new(definitions)));
        Self { version, current, defining: Arc::default() }
    }

    /// Number of the current version.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The current version.
    pub fn current(&self) -> Arc<Definitions> {
        Arc::clone(&self.current.read())
    }

    /// Replaces the current version, while all partitions are held.
    pub fn install(&self, definitions: Definitions) {
        let mut current = self.current.write();
        let version = definitions.version;
        *current = Arc::new(definitions);
        self.version.store(version, Ordering::Release);
    }
}
