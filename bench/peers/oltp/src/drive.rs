//! Threads that each keep one call in flight for a warm-up and a timed period.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thermocline_transactions::types::Value;

use crate::oltp::{Call, Calls, Measured, Moment, Tally};
use crate::peer::{Connection, Failure, Origin};

/// Length of a piece of the timeline.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// A connection that executes calls of a workload.
pub trait Caller: Send {
    /// Executes a call to its end.
    ///
    /// # Errors
    /// If the call fails in another way than its workload says.
    fn execute(&mut self, call: &Call) -> Result<Executed, Failure>;
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// How its transaction ended.
    pub end: End,
    /// Times that the server made it run again.
    pub restarts: u64,
}

/// End of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Committed; where the row of a read came from, `None` for all others.
    Committed(Option<Origin>),
    /// Rolled back on purpose.
    Aborted,
}

impl Executed {
    /// A commit at the first attempt.
    pub const fn committed(origin: Option<Origin>) -> Self {
        Self { end: End::Committed(origin), restarts: 0 }
    }
}

/// Reads and updates of YCSB. A call's procedure is 0 for a read, or the number of a field, from 1, for its update.
pub struct RowCaller {
    connection: Box<dyn Connection>,
    /// Fields of the last row that was read.
    fields: Vec<u8>,
}

impl RowCaller {
    /// Calls over this connection.
    pub fn new(connection: Box<dyn Connection>) -> Self {
        Self { connection, fields: Vec::new() }
    }
}

impl Caller for RowCaller {
    fn execute(&mut self, Call { procedure, arguments }: &Call) -> Result<Executed, Failure> {
        match (procedure.checked_sub(1), &**arguments) {
            (None, [Value::Int(key)]) => {
                self.fields.clear();
                let origin = self.connection.read(*key, &mut self.fields)?;
                black_box(&self.fields);
                Ok(Executed::committed(Some(origin)))
            }
            (Some(field), [Value::Int(key), Value::Text(value)]) => {
                self.connection.update(*key, field, value)?;
                Ok(Executed::committed(None))
            }
            _ => Err(format!("a call of procedure {procedure} with other arguments").into()),
        }
    }
}

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

/// A connection, and what is called over it.
pub type Client = (Box<dyn Calls>, Box<dyn Caller>);

/// Runs these clients, a thread each, over a workload with this many procedures.
///
/// # Errors
/// If a call fails.
pub fn drive(clients: Vec<Client>, procedures: usize, warm_up: Duration, timed: Duration) -> Result<Driven, Failure> {
    let barrier = Barrier::new(clients.len() + 1);
    let committed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for client in clients {
            let (barrier, committed) = (&barrier, &committed);
            threads.push(scope.spawn(move || {
                barrier.wait();
                let from = Instant::now() + warm_up;
                one_client(client, procedures, (from, from + timed), committed)
            }));
        }
        barrier.wait();
        let from = Instant::now() + warm_up;
        std::thread::sleep(warm_up);
        // A thread ends before the others only by its failure.
        let goes_on = || threads.iter().all(|thread| !thread.is_finished());
        let timeline = sample((from, from + timed), &committed, goes_on);
        let mut all = Driven::default();
        for thread in threads {
            let one = thread.join().unwrap_or_else(|_| Err("a client has panicked".into()))?;
            all.measured.add(&one.measured);
            all.measured.restarts += one.measured.restarts;
            all.reads += one.reads;
            all.hits += one.hits;
        }
        Ok(Driven { measured: Measured { period: timed, timeline, ..all.measured }, ..all })
    })
}

/// Pieces of the timed period, as long as the clients go on.
fn sample((from, to): (Instant, Instant), committed: &AtomicU64, goes_on: impl Fn() -> bool) -> Vec<Moment> {
    let mut timeline = Vec::new();
    let (mut last, mut until) = (committed.load(Ordering::Relaxed), from);
    while until < to && goes_on() {
        until = (until + SAMPLE_EVERY).min(to);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let total = committed.load(Ordering::Relaxed);
        let seconds = from.elapsed().as_secs_f64();
        timeline.push(Moment { seconds, transactions: total - last, evicted_rows: 0, returned_rows: 0 });
        last = total;
    }
    timeline
}

/// Counts the calls whose results come within the timed period.
fn one_client(
    (mut calls, mut caller): Client,
    procedures: usize,
    (from, to): (Instant, Instant),
    committed: &AtomicU64,
) -> Result<Driven, Failure> {
    let mut seen = Driven::default();
    seen.measured.tallies.resize(procedures, Tally::default());
    loop {
        let call = calls.next_call();
        let since = Instant::now();
        if since >= to {
            return Ok(seen);
        }
        let Executed { end, restarts } = caller.execute(&call)?;
        let now = Instant::now();
        if matches!(end, End::Committed(_)) {
            committed.fetch_add(1, Ordering::Relaxed);
        }
        if now < from || now >= to {
            continue;
        }
        seen.measured.restarts += restarts;
        let tally = seen.measured.tallies.get_mut(call.procedure);
        match (end, tally) {
            (End::Aborted, Some(tally)) => tally.aborted += 1,
            (End::Committed(origin), Some(tally)) => {
                tally.committed += 1;
                seen.measured.latencies.record(now.duration_since(since));
                seen.reads += u64::from(origin.is_some());
                seen.hits += u64::from(origin == Some(Origin::Cache));
            }
            (_, None) => return Err(format!("a call of procedure {}", call.procedure).into()),
        }
    }
}
