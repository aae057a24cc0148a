//! Plans: what an algorithm that knows the future does at each lookup.

use std::collections::HashSet;

use crate::trace::SegmentId;

/// Decisions of one lookup.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Segments to load for it.
    pub loads: Vec<SegmentId>,
    /// Segments to keep after it.
    pub keeps: HashSet<SegmentId>,
}

/// Decisions of all lookups, by time.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// By lookup.
    pub steps: Vec<Step>,
}
