//! Parallel load of the nine tables.

use std::collections::HashMap;
use std::io::Write;

use thermocline_transactions::types::Value;

use super::peer::{LineLoader, TpccPeer};
use crate::peer::Failure;
use crate::tpcc::{Destination, Scale, items, warehouse};

/// Connections of a load, at most: more of them do not help on a few cores.
const CONNECTIONS_MAX: u32 = 8;

/// Bytes of lines that are sent at once, as a transaction.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Creates the tables and inserts the rows of `thermocline bench tpcc`, over at most this many connections.
///
/// # Errors
/// If a table exists already or the server fails.
pub fn load(peer: &dyn TpccPeer, scale: Scale, connections: usize) -> Result<(), Failure> {
    peer.define()?;
    let mut lines = Lines::new(peer)?;
    items(scale, &mut lines)?;
    lines.finish()?;
    let connections = u32::try_from(connections).unwrap_or(u32::MAX).min(CONNECTIONS_MAX).min(scale.warehouses);
    std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for part in 0..connections {
            parts.push(scope.spawn(move || {
                let mut lines = Lines::new(peer)?;
                for number in (1..=scale.warehouses).filter(|number| number % connections == part) {
                    warehouse(scale, number, &mut lines)?;
                }
                lines.finish()
            }));
        }
        let join = |part: std::thread::ScopedJoinHandle<'_, Result<(), Failure>>| {
            part.join().unwrap_or_else(|_| Err("a thread that loads has panicked".into()))
        };
        parts.into_iter().try_for_each(join)
    })
}

/// Rows that were not sent yet, as lines.
struct Lines {
    loader: Box<dyn LineLoader>,
    /// Number of rows and their text, by table.
    pending: HashMap<&'static str, (u64, Vec<u8>)>,
}

impl Lines {
    fn new(peer: &dyn TpccPeer) -> Result<Self, Failure> {
        Ok(Self { loader: peer.loader()?, pending: HashMap::new() })
    }

    fn finish(mut self) -> Result<(), Failure> {
        let mut pending = self.pending.into_iter().filter(|(_, (rows, _))| *rows > 0);
        pending.try_for_each(|(table, (rows, text))| self.loader.load(table, rows, &text))
    }
}

impl Destination for Lines {
    type Error = Failure;

    fn put(&mut self, table: &'static str, row: Vec<Value>) -> Result<(), Failure> {
        let (rows, text) = self.pending.entry(table).or_default();
        write_line(text, &row)?;
        *rows += 1;
        if text.len() >= BYTES_AT_ONCE {
            self.loader.load(table, *rows, text)?;
            *rows = 0;
            text.clear();
        }
        Ok(())
    }
}

/// Appends a row as MariaDB's LOAD DATA and PostgreSQL's COPY read it.
fn write_line(text: &mut Vec<u8>, row: &[Value]) -> Result<(), Failure> {
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            text.push(b'\t');
        }
        match value {
            Value::Null => text.extend_from_slice(b"\\N"),
            Value::Text(value) if value.contains(['\t', '\n', '\\']) => {
                return Err(format!("a row with the text {value:?}").into());
            }
            value => write!(text, "{value}")?,
        }
    }
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use thermocline_transactions::types::Decimal;

    use super::*;

    #[test]
    fn a_row_is_a_line() {
        let mut text = Vec::new();
        let price = Value::Decimal(Decimal::new(1250, 2).unwrap());
        let row = [Value::Int(-7), Value::Null, "a b".into(), price, Value::Timestamp(1_265_846_400_000_000)];
        write_line(&mut text, &row).unwrap();
        assert_eq!(text, b"-7\t\\N\ta b\t12.50\t2010-02-11 00:00:00\n");
        for word in ["a\tb", "a\nb", "\\N"] {
            assert!(write_line(&mut text, &[word.into()]).is_err());
        }
    }
}
