use std::sync::Arc;
use std::time::Duration;

use thermocline_tables::table::{Budget, Full, Taken, Working};

use crate::engine::{Handle, Program, ROOM_TRIES};

/// Longest wait for partitions that are asked for memory, which others may hold.
const ROOM_WAIT: Duration = Duration::from_secs(1);
/// Those of the [tries](ROOM_TRIES) in which no partition that was asked has evicted any in time, though others have.
const VAIN_TRIES: usize = 4;

/// Memory for requests outside of partitions, such as parsing, for which rows are evicted where there is none.
pub(super) struct Room<'a> {
    pub budget: &'a Arc<Budget>,
    /// Gives back memory of tables; says whether it did.
    pub make: &'a mut dyn FnMut() -> bool,
}

impl Room<'_> {
    /// Takes memory with `take`.
    ///
    /// # Errors
    /// If the request is larger than a holder's share, or there is no memory for it and no row can be evicted.
    pub fn take<T>(&mut self, mut take: impl FnMut() -> Result<T, Full>) -> Result<T, Full> {
        let (mut tries, mut vain) = (0_u8, 0);
        loop {
            let evictions = self.budget.evictions();
            let refused = match take() {
                Err(full @ Full { taken: Taken::All { .. }, .. }) if self.budget.is_evicting() => full,
                taken => return taken,
            };
            let made = (self.make)();
            (tries, vain) = (tries + 1, vain + usize::from(!made));
            if tries >= ROOM_TRIES || vain >= VAIN_TRIES || !made && self.budget.evictions() == evictions {
                return Err(refused);
            }
        }
    }
}

/// Has partitions give back memory of their tables for a refused request, if that helps; says whether one did.
pub(super) fn make_room<P: Program + ?Sized>(handle: &Handle<P>, budget: &Budget) -> bool {
    budget.lacks_wanted() && handle.make_room(ROOM_WAIT)
}

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
