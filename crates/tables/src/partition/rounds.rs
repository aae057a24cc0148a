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
    of_tables: BTreeMap<TableId, f64>,
}

impl Rounds {
    /// Sets the tables that have rows to be evicted. New ones begin where the last of the others is.
    pub fn set_tables(&mut self, tables: impl Iterator<Item = TableId>) {
        let first = self.next().map_or(0.0, |(_, rounds)| rounds);
        self.of_tables = tables.map(|table| (table, self.of_tables.get(&table).copied().unwrap_or(first))).collect();
    }

    /// The table that is behind, with its rounds; `None` without tables.
    pub fn next(&self) -> Option<(TableId, f64)> {
        let tables = self.of_tables.iter().map(|(table, rounds)| (*table, *rounds));
        tables.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Notes that so many of a table's `rows` rows were passed; at least one, so that no table comes next for ever.
    pub fn passed(&mut self, table: TableId, looks: usize, rows: usize) {
        if let Some(rounds) = self.of_tables.get_mut(&table) {
            *rounds += looks.max(1) as f64 / rows.max(1) as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_passed_equally_often() {
        const ROWS: [usize; 3] = [1, 40, 10_000];
        let (mut rounds, mut looks) = (Rounds::default(), [0; 3]);
        for _ in 0..5000 {
            rounds.set_tables((0..3).map(TableId));
            let (TableId(table), _) = rounds.next().unwrap();
            let (rows, of_table) = (ROWS[table as usize], &mut looks[table as usize]);
            // A search ends at the last row.
            let passed = 30.min(rows - *of_table % rows);
            *of_table += passed;
            rounds.passed(TableId(table), passed, rows);
        }
        let times = [0, 1, 2].map(|table| looks[table] as f64 / ROWS[table] as f64);
        assert!(times[2] > 5.0 && times.iter().all(|one| (one - times[2]).abs() <= 1.0), "{times:?}");
    }

    #[test]
    fn a_new_table_does_not_make_up_for_rounds_before_it() {
        let mut rounds = Rounds::default();
        rounds.set_tables([TableId(3)].into_iter());
        rounds.passed(TableId(3), 700, 100);
        rounds.set_tables([TableId(3), TableId(4)].into_iter());
        assert_eq!(rounds.next(), Some((TableId(3), 7.0)));
        rounds.passed(TableId(3), 0, 0);
        assert_eq!(rounds.next(), Some((TableId(4), 7.0)));
        rounds.set_tables(std::iter::empty());
        assert_eq!(rounds.next(), None);
    }
}
