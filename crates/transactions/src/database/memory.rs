use thermocline_tables::table::{Budget, Working};

/// Memory by use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryReport {
    /// Bytes that may be used.
    pub limit_bytes: u64,
    /// Part of the limit that tables leave to working memory.
    pub reserve_bytes: u64,
    /// Bytes of rows, locators and indexes.
    pub table_bytes: u64,
    /// Bytes of each kind of working memory: see [`Working`].
    pub working: Vec<(&'static str, u64)>,
}

impl MemoryReport {
    pub(super) fn of(budget: &Budget) -> Self {
        let working = Working::ALL.map(|(kind, name)| (name, budget.working(kind))).to_vec();
        let (limit_bytes, reserve_bytes) = (budget.limit(), budget.reserve());
        Self { limit_bytes, reserve_bytes, table_bytes: budget.used(), working }
    }

    /// All bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.table_bytes + self.working.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Bytes of one kind of working memory; 0 for an unknown kind.
    pub fn working_bytes(&self, kind: &str) -> u64 {
        self.working.iter().find(|(name, _)| *name == kind).map_or(0, |(_, bytes)| *bytes)
    }
}
