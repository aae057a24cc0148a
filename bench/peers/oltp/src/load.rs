//! Parallel load of the table.

use crate::peer::{Failure, Peer};
use crate::ycsb::{FIELD_BYTES, row};

/// Connections of a load, at most: more of them do not help on a few cores.
const CONNECTIONS_MAX: usize = 8;

/// Rows of a statement, which is a transaction: half a megabyte.
const ROWS_OF_STATEMENT: usize = 500;

/// Creates the table and inserts rows with keys 0 to `rows - 1`, over at most this many connections.
///
/// # Errors
/// If the table exists already or the server fails.
pub fn load(peer: &dyn Peer, rows: u64, connections: usize) -> Result<(), Failure> {
    peer.define()?;
    let connections = connections.min(CONNECTIONS_MAX) as u64;
    std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for number in 0..connections {
            // Neighbouring keys come from one connection, in ascending order.
            let keys = rows * number / connections..rows * (number + 1) / connections;
            parts.push(scope.spawn(move || {
                let mut loader = peer.loader()?;
                let mut pending = Vec::with_capacity(ROWS_OF_STATEMENT);
                for key in keys {
                    pending.push(row(key, FIELD_BYTES));
                    if pending.len() == ROWS_OF_STATEMENT {
                        loader.insert(&pending)?;
                        pending.clear();
                    }
                }
                if pending.is_empty() { Ok(()) } else { loader.insert(&pending) }
            }));
        }
        let join = |part: std::thread::ScopedJoinHandle<'_, Result<(), Failure>>| {
            part.join().unwrap_or_else(|_| Err("a thread that loads has panicked".into()))
        };
        parts.into_iter().try_for_each(join)
    })
}
