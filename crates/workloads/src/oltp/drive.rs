//! Client threads that keep calls in flight for a warm-up and a timed period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thermocline_transactions::database::{RowEngine, Work};
use thermocline_transactions::engine::Client;
use thermocline_transactions::error::Class;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

use super::measured::{EvictionCounts, Moment};
use super::{Measured, Resident, Tally};

/// Length of a piece of the timeline.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// A request of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Index of the workload's procedure.
    pub procedure: usize,
    /// Arguments.
    pub arguments: Box<[Value]>,
}

/// Draws the calls of one client.
pub trait Calls: Send {
    /// The next one.
    fn next_call(&mut self) -> Call;
}

/// Duration and load of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveOptions {
    /// Calls that each client has in flight.
    pub in_flight: usize,
    /// Time that is not counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub timed: Duration,
}

/// Runs these clients, a thread each, over `procedures` of the database.
///
/// A call that a procedure rolls back on purpose ([`Class::Raised`]) counts as aborted, one refused with 40001 as
/// refused; the next call takes its place.
///
/// # Errors
/// If a procedure does not exist, a thread cannot be started, or a call fails in another way.
pub fn drive(
    database: &RowEngine,
    procedures: &[&str],
    clients: Vec<Box<dyn Calls>>,
    options: DriveOptions,
) -> Result<Measured> {
    let works = procedures.iter().map(|name| database.procedure(name)).collect::<Result<Vec<_>>>()?;
    let resident = Resident::begin();
    let (begin, committed) = (Instant::now(), AtomicU64::new(0));
    let counts = || Ok(EvictionCounts::of(&database.session().statistics()?));
    let (seen, mut all) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, calls) in clients.into_iter().enumerate() {
            let (works, client) = (&works, database.client());
            let committed = &committed;
            let run = move || OneClient::new((client, works), calls, options, begin, committed).run();
            threads.push(std::thread::Builder::new().name(format!("client {number}")).spawn_scoped(scope, run));
        }
        std::thread::sleep(options.warm_up);
        let (restarts, before) = (database.restarts(), counts()?);
        let mut all = Measured { period: options.timed, ..Measured::default() };
        let (mut last, mut last_committed, mut now) = (before, committed.load(Ordering::Relaxed), Duration::ZERO);
        while now < options.timed {
            now = (now + SAMPLE_EVERY).min(options.timed);
            std::thread::sleep((begin + options.warm_up + now).saturating_duration_since(Instant::now()));
            let (counts, total) = (counts()?, committed.load(Ordering::Relaxed));
            let since = counts.since(last);
            all.timeline.push(Moment {
                seconds: (begin.elapsed().saturating_sub(options.warm_up)).as_secs_f64(),
                transactions: total - last_committed,
                evicted_rows: since.evicted_rows,
                returned_rows: since.returned_rows,
            });
            (last, last_committed) = (counts, total);
        }
        all.restarts = database.restarts() - restarts;
        all.eviction = last.since(before);
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
            let thread = thread.map_err(|error| Error::Io(format!("cannot start a client: {error}").into()))?;
            thread.join().unwrap_or_else(|_| Err(Error::internal("a client has panicked")))
        };
        let seen: Vec<Result<Measured>> = threads.into_iter().map(join).collect();
        Ok::<_, Error>((seen, all))
    })?;
    all.tallies.resize(works.len(), Tally::default());
    for seen in seen {
        all.add(&seen?);
    }
    all.rss_max_bytes = resident.bytes_max();
    Ok(all)
}

struct OneClient<'w> {
    client: Client<Work>,
    works: &'w [Arc<Work>],
    calls: Box<dyn Calls>,
    /// By tag: when the call was submitted, and its procedure.
    places: Vec<(Instant, usize)>,
    /// Unused tags.
    free: Vec<usize>,
    in_flight_max: usize,
    timed: (Instant, Instant),
    seen: Measured,
    /// Transactions that all clients have committed.
    committed: &'w AtomicU64,
}

impl<'w> OneClient<'w> {
    fn new(
        (client, works): (Client<Work>, &'w [Arc<Work>]),
        calls: Box<dyn Calls>,
        options: DriveOptions,
        begin: Instant,
        committed: &'w AtomicU64,
    ) -> Self {
        let in_flight_max = options.in_flight.max(1);
        let timed = (begin + options.warm_up, begin + options.warm_up + options.timed);
        let seen = Measured { tallies: vec![Tally::default(); works.len()], ..Measured::default() };
        let places = vec![(begin, 0); in_flight_max];
        let free = (0..in_flight_max).rev().collect();
        Self { client, works, calls, places, free, in_flight_max, timed, seen, committed }
    }

    fn run(mut self) -> Result<Measured> {
        let (timed_from, timed_to) = self.timed;
        loop {
            let now = Instant::now();
            if now < timed_to {
                self.submit(now)?;
            } else if self.free.len() == self.in_flight_max {
                return Ok(self.seen);
            }
            let replies = self.client.receive();
            let now = Instant::now();
            let counts = now >= timed_from && now < timed_to;
            self.committed
                .fetch_add(replies.iter().filter(|reply| reply.result.is_ok()).count() as u64, Ordering::Relaxed);
            for reply in replies {
                let tag = usize::try_from(reply.tag).unwrap_or(usize::MAX);
                let Some((since, procedure)) = self.places.get(tag).copied() else {
                    return Err(Error::internal("a reply that nobody asked for"));
                };
                self.free.push(tag);
                let refused = match &reply.result {
                    Ok(_) => None,
                    Err(Error::Retry(_)) => Some(true),
                    Err(error) if error.sqlstate() == Class::Raised.sqlstate() => Some(false),
                    Err(error) => return Err(error.clone()),
                };
                if !counts {
                    continue;
                }
                match (refused, self.seen.tallies.get_mut(procedure)) {
                    (None, Some(tally)) => {
                        tally.committed += 1;
                        self.seen.latencies.record(now.duration_since(since));
                    }
                    (Some(false), Some(tally)) => tally.aborted += 1,
                    _ => self.seen.refused += 1,
                }
            }
        }
    }

    /// Fills the free places with new calls.
    fn submit(&mut self, now: Instant) -> Result<()> {
        while let Some(tag) = self.free.pop() {
            let Call { procedure, arguments } = self.calls.next_call();
            let work = self.works.get(procedure);
            let work = work.ok_or_else(|| Error::internal(format_args!("a call of procedure {procedure}")))?;
            if let Some(place) = self.places.get_mut(tag) {
                *place = (now, procedure);
            }
            self.client.submit(Arc::clone(work), arguments, tag as u64)?;
        }
        self.client.send();
        Ok(())
    }
}
