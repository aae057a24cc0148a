//! A partition on its way to a route, and what there is to choose from.

use std::sync::Arc;

use thermocline_cache::Representation;
use thermocline_catalog::{Partition, PlannedObject};

use super::bitmap::Choice;

/// A partition, and what there is to choose from.
pub(super) struct Candidate<'a> {
    pub(super) object: &'a Arc<PlannedObject>,
    pub(super) partition: &'a Arc<Partition>,
    /// Per needed column, in which representation it is cached; empty where the cache is not used for the partition.
    pub(super) cached: Vec<Option<Representation>>,
    /// Whether the cache is used for the partition.
    pub(super) uses_cache: bool,
    /// How often its needed columns may be taken to have been asked for before; known to the model alone.
    pub(super) uses: u64,
    /// Whether the cache has free room for the columns that are not in it, or, if all are, for those kept as stored bytes
    /// to be kept decoded; known to the model alone.
    pub(super) has_room: bool,
    /// Whether the cache has the fragment's answer.
    pub(super) is_answered: bool,
    /// Whether an index at the node is expected to find the few rows needed.
    pub(super) by_index: bool,
    /// The best route that loads nothing.
    pub(super) otherwise: Option<Choice>,
    /// Needed columns of the table.
    pub(super) needed: &'a [usize],
}

impl Candidate<'_> {
    /// The route that nothing can better.
    pub(super) fn fixed(&self) -> Option<Choice> {
        if self.is_answered {
            return Some(Choice::Answered);
        }
        // What needs no column needs no byte. Decoding may take longer than storage does.
        if self.decoded().iter().filter(|decoded| **decoded).count() == self.needed.len() {
            return Some(Choice::Local);
        }
        self.by_index.then_some(Choice::Pushdown)
    }

    /// The best route that loads nothing.
    pub(super) fn otherwise(&self) -> Choice {
        self.otherwise.clone().unwrap_or(Choice::Pullup)
    }

    /// Per needed column, whether its values are in memory; empty where the cache is not used for the partition.
    pub(super) fn decoded(&self) -> Vec<bool> {
        self.cached.iter().map(|cached| *cached == Some(Representation::Decoded)).collect()
    }

    /// Needed columns of the table that are not cached.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.with(None)
    }

    /// Needed columns of the table whose stored bytes are cached.
    pub(super) fn stored(&self) -> Vec<usize> {
        self.with(Some(Representation::Stored))
    }

    fn with(&self, representation: Option<Representation>) -> Vec<usize> {
        let cached = |position: usize| self.cached.get(position).copied().flatten();
        let found = self.needed.iter().enumerate().filter(|(position, _)| cached(*position) == representation);
        found.map(|(_, column)| *column).collect()
    }
}
