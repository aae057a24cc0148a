//! Rows of the table, from random numbers seeded by their keys.

use thermocline_transactions::database::RowEngine;
use thermocline_transactions::random::Random;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

use super::schema::{FIELDS, TABLE};
use crate::oltp::Inserts;

/// Inserts rows with keys 0 to `rows - 1`, with this many bytes in each column, with this many threads. The rows do not depend on their number.
///
/// # Errors
/// If the table does not exist, a key exists already, or memory is full.
pub fn load(database: &RowEngine, rows: u64, field_bytes: usize, threads: usize) -> Result<()> {
    let places: Vec<String> = (1..=FIELDS + 1).map(|number| format!("${number}")).collect();
    let insert = database.prepare(&format!("INSERT INTO {TABLE} VALUES ({})", places.join(", ")))?;
    let threads = threads.max(1) as u64;
    std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for thread in 0..threads {
            let insert = &insert;
            // Neighbouring keys come from one thread.
            let keys = rows * thread / threads..rows * (thread + 1) / threads;
            parts.push(scope.spawn(move || {
                let mut inserts = Inserts::new(database);
                for key in keys {
                    inserts.put(insert, row(key, field_bytes))?;
                }
                inserts.finish()
            }));
        }
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(Error::internal("a thread that loads has panicked")))
        })
    })
}

/// The row with this key as loaded.
pub fn row(key: u64, field_bytes: usize) -> Vec<Value> {
    let mut random = Random::new(key ^ 0x5943_5342);
    let fields = (0..FIELDS).map(|_| Value::from(text(&mut random, field_bytes)));
    std::iter::once(Value::Int(key.cast_signed())).chain(fields).collect()
}

/// Letters for one column.
pub(super) fn text(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 12);
    while text.len() < bytes {
        let mut bits = random.next();
        // Twelve letters of five bits each.
        for _ in 0..12 {
            text.push(char::from(b'a' + (bits % 26) as u8));
            bits >>= 5;
        }
    }
    text.truncate(bytes);
    text
}
