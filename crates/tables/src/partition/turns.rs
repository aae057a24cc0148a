//! Which table the next block of evicted rows is from.

use std::collections::BTreeMap;

use crate::schema::TableId;

/// What remains of the number of accesses after a block was evicted: about 64 blocks count.
const KEPT: f64 = 63.0 / 64.0;
/// The most blocks that a table may be ahead of others, or behind them.
const CREDIT_MAX: f64 = 64.0;

/// Turns of a partition's tables in giving up a block of their rows.
///
/// The number of blocks of a table is proportional to its bytes in memory, and inversely proportional to its accesses
/// lately by sampled transactions. In Anti-Caching 2013, section 3.2, bytes do not count: there a large table keeps
/// rows that are used as seldom as those that a small table loses. Here memory ends up shared as accesses are.
#[derive(Debug, Default)]
pub struct Turns {
    tables: BTreeMap<TableId, Turn>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Turn {
    accesses: f64,
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
    /// Adds the accesses to a table since the last block was evicted. It is a candidate with these bytes in memory.
    pub fn candidate(&mut self, table: TableId, accesses: u64, bytes: usize) -> Candidate {
        let turn = self.tables.entry(table).or_default();
        turn.accesses += accesses as f64;
        Candidate { table, weight: bytes.max(1) as f64 / (1.0 + turn.accesses) }
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
        self.tables.values_mut().for_each(|turn| turn.accesses *= KEPT);
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
                .map(|(number, (bytes, accesses))| turns.candidate(TableId(number as u32), *accesses, *bytes))
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

    #[test]
    fn a_table_that_gave_nothing_up_is_not_charged() {
        let mut turns = Turns::default();
        for _ in 0..1000 {
            let mut candidates = [turns.candidate(TableId(0), 0, 1 << 30), turns.candidate(TableId(1), 0, 1)];
            turns.sort(&mut candidates);
            assert_eq!(candidates.map(|candidate| candidate.table), [TableId(0), TableId(1)]);
            turns.evicted(&candidates[1..]);
        }
        assert_eq!((turns.credit(TableId(0)), turns.credit(TableId(1))), (0.0, 0.0));
    }
}
