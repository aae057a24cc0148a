//! One execution of one statement: settings as they were, objects as they were, what it did.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::prelude::SessionConfig;
use futures::future::{Either, select};
use parking_lot::Mutex;
use thermocline_pushdown::wire::Origin;
use thermocline_pushdown::{QueryId, Route, external};
use thermocline_types::Error;
use tokio::sync::Notify;

use super::engine::Engine;
use super::timeout::{StatementTimeout, within};
use crate::catalog::{ExternalTable, Snapshot};
use crate::scan::ScanMetrics;
use crate::settings::Settings;

/// State that the scans of a query share.
#[derive(Debug)]
pub struct QueryContext {
    engine: Arc<Engine>,
    settings: Settings,
    id: QueryId,
    started: Instant,
    /// When its statement's time is over; `None` if it has no limit. The statement may have begun long before.
    deadline: Option<Instant>,
    /// Whether nobody waits for its rows any more.
    over: AtomicBool,
    /// Why there is no memory for it any more.
    exhausted: OnceLock<String>,
    /// `exhausted` is set.
    exhaustion: Notify,
    /// Tables as this query sees them: two scans of one table read the same objects.
    snapshots: tokio::sync::Mutex<HashMap<usize, Arc<Snapshot>>>,
    scans: Mutex<Vec<ScanMetrics>>,
    partitions_total: AtomicU64,
    /// State that scans of another engine share, by type.
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// Counters of a query, summed over its scans. Bytes are counted on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryStats {
    /// Bytes of answers.
    pub bytes_from_storage: u64,
    /// Bytes of requests.
    pub bytes_to_storage: u64,
    /// Requests for data.
    pub requests: u64,
    /// Stored bytes that pushed-down fragments read.
    pub bytes_scanned: u64,
    /// Bytes that they returned.
    pub bytes_returned: u64,
    /// Partitions by route, in the order of [`Route::ALL`].
    pub partitions: [u64; Route::ALL.len()],
    /// Bloom filters of joins that scans applied.
    pub bloom_filters: u64,
    /// Partitions that were pushed down and pulled up after all.
    pub partitions_pushed_back: u64,
    /// Encoded bytes of the selection bitmaps sent.
    pub bitmap_bytes_to_storage: u64,
    /// Encoded bytes of the selection bitmaps received.
    pub bitmap_bytes_from_storage: u64,
    /// Columns that storage nodes were asked to read or to send as stored, summed over partitions.
    pub columns_scanned: u64,
    /// Columns that they did not have to read, because a bitmap or a cached column stood for them.
    pub columns_saved: u64,
    /// Partitions of which storage nodes found the rows through an index.
    pub partitions_indexed: u64,
    /// Needed segments that were cached.
    pub segments_hit: u64,
    /// Needed segments that were not.
    pub segments_missed: u64,
    /// Segments loaded into the cache.
    pub segments_admitted: u64,
    /// Segments evicted for them.
    pub segments_evicted: u64,
}

impl QueryStats {
    /// Partitions that took `route`.
    pub fn partitions(&self, route: Route) -> u64 {
        Route::ALL.iter().zip(self.partitions).find(|(known, _)| **known == route).map_or(0, |(_, count)| count)
    }
}

