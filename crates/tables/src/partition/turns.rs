//! Which table the next block of evicted rows is from.

use std::collections::BTreeMap;

use crate::schema::TableId;

/// What remains of the number of accesses after a block was evicted: about 64 blocks count.
const KEPT: f64 = 63.0 / 64.0;
/// What remains of the numbers of rows: about 1024 blocks count, because most rows stay away for longer.
const KEPT_ROWS: f64 = 1023.0 / 1024.0;
/// Rows that every table is taken to have evicted besides, of which [`NEEDED_AT_FIRST`] came back.
const EVICTED_AT_FIRST: f64 = 4096.0;
const NEEDED_AT_FIRST: f64 = 64.0;
/// Share of rows that come back below which tables are alike.
const NEEDED_LEAST: f64 = 1.0 / 256.0;
/// The most blocks that a table may be ahead of others, or behind them.
const CREDIT_MAX: f64 = 64.0;

/// Turns of a partition's tables in giving up a block of their rows.
///
/// The number of blocks of a table is proportional to its bytes in memory, inversely proportional to its accesses
/// lately by sampled transactions, and to the share of its evicted rows that transactions have needed again. In
/// Anti-Caching 2013, section 3.2, accesses alone count. Without bytes, a large table keeps rows that are used as seldom
/// as those that a small table loses. Without the rows that come back, tables with as many accesses lose as many rows,
/// although all of one are used again, as the stock of TPC-C is, and most of the other are not, as its order lines.
#[derive(Debug, Default)]
pub struct Turns {
    tables: BTreeMap<TableId, Turn>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Turn {
    accesses: f64,
    /// Rows that were evicted, and those that came back because they were needed, since the start.
    totals: [u64; 2],
    /// These, lately.
    rows: [f64; 2],
    /// Blocks that it should have given up and did not. The sum over all tables is 0, but for those that are gone.
    credit: f64,
}

/// A table that has rows to be evicted.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// The table.
    pub table: TableId,
    /// Its share of the blocks, in relation to other candidates.
    weight: f64,
}

impl Turns {
    /// Adds the accesses to a table since the last block was evicted, and its rows that were evicted and have come back
    /// because they were needed, of which these are the totals. It is a candidate with these bytes in memory.
    pub fn candidate(&mut self, table: TableId, accesses: u64, bytes: usize, totals: [u64; 2]) -> Candidate {
        let turn = self.tables.entry(table).or_default();
        turn.accesses += accesses as f64;
        for ((rows, before), now) in turn.rows.iter_mut().zip(turn.totals).zip(totals) {
            *rows += now.saturating_sub(before) as f64;
        }
        turn.totals = totals;
        let [evicted, needed] = turn.rows;
        let needed_share = NEEDED_LEAST + (needed + NEEDED_AT_FIRST) / (evicted + EVICTED_AT_FIRST);
        Candidate { table, weight: bytes.max(1) as f64 / (1.0 + turn.accesses) / needed_share }
    }

    /// Sorts tables by whose turn it is.
    pub fn sort(&self, candidates: &mut [Candidate]) {
        let sum: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
        let due = |one: &Candidate| self.credit(one.table) + one.weight / sum;
        candidates.sort_by(|one, other| due(other).total_cmp(&due(one)).then(one.table.cmp(&other.table)));
    }

    /// Notes that the first of these tables has given up a block, which all of them were to share.
    pub fn evicted(&mut self, candidates: &[Candidate]) {
        let sum: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
        for (number, Candidate { table, weight }) in candidates.iter().enumerate() {
            let given = if number == 0 { 1.0 } else { 0.0 };
            let turn = self.tables.entry(*table).or_default();
            turn.credit = (turn.credit + weight / sum - given).clamp(-CREDIT_MAX, CREDIT_MAX);
        }
        for turn in self.tables.values_mut() {
            turn.accesses *= KEPT;
            turn.rows = turn.rows.map(|rows| rows * KEPT_ROWS);
        }
    }

    fn credit(&self, table: TableId) -> f64 {
        self.tables.get(&table).map_or(0.0, |turn| turn.credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of each table after a number of evictions, of tables with these bytes and accesses between two evictions.
    fn blocks<const N: usize>(turns: &mut Turns, tables: [(usize, u64); N], evictions: usize) -> [usize; N] {
        let mut blocks = [0; N];
        for _ in 0..evictions {
            let mut candidates: Vec<Candidate> = (tables.iter().enumerate())
                .map(|(number, (bytes, accesses))| turns.candidate(TableId(number as u32), *accesses, *bytes, [0; 2]))
                .collect();
            turns.sort(&mut candidates);
            blocks[candidates[0].table.0 as usize] += 1;
            turns.evicted(&candidates);
        }
        blocks
    }

    #[test]
    fn blocks_are_proportional_to_bytes_and_inversely_to_accesses() {
        let mut turns = Turns::default();
        assert_eq!(blocks(&mut turns, [(1000, 0), (3000, 0)], 400), [100, 300]);
        let mut turns = Turns::default();
        let [hot, cold] = blocks(&mut turns, [(1000, 9), (1000, 1)], 1000);
        assert!((95..=140).contains(&hot) && hot + cold == 1000, "{hot} and {cold}");
        // What was hot is forgotten.
        blocks(&mut turns, [(1000, 1), (1000, 9)], 500);
        let [cold, hot] = blocks(&mut turns, [(1000, 1), (1000, 9)], 1000);
        assert!((90..=110).contains(&hot) && hot + cold == 1000, "{hot} and {cold}");
    }

    /// Two tables with as many bytes and accesses: all rows of one come back, and one of a hundred of the other.
    #[test]
    fn rows_that_come_back_cost_their_table_its_turn() {
        const ROWS: u64 = 200;
        let (mut turns, mut evicted, mut last) = (Turns::default(), [0_u64; 2], [0; 2]);
        for round in 0..20_000 {
            let back = [evicted[0], evicted[1] / 100];
            let mut candidates =
                [0, 1].map(|of| turns.candidate(TableId(of as u32), 50, 1 << 20, [evicted[of], back[of]]));
            turns.sort(&mut candidates);
            evicted[candidates[0].table.0 as usize] += ROWS;
            turns.evicted(&candidates);
            if round == 10_000 {
                last = evicted;
            }
        }
        let [used, cold] = [0, 1].map(|of| evicted[of] - last[of]);
        assert!(used * 20 < cold, "{used} rows of {cold}");
        assert!(used > 0, "it is tried again, for it may be cold now");
    }

    #[test]
    fn a_table_that_gave_nothing_up_is_not_charged() {
        let mut turns = Turns::default();
        for _ in 0..1000 {
            let mut candidates =
                [(0, 1 << 30), (1, 1)].map(|(id, bytes)| turns.candidate(TableId(id), 0, bytes, [0; 2]));
            turns.sort(&mut candidates);
            assert_eq!(candidates.map(|candidate| candidate.table), [TableId(0), TableId(1)]);
            turns.evicted(&candidates[1..]);
        }
        assert_eq!((turns.credit(TableId(0)), turns.credit(TableId(1))), (0.0, 0.0));
    }
}
