//! Scans of some of a table's partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use thermocline_catalog::Snapshot;

/// Partitions that the scans of a statement are limited to, as an extension of its configuration: measurements choose
/// how much is read, and what of it was read before.
#[derive(Debug, Clone, Default)]
pub struct PartitionSample {
    /// Positions in [`Snapshot::partitions`].
    positions: BTreeSet<usize>,
}

impl PartitionSample {
    /// The partitions at these positions of the table's snapshot.
    pub fn new(positions: impl IntoIterator<Item = usize>) -> Self {
        Self { positions: positions.into_iter().collect() }
    }

    /// What a statement of this configuration sees of `snapshot`.
    pub(super) fn seen(snapshot: Arc<Snapshot>, config: &SessionConfig) -> Arc<Snapshot> {
        match config.get_extension::<Self>() {
            None => snapshot,
            Some(sample) => snapshot.only(&sample.positions),
        }
    }
}
