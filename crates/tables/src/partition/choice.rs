//! Choice of the rows that go to the next block.

use thermocline_types::{Error, Result};

use super::Partition;
use super::eviction::put;
use super::rounds::Rounds;
use super::turns::{Candidate, Turns};
use crate::table::{Blocks, Sampler, SamplingRate, Table, TupleId, UseCounts, Victims};

/// Rounds in which a row that nobody uses is found, whatever its count is.
const ROUNDS_MAX: f64 = UseCounts::MOST as f64 + 2.0;

/// Looks at rows that take as long as the search of an empty table.
const LOOKS_OF_TABLE: usize = 64;

/// Policy that chooses rows of a partition to be evicted, and what it knows of them.
#[derive(Debug, Default)]
pub struct Choice {
    victims: Victims,
    /// Tables' progress under [`Victims::Sampled`].
    rounds: Rounds,
    /// Whether uses of rows are counted.
    is_counting: bool,
    /// Whether the last search ended before it had found rows or looked at all: the next one may find some.
    is_searching: bool,
    /// Tables' shares under [`Victims::Chain`].
    turns: Turns,
    /// Draws the transactions that move rows in chains; `None` without chains.
    sampler: Option<Sampler>,
    /// Whether the transaction that runs is sampled.
    is_sampling: bool,
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

impl Partition {
    /// Sets the policy that chooses rows to be evicted, before there are tables. A chain follows the transactions that
    /// are sampled at this rate.
    pub fn set_victims(&mut self, victims: Victims, rate: SamplingRate) {
        let seed = self.seed ^ u64::from(self.id().0) << 48;
        let sampler = (victims == Victims::Chain).then(|| Sampler::new(rate, seed));
        self.choice = Choice { victims, sampler, ..Choice::default() };
    }

    /// Begins or ends to note which rows transactions use.
    #[cold]
    pub(super) fn switch_sampling(&mut self) {
        let is_sampling = !self.choice.is_sampling;
        self.choice.is_sampling = is_sampling;
        self.tables_mut().for_each(|table| table.set_monitored(is_sampling));
    }

    /// Begins to count the uses of rows once half of the memory is taken, so that it is known which are cold before
    /// the first has to go.
    pub(super) fn count_in_time(&mut self) {
        if !self.choice.is_counting && self.budget().used() > self.budget().limit() / 2 {
            self.start_counting();
        }
    }

    #[cold]
    fn start_counting(&mut self) {
        self.choice.is_counting = true;
        self.tables_mut().for_each(Table::start_counting);
    }

    /// Whether the last search for cold rows ended before it had found some or looked at all.
    pub(super) fn is_searching(&self) -> bool {
        self.choice.is_searching
    }

    pub(super) fn evict_block(&mut self, looks_max: usize) -> Result<usize> {
        let bytes = self.blocks.as_ref().map_or(0, |blocks| blocks.block_bytes());
        self.evict(bytes, looks_max)
    }

    /// Evicts a block of about `bytes` bytes of cold rows of one table; returns their number, which is 0 if no row can
    /// be evicted now. Between transactions only.
    ///
    /// The search takes as long as looks at `looks_max` rows, of each table if there are chains; 0 rows also if none that
    /// were looked at were cold.
    ///
    /// # Errors
    /// If the block cannot be written: no row has left memory then.
    pub fn evict(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        let evicted = match self.choice.victims {
            Victims::Sampled => self.evict_in_rounds(bytes, looks_max),
            Victims::Chain => self.evict_in_turn(bytes, looks_max),
        };
        if evicted.as_ref().map_or(true, |rows| *rows > 0) {
            self.budget().note_eviction(&evicted);
        }
        evicted
    }

    /// Evicts from the table whose search is behind.
    fn evict_in_rounds(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        if !self.choice.is_counting && self.blocks.is_some() {
            self.start_counting();
        }
        let Self { tables, blocks: Some(blocks), choice, .. } = self else { return Ok(0) };
        let candidates = tables.iter().flatten().filter(|table| table.is_evictable() && table.live_rows() > 0);
        choice.rounds.set_tables(candidates.map(|table| table.definition().id));
        choice.is_searching = false;
        let (mut looks, mut last) = (0, None);
        while let Some((id, rounds)) = choice.rounds.next()
            && rounds <= *last.get_or_insert(rounds + ROUNDS_MAX)
        {
            if looks >= looks_max {
                choice.is_searching = true;
                break;
            }
            let Some(table) = tables.get_mut(id.0 as usize).and_then(Option::as_mut) else { break };
            let rows = table.live_rows();
            let search = table.coldest(bytes, looks_max - looks);
            choice.rounds.passed(id, search.rows, rows, search.is_last);
            // To find the next table takes time as well.
            looks += search.looks.max(LOOKS_OF_TABLE + choice.rounds.tables() / 8);
            if !search.cold.is_empty() {
                evict_rows(table, blocks.as_mut(), &search.cold)?;
                return Ok(search.cold.len());
            }
        }
        Ok(0)
    }

    /// Evicts from the table whose turn it is, or from the next one if its chain has no row that can go.
    fn evict_in_turn(&mut self, bytes: usize, looks_max: usize) -> Result<usize> {
        let Self { tables, blocks: Some(blocks), choice, .. } = self else { return Ok(0) };
        let mut candidates: Vec<Candidate> = Vec::new();
        for table in tables.iter_mut().flatten().filter(|table| table.is_evictable()) {
            let (accesses, id) = (table.take_accesses(), table.definition().id);
            let candidate = choice.turns.candidate(id, accesses, table.row_bytes(), table.needed_totals());
            if table.live_rows() > 0 {
                candidates.push(candidate);
            }
        }
        choice.turns.sort(&mut candidates);
        let mut rest = &*candidates;
        while let Some((Candidate { table, .. }, behind)) = rest.split_first() {
            let Some(table) = tables.get_mut(table.0 as usize).and_then(Option::as_mut) else { break };
            let cold = table.coldest(bytes, looks_max).cold;
            if !cold.is_empty() {
                evict_rows(table, blocks.as_mut(), &cold)?;
                choice.turns.evicted(rest);
                return Ok(cold.len());
            }
            rest = behind;
        }
        Ok(0)
    }
}

/// Evicts these live rows of a table into one block.
fn evict_rows(table: &mut Table, blocks: &mut dyn Blocks, rows: &[TupleId]) -> Result<()> {
    let places = {
        let images = || rows.iter().filter_map(|id| Some((*id, table.image_of(*id)?)));
        put(table, blocks, images)?
    };
    if places.len() != rows.len() {
        return Err(Error::internal("a block without some of its rows"));
    }
    rows.iter().zip(places).try_for_each(|(id, place)| table.evict(*id, place))
}
