//! The end of queries that take more memory than all of them may.

use std::fmt;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::query_context::QueryContext;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time for a query that was ended to free what it has, before another one is ended.
const PATIENCE: Duration = Duration::from_millis(200);
/// Looks at a query that was ended and still has memory, before another one is ended: what runs without a pause ends
/// late.
const LOOKS_MAX: u32 = 100;
/// Bytes that queries may take beyond those that their operators account for: batches on their way, plans.
const SLACK_BYTES: usize = 300 << 20;

/// Where the bytes of the process are.
#[derive(Clone)]
pub struct HeapGauges {
    /// Bytes allocated in the process.
    pub allocated: fn() -> usize,
    /// Those of another engine, which has a limit of its own.
    pub guests: Arc<dyn Fn() -> usize + Send + Sync>,
}

impl fmt::Debug for HeapGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapGauges").field("allocated", &(self.allocated)()).finish_non_exhaustive()
    }
}

/// A thread that looks at the memory of the process while queries run, and ends one when they take more than theirs.
///
/// Operators account for most of what they allocate, and spill or fail at `query_memory_limit`. Some do
/// not, such as `array_agg` and functions whose results are long, so that one query could end the process.
///
/// ```text
/// allocated = what others have a limit for (cache, rows, embedded nodes)
///           + what there was before the first of the queries
///           + what the queries take                       > limit of queries + 300 MiB: one of them ends, 53200
/// ```
///
/// It is the youngest of those that saw nine tenths of the growth: a younger one has not caused it, and an older one
/// ran well before.
pub(crate) struct MemoryWatch {
    /// Bytes allocated in the process that nobody else accounts for.
    unaccounted: Box<dyn Fn() -> usize + Send + Sync>,
    state: Mutex<State>,
    /// There are queries.
    begun: Condvar,
}

#[derive(Default)]
struct State {
    queries: Vec<Watched>,
    /// Bytes that were allocated and not accounted for before the first of them.
    before: usize,
    /// The most that they may take together.
    limit: usize,
    is_running: bool,
}

struct Watched {
    query: Weak<QueryContext>,
    /// Bytes that all of them took when it began.
    began_at: usize,
    /// How often it was seen after it was ended.
    looks: u32,
}

impl fmt::Debug for MemoryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWatch").finish_non_exhaustive()
    }
}

impl MemoryWatch {
    /// One that is told of the bytes in the process that are accounted for `elsewhere`: not by queries, and not by the
    /// other engine.
    pub(crate) fn new(gauges: HeapGauges, elsewhere: impl Fn() -> usize + Send + Sync + 'static) -> Arc<Self> {
        let unaccounted = move || (gauges.allocated)().saturating_sub(elsewhere() + (gauges.guests)());
        Arc::new(Self { unaccounted: Box::new(unaccounted), state: Mutex::default(), begun: Condvar::new() })
    }

    /// Watches a query until it ends. `limit` is that of all queries from now on, in bytes.
    pub(crate) fn watch(self: &Arc<Self>, query: &Arc<QueryContext>, limit: usize) {
        let unaccounted = (self.unaccounted)();
        let mut state = self.state.lock();
        state.queries.retain(Watched::runs);
        if state.queries.is_empty() {
            state.before = unaccounted;
        }
        state.limit = limit;
        let began_at = unaccounted.saturating_sub(state.before);
        state.queries.push(Watched { query: Arc::downgrade(query), began_at, looks: 0 });
        if !state.is_running {
            let watch = Arc::downgrade(self);
            let thread = thread::Builder::new().name("memory watch".to_owned()).spawn(move || run(&watch));
            match thread {
                Ok(_) => state.is_running = true,
                Err(error) => tracing::warn!("nobody watches the memory of queries: {error}"),
            }
        }
        drop(state);
        self.begun.notify_one();
    }

    /// Looks once; says how long to wait until the next time, or `None` if there are no queries.
    fn look(&self) -> Option<Duration> {
        let unaccounted = (self.unaccounted)();
        let mut state = self.state.lock();
        state.queries.retain(Watched::runs);
        if state.queries.is_empty() {
            return None;
        }
        let taken = unaccounted.saturating_sub(state.before);
        if taken <= state.limit.saturating_add(SLACK_BYTES) {
            return Some(INTERVAL);
        }
        if state.queries.iter_mut().any(Watched::is_ending) {
            return Some(PATIENCE);
        }
        let growth = |watched: &Watched| taken.saturating_sub(watched.began_at);
        let most = state.queries.iter().map(growth).max().unwrap_or(0);
        let grew = |watched: &&Watched| growth(watched) >= most / 10 * 9;
        if let Some(query) = state.queries.iter().rev().find(grew).and_then(|watched| watched.query.upgrade()) {
            tracing::warn!("query {} is ended: queries take {taken} bytes", query.id());
            query.exhaust(taken, state.limit);
        }
        Some(PATIENCE)
    }
}