impl QueryContext {
    pub(crate) fn new(engine: Arc<Engine>, settings: Settings, deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self {
            id: engine.next_query_id(),
            engine,
            settings,
            started: Instant::now(),
            deadline,
            over: AtomicBool::new(false),
            exhausted: OnceLock::new(),
            exhaustion: Notify::new(),
            snapshots: tokio::sync::Mutex::default(),
            scans: Mutex::default(),
            partitions_total: AtomicU64::new(0),
            shared: Mutex::default(),
        })
    }

    /// The query that `config` belongs to. A session that was not made by this crate gets a query
    /// of its own, with an engine that nobody shares.
    pub fn of(config: &SessionConfig) -> Arc<Self> {
        config.get_extension::<QueryContext>().unwrap_or_else(|| {
            let settings = config.options().extensions.get::<Settings>().cloned().unwrap_or_default();
            let engine = Engine::new(&settings, None, thermocline_storage::NodeConfig::default(), None);
            let deadline = settings.statement_deadline();
            QueryContext::new(engine, settings, deadline)
        })
    }

    /// The shared part of the database.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The settings when the query began.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its id.
    pub fn id(&self) -> &QueryId {
        &self.id
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When its statement's time is over; `None` if it has no limit.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Ends what still works for it: its rows have come, or nobody waits for them.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for its rows any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether it was ended for want of memory.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.get().is_some()
    }

    fn exhaustion_error(&self) -> Option<DataFusionError> {
        self.exhausted.get().map(|message| external(Error::OutOfMemory(message.as_str().into())))
    }

    /// Ends it: queries take `taken` bytes, more than the `limit` of all of them.
    pub(super) fn exhaust(&self, taken: usize, limit: usize) {
        let message = format!(
            "queries take {} MiB, and datafusion.runtime.memory_limit is {} MiB: this one takes most of it in values and \
             functions that cannot spill",
            taken >> 20,
            limit >> 20
        );
        let _ = self.exhausted.set(message);
        self.exhaustion.notify_waiters();
    }

    /// `work`, unless the query's time or its memory is over first.
    ///
    /// # Errors
    /// [`StatementTimeout`], or 53200.
    pub(super) async fn within_limits<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let exhaustion = pin!(async {
            loop {
                let mut told = pin!(self.exhaustion.notified());
                // From here on it is told.
                told.as_mut().enable();
                if let Some(error) = self.exhaustion_error() {
                    break error;
                }
                told.await;
            }
        });
        match select(exhaustion, pin!(within(self.deadline, work))).await {
            Either::Left((error, _)) => Err(error),
            Either::Right((done, _)) => done,
        }
    }

    /// Whether the query goes on.
    ///
    /// # Errors
    /// [`StatementTimeout`] if its time is over, 53200 if its memory is, "canceled" if nobody waits for it.
    pub(super) fn check(&self) -> Result<()> {
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(DataFusionError::External(Box::new(StatementTimeout)));
        }
        if let Some(error) = self.exhaustion_error() {
            return Err(error);
        }
        match self.is_over() {
            true => exec_err!("canceled"),
            false => Ok(()),
        }
    }

    /// Something of this type that all scans of the query share; made for the first that asks.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        let of_type = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry of a type is of that type.
        Arc::clone(of_type).downcast().unwrap_or_default()
    }

    /// The origin that requests to storage nodes name, as of now.
    pub(crate) fn origin(&self) -> Origin {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Origin {
            query_id: self.id.to_string(),
            tenant: String::new(),
            deadline_ms: left.map_or(0, |left| left.as_millis().max(1) as u64),
            busy_permille: self.engine().load.permille(),
        }
    }

    /// `table`'s objects, the same for the whole query.
    pub(crate) async fn snapshot(&self, table: &ExternalTable) -> Result<Arc<Snapshot>> {
        // Not by name: a view may hold a table that has been defined anew since.
        let table_id = std::ptr::from_ref(table).addr();
        let mut snapshots = self.snapshots.lock().await;
        if let Some(known) = snapshots.get(&table_id) {
            return Ok(Arc::clone(known));
        }
        let before = table.latest();
        let snapshot = table.snapshot(&self.settings).await?;
        for gone in before.objects_not_in(&snapshot) {
            self.engine.cache.remove_version(&table.definition.name, &gone.path, &gone.version);
        }
        if self.settings.indexes
            && let Some(table) = self.engine.table(&table.definition.name)
        {
            self.engine.indexes.keep_up(&table, &snapshot, self.settings.partition_size);
        }
        snapshots.insert(table_id, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Adds a scan's counters to the query's.
    pub(crate) fn register(&self, metrics: ScanMetrics, partitions: usize) {
        self.partitions_total.fetch_add(partitions as u64, Ordering::Relaxed);
        self.scans.lock().push(metrics);
    }

    /// Partitions finished and in all, of the scans that have begun.
    pub fn progress(&self) -> (u64, u64) {
        let done = self.scans.lock().iter().map(|scan| scan.partitions_done.value() as u64).sum();
        (done, self.partitions_total.load(Ordering::Relaxed))
    }

    /// The counters so far.
    pub fn stats(&self) -> QueryStats {
        let scans = self.scans.lock();
        let sum = |count: fn(&ScanMetrics) -> usize| scans.iter().map(|scan| count(scan) as u64).sum();
        QueryStats {
            bytes_from_storage: sum(|scan| scan.bytes_from_storage.value()),
            bytes_to_storage: sum(|scan| scan.bytes_to_storage.value()),
            requests: sum(|scan| scan.requests.value()),
            bytes_scanned: sum(|scan| scan.bytes_scanned.value()),
            bytes_returned: sum(|scan| scan.bytes_returned.value()),
            partitions: Route::ALL.map(|route| scans.iter().map(|scan| scan.partitions(route).value() as u64).sum()),
            bloom_filters: sum(|scan| scan.bloom_filters.value()),
            partitions_pushed_back: sum(|scan| scan.partitions_pushed_back.value()),
            bitmap_bytes_to_storage: sum(|scan| scan.bitmap_bytes_to_storage.value()),
            bitmap_bytes_from_storage: sum(|scan| scan.bitmap_bytes_from_storage.value()),
            columns_scanned: sum(|scan| scan.columns_scanned.value()),
            columns_saved: sum(|scan| scan.columns_saved.value()),
            partitions_indexed: sum(|scan| scan.partitions_indexed.value()),
            segments_hit: sum(|scan| scan.segments_hit.value()),
            segments_missed: sum(|scan| scan.segments_missed.value()),
            segments_admitted: sum(|scan| scan.segments_admitted.value()),
            segments_evicted: sum(|scan| scan.segments_evicted.value()),
        }
    }
}
