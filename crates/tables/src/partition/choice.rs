//! Choice of the rows that go to the next block.

use super::rounds::Rounds;
use super::turns::Turns;
use crate::table::{Sampler, Table, Victims};

/// Policy that chooses rows of a partition to be evicted, and what it knows of them.
#[derive(Debug, Default)]
pub struct Choice {
    pub(super) victims: Victims,
    /// Tables' progress under [`Victims::Sampled`].
    pub(super) rounds: Rounds,
    /// Whether uses of rows are counted.
    pub(super) is_counting: bool,
    /// Whether the last search ended before it had found rows or looked at all: the next one may find some.
    pub(super) is_searching: bool,
    /// Tables' shares under [`Victims::Chain`].
    pub(super) turns: Turns,
    /// Draws the transactions that move rows in chains; `None` without chains.
    pub(super) sampler: Option<Sampler>,
    /// Whether the transaction that runs is sampled.
    pub(super) is_sampling: bool,
}

impl Choice {
    /// Draws whether the next transaction is sampled; says whether that differs from the last one.
    #[inline]
    pub fn draw(&mut self) -> bool {
        self.sampler.as_mut().is_some_and(|sampler| sampler.draw() != self.is_sampling)
    }

    /// Prepares a table without rows.
    pub fn watch(&self, table: &mut Table) {
        table.set_victims(self.victims);
        table.set_monitored(self.is_sampling);
        if self.is_counting {
            table.start_counting();
        }
    }
}
