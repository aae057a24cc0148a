//! A partition on its way to a route, and what there is to choose from.

use std::sync::Arc;

use thermocline_catalog::{Partition, PlannedObject};

use super::bitmap::Choice;

/// A partition, and what there is to choose from.
pub(super) struct Candidate<'a> {
    pub(super) object: &'a Arc<PlannedObject>,
    pub(super) partition: &'a Arc<Partition>,
    /// Per needed column, whether it is cached; empty where the cache is not used for the partition.
    pub(super) cached: Vec<bool>,
    /// Whether the cache is used for the partition.
    pub(super) uses_cache: bool,
    /// How often all of its needed columns were asked for before; known to the model alone.
    pub(super) uses: u64,
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
        // What needs no column needs no byte.
        if self.cached.iter().filter(|cached| **cached).count() == self.needed.len() {
            return Some(Choice::Local);
        }
        self.by_index.then_some(Choice::Pushdown)
    }

    /// The best route that loads nothing.
    pub(super) fn otherwise(&self) -> Choice {
        self.otherwise.clone().unwrap_or(Choice::Pullup)
    }

    /// Needed columns of the table that are not cached.
    pub(super) fn missing(&self) -> Vec<usize> {
        let is_cached = |position: usize| self.cached.get(position).copied().unwrap_or(false);
        let missing = self.needed.iter().enumerate().filter(|(position, _)| !is_cached(*position));
        missing.map(|(_, column)| *column).collect()
    }
}
