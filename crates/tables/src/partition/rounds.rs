//! Which table is searched for cold rows next.

use std::collections::BTreeMap;

use crate::schema::TableId;

/// Rounds that searches for cold rows have made through each table of a partition.
///
/// The table that is behind comes next, so that the rows of all tables are passed equally often: together they are on
/// one clock, and a table loses as many rows as it has cold ones, whatever their number and the accesses to the others.
/// Anti-Caching 2013, section 3.2, divides blocks among tables by their accesses ([`Turns`](super::turns::Turns)), and
/// needs that because chains of different tables cannot be compared. It takes rows of small tables that are used again,
/// such as the orders of TPC-C that wait to be delivered, and leaves order lines that nobody will use.
#[derive(Debug, Default)]
pub struct Rounds {
    of_tables: BTreeMap<TableId, Progress>,
}

/// Progress of the search in a table.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    /// Rounds that have ended.
    ended: u64,
    /// Rows that were passed in this one, and those that there were when it began.
    passed: usize,
    rows: usize,
}

impl Progress {
    fn rounds(self) -> f64 {
        // Rows that are added in the round are passed in it.
        let share = self.passed as f64 / self.rows.max(1) as f64;
        self.ended as f64 + share.min(0.999)
    }
}

impl Rounds {
    /// Sets the tables that have rows to be evicted. New ones begin a round behind the others, so that their first rows
    /// have time to be used.
    pub fn set_tables(&mut self, tables: impl Iterator<Item = TableId>) {
        let ended = self.of_tables.values().map(|progress| progress.ended).min().map_or(0, |ended| ended + 1);
        let new = Progress { ended, ..Progress::default() };
        self.of_tables = tables.map(|table| (table, self.of_tables.get(&table).copied().unwrap_or(new))).collect();
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.of_tables.len()
    }

    /// The table that is behind, with its rounds; `None` without tables.
    pub fn next(&self) -> Option<(TableId, f64)> {
        let tables = self.of_tables.iter().map(|(table, progress)| (*table, progress.rounds()));
        tables.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Notes that so many of a table's `rows` rows were passed, and whether they were the last.
    pub fn passed(&mut self, table: TableId, passed: usize, rows: usize, is_last: bool) {
        let Some(progress) = self.of_tables.get_mut(&table) else { return };
        if progress.passed == 0 {
            progress.rows = rows;
        }
        progress.passed += passed;
        if is_last {
            *progress = Progress { ended: progress.ended + 1, ..Progress::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also if most rows of one leave memory as they are passed.
    #[test]
    fn tables_are_passed_equally_often() {
        let (mut rounds, mut rows, mut places) = (Rounds::default(), [1, 40, 10_000, 10_000], [0; 4]);
        let mut ended = [0; 4];
        for _ in 0..9000 {
            rounds.set_tables((0..4).map(TableId));
            let (TableId(id), _) = rounds.next().unwrap();
            let (table, before) = (id as usize, rows[id as usize]);
            let passed = 30.min(before - places[table]);
            places[table] += passed;
            let is_last = places[table] == before;
            if id == 3 && !is_last {
                // They are replaced behind the last one when the round is over.
                (rows[3], places[3]) = (before - passed * 9 / 10, places[3] - passed * 9 / 10);
            }
            if is_last {
                (ended[table], places[table]) = (ended[table] + 1, 0);
                rows[3] = if id == 3 { 10_000 } else { rows[3] };
            }
            rounds.passed(TableId(id), passed, before, is_last);
        }
        assert!(ended[2] > 5 && ended.iter().all(|rounds: &i32| (rounds - ended[2]).abs() <= 1), "{ended:?}");
    }

    #[test]
    fn a_new_table_is_a_round_behind() {
        let mut rounds = Rounds::default();
        rounds.set_tables([TableId(3)].into_iter());
        for _ in 0..7 {
            rounds.passed(TableId(3), 50, 100, false);
            rounds.passed(TableId(3), 50, 100, true);
        }
        rounds.set_tables([TableId(3), TableId(4)].into_iter());
        assert_eq!(rounds.next(), Some((TableId(3), 7.0)));
        rounds.passed(TableId(3), 1, 1, true);
        assert_eq!(rounds.next(), Some((TableId(3), 8.0)));
        rounds.passed(TableId(3), 0, 0, true);
        assert_eq!(rounds.next(), Some((TableId(4), 8.0)));
        rounds.set_tables(std::iter::empty());
        assert_eq!((rounds.next(), rounds.tables()), (None, 0));
    }
}
