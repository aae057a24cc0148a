//! Threads that each keep one call in flight for a warm-up and a timed period.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use thermocline_transactions::types::Value;

use crate::oltp::{Call, Calls, Measured, Tally};
use crate::peer::{Connection, Failure, Origin, Peer};
use crate::ycsb::FIELDS;

/// Procedures of a client in SQL: one that reads, one for each field that updates it.
const PROCEDURES: usize = FIELDS + 1;

/// Measurements of all connections.
#[derive(Debug, Default)]
pub struct Driven {
    /// Counts and latencies.
    pub measured: Measured,
    /// Reads of the timed period.
    pub reads: u64,
    /// Those that a cache answered.
    pub hits: u64,
}

/// Runs these clients, a thread and a connection each.
///
/// # Errors
/// If a connection is refused or a call fails.
pub fn drive(
    peer: &dyn Peer,
    clients: Vec<Box<dyn Calls>>,
    warm_up: Duration,
    timed: Duration,
) -> Result<Driven, Failure> {
    let connections = clients.iter().map(|_| peer.connect()).collect::<Result<Vec<_>, _>>()?;
    let barrier = Barrier::new(clients.len());
    let all = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (calls, connection) in clients.into_iter().zip(connections) {
            let barrier = &barrier;
            threads.push(scope.spawn(move || {
                barrier.wait();
                let from = Instant::now() + warm_up;
                one_client(calls, connection, (from, from + timed))
            }));
        }
        let mut all = Driven::default();
        for thread in threads {
            let one = thread.join().unwrap_or_else(|_| Err("a client has panicked".into()))?;
            all.measured.add(&one.measured);
            all.reads += one.reads;
            all.hits += one.hits;
        }
        Ok::<_, Failure>(all)
    })?;
    Ok(Driven { measured: Measured { period: timed, ..all.measured }, ..all })
}

/// Counts the calls whose results come within the timed period.
fn one_client(
    mut calls: Box<dyn Calls>,
    mut connection: Box<dyn Connection>,
    (from, to): (Instant, Instant),
) -> Result<Driven, Failure> {
    let mut seen = Driven::default();
    seen.measured.tallies.resize(PROCEDURES, Tally::default());
    let mut fields = Vec::new();
    loop {
        let Call { procedure, arguments } = calls.next_call();
        let since = Instant::now();
        if since >= to {
            return Ok(seen);
        }
        let origin = match (procedure.checked_sub(1), &*arguments) {
            (None, [Value::Int(key)]) => {
                fields.clear();
                let origin = connection.read(*key, &mut fields)?;
                black_box(&fields);
                Some(origin)
            }
            (Some(field), [Value::Int(key), Value::Text(value)]) => {
                connection.update(*key, field, value)?;
                None
            }
            _ => return Err(format!("a call of procedure {procedure} with other arguments").into()),
        };
        let now = Instant::now();
        if now < from || now >= to {
            continue;
        }
        if let Some(tally) = seen.measured.tallies.get_mut(procedure) {
            tally.committed += 1;
            seen.measured.latencies.record(now.duration_since(since));
        }
        seen.reads += u64::from(origin.is_some());
        seen.hits += u64::from(origin == Some(Origin::Cache));
    }
}