impl Watched {
    fn runs(&self) -> bool {
        self.query.upgrade().is_some_and(|query| !query.is_over() || (query.is_exhausted() && self.looks < LOOKS_MAX))
    }

    /// Whether it was ended and may still have what it took.
    fn is_ending(&mut self) -> bool {
        let is_ending = self.query.upgrade().is_some_and(|query| query.is_exhausted()) && self.looks < LOOKS_MAX;
        self.looks += u32::from(is_ending);
        is_ending
    }
}

fn run(watch: &Weak<MemoryWatch>) {
    while let Some(watch) = watch.upgrade() {
        match watch.look() {
            Some(wait) => {
                drop(watch);
                thread::sleep(wait);
            }
            None => {
                let mut state = watch.state.lock();
                if state.queries.is_empty() {
                    // Not for ever, so that it sees when the database is closed.
                    watch.begun.wait_for(&mut state, Duration::from_secs(1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use thermocline_catalog::Nodes;
    use thermocline_storage::NodeConfig;

    use super::super::resources::Resources;
    use super::*;
    use crate::model::Calibrations;
    use crate::settings::{EngineSettings, QuerySettings};

    static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
    const LIMIT: usize = 100 << 20;

    #[test]
    fn the_query_ends_that_has_seen_the_growth() {
        let allocated = || ALLOCATED.load(Ordering::Relaxed);
        let gauges = HeapGauges { allocated, guests: Arc::new(|| 7 << 20) };
        let watch = MemoryWatch::new(gauges, || 5 << 20);
        // Nobody else looks.
        watch.state.lock().is_running = true;
        let resources = Resources::new(
            EngineSettings::default(),
            None,
            Nodes::new(NodeConfig::default(), 0, vec![]),
            Calibrations::default(),
            None,
        );
        let query = || QueryContext::new(Arc::clone(&resources), QuerySettings::default(), None);
        let begin = |allocated: usize| {
            ALLOCATED.store(allocated, Ordering::Relaxed);
            let query = query();
            watch.watch(&query, LIMIT);
            query
        };
        assert_eq!(watch.look(), None);
        // What was there before is not theirs.
        let old = begin(1 << 30);
        let greedy = begin((1 << 30) + (10 << 20));
        let young = begin((1 << 30) + LIMIT + SLACK_BYTES);
        assert_eq!(watch.look(), Some(INTERVAL));
        ALLOCATED.fetch_add(1 << 20, Ordering::Relaxed);
        assert_eq!(watch.look(), Some(PATIENCE));
        assert!(old.check().is_ok() && young.check().is_ok());
        let error = greedy.check().unwrap_err().to_string();
        assert!(error.contains("401 MiB") && error.contains("100 MiB"), "{error}");
        // As long as it has not given back what it took, nobody else is ended.
        greedy.end();
        assert_eq!(watch.look(), Some(PATIENCE));
        assert!(old.check().is_ok());
        drop(greedy);
        // The next one is the oldest: the other has seen nothing of it.
        assert_eq!(watch.look(), Some(PATIENCE));
        assert!(old.check().is_err() && young.check().is_ok());
        drop(old);
        young.end();
        assert_eq!(watch.look(), None);
    }

    #[tokio::test]
    async fn a_query_that_waits_is_told() {
        let resources = Resources::new(
            EngineSettings::default(),
            None,
            Nodes::new(NodeConfig::default(), 0, vec![]),
            Calibrations::default(),
            None,
        );
        let query = QueryContext::new(resources, QuerySettings::default(), None);
        assert_eq!(query.within_limits(async { 1 }).await.unwrap(), 1);
        let waiting = tokio::spawn({
            let query = Arc::clone(&query);
            async move { query.within_limits(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        query.exhaust(2 << 20, 1 << 20);
        assert!(waiting.await.unwrap().is_err());
        assert!(query.within_limits(std::future::pending::<()>()).await.is_err());
    }
}
