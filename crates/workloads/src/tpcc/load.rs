//! Load of the nine tables.

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, Work};
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

use super::draw::unexpected;
use super::rows::{Destination, items, warehouse};
use super::scale::Scale;
use crate::oltp::Inserts;

/// Rows of ITEM in one statement: each statement goes to all partitions, which must meet.
const ITEMS_AT_ONCE: usize = 100;

/// Columns of ITEM.
const ITEM_COLUMNS: usize = 5;

/// The other tables and their numbers of columns.
const COLUMNS: [(&str, usize); 8] = [
    ("warehouse", 9),
    ("district", 11),
    ("customer", 21),
    ("history", 9),
    ("orders", 8),
    ("new_order", 3),
    ("order_line", 10),
    ("stock", 17),
];

/// Fills the tables according to clause 4.3.3, with this many threads. The rows do not depend on their number.
///
/// # Errors
/// If a table does not exist or is not empty, or memory is full.
pub fn load(database: &RowEngine, scale: Scale, threads: usize) -> Result<()> {
    let prepare = |(table, columns)| Ok((table, database.prepare(&insert_sql(table, columns, 1))?));
    let statements = COLUMNS.into_iter().map(prepare).collect::<Result<HashMap<_, _>>>()?;
    let whole = database.prepare(&insert_sql("item", ITEM_COLUMNS, ITEMS_AT_ONCE))?;
    let mut of_items = Items { database, inserts: Inserts::new(database), whole, values: Vec::new() };
    items(scale, &mut of_items)?;
    of_items.finish()?;
    let threads = u32::try_from(threads).unwrap_or(u32::MAX).clamp(1, scale.warehouses.max(1));
    std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for thread in 0..threads {
            let statements = &statements;
            parts.push(scope.spawn(move || {
                let mut rows = Rows { statements, inserts: Inserts::new(database) };
                for number in (1..=scale.warehouses).filter(|number| number % threads == thread) {
                    warehouse(scale, number, &mut rows)?;
                }
                rows.inserts.finish()
            }));
        }
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(Error::internal("a thread that loads has panicked")))
        })
    })
}

fn insert_sql(table: &str, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

/// Rows of all tables but ITEM, a statement each.
struct Rows<'s> {
    /// By table.
    statements: &'s HashMap<&'static str, Arc<Work>>,
    inserts: Inserts,
}

impl Destination for Rows<'_> {
    type Error = Error;

    fn put(&mut self, table: &'static str, row: Vec<Value>) -> Result<()> {
        let statement = self.statements.get(table);
        self.inserts.put(statement.ok_or_else(|| unexpected(format_args!("rows of {table}")))?, row)
    }
}

/// Rows of ITEM, [`ITEMS_AT_ONCE`] in a statement.
struct Items<'d> {
    database: &'d RowEngine,
    inserts: Inserts,
    /// The statement of as many rows.
    whole: Arc<Work>,
    /// Values of the rows that have not been submitted.
    values: Vec<Value>,
}

impl Destination for Items<'_> {
    type Error = Error;

    fn put(&mut self, _table: &'static str, row: Vec<Value>) -> Result<()> {
        self.values.extend(row);
        if self.values.len() < ITEMS_AT_ONCE * ITEM_COLUMNS {
            return Ok(());
        }
        self.inserts.put(&self.whole, std::mem::take(&mut self.values))
    }
}

impl Items<'_> {
    fn finish(mut self) -> Result<()> {
        if !self.values.is_empty() {
            let rows = self.values.len() / ITEM_COLUMNS;
            let statement = self.database.prepare(&insert_sql("item", ITEM_COLUMNS, rows))?;
            self.inserts.put(&statement, self.values)?;
        }
        self.inserts.finish()
    }
}
