//! One execution of one statement: settings as they were, objects as they were, what it did.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::physical_plan::metrics::Time;
use datafusion::prelude::SessionConfig;
use futures::future::{Either, select};
use parking_lot::Mutex;
use thermocline_catalog::{ExternalTable, Snapshot};
use thermocline_pushdown::wire::Origin;
use thermocline_pushdown::{QueryId, Route, external};
use thermocline_types::Error;
use tokio::sync::Notify;

use super::resources::Resources;
use super::scan_metrics::ScanMetrics;
use super::timeout::{StatementTimeout, within};
use crate::settings::{EngineSettings, QuerySettings};

/// State that the scans of a query share.
#[derive(Debug)]
pub struct QueryContext {
    resources: Arc<Resources>,
    settings: QuerySettings,
    limits: EngineSettings,
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
    /// Bloom filters of joins that scans applied; one that both storage and this side apply counts twice.
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
    /// Microseconds that fragments computed here, summed over threads.
    pub computing_us: u64,
    /// Microseconds that stored bytes and answers were decoded here, summed over threads.
    pub decoding_us: u64,
    /// Microseconds that bytes were on their way, summed over requests.
    pub network_us: u64,
    /// Microseconds that storage nodes computed, summed over requests.
    pub storage_us: u64,
    /// Microseconds that requests waited for a slot of their storage node, summed over requests.
    pub waiting_us: u64,
    /// Microseconds that the model of mode `auto` expected of scans, summed over them.
    pub expected_us: u64,
    /// Microseconds that these scans took, from routing to the last row of the last partition, summed over them.
    pub taken_us: u64,
}

impl QueryStats {
    /// Partitions that took `route`.
    pub fn partitions(&self, route: Route) -> u64 {
        Route::ALL.iter().zip(self.partitions).find(|(known, _)| **known == route).map_or(0, |(_, count)| count)
    }

    /// Cost of a query of `seconds` under the configured prices.
    pub fn dollars(&self, settings: &QuerySettings, seconds: f64) -> f64 {
        const GB: f64 = 1e9;
        seconds / 3600.0 * settings.price_compute_hour
            + self.requests as f64 / 1000.0 * settings.price_requests_1000
            + self.bytes_scanned as f64 / GB * settings.price_scanned_gb
            + self.bytes_returned as f64 / GB * settings.price_returned_gb
            + self.bytes_from_storage as f64 / GB * settings.price_transferred_gb
    }
}

impl QueryContext {
    /// A query that begins now.
    pub fn new(resources: Arc<Resources>, settings: QuerySettings, deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self {
            id: resources.next_query_id(),
            limits: resources.settings(),
            resources,
            settings,
            started: Instant::now(),
            deadline,
            over: AtomicBool::new(false),
            exhausted: OnceLock::new(),
            exhaustion: Notify::new(),
            snapshots: tokio::sync::Mutex::default(),
            scans: Mutex::default(),
            partitions_total: AtomicU64::new(0),
        })
    }

    /// The query that `config` belongs to.
    ///
    /// # Errors
    /// If the plan is run by somebody else than the engine.
    pub fn of(config: &SessionConfig) -> Result<Arc<Self>> {
        let query = config.get_extension::<QueryContext>();
        query.ok_or_else(|| exec_datafusion_err!("internal error, please report it: a scan of no query"))
    }

    /// Resources that all queries of the database share.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// The limits when the query began.
    pub fn limits(&self) -> &EngineSettings {
        &self.limits
    }

    /// The settings when the query began.
    pub fn settings(&self) -> &QuerySettings {
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
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for its rows any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether it was ended for want of memory.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.get().is_some()
    }

    fn exhaustion_error(&self) -> Option<DataFusionError> {
        self.exhausted.get().map(|message| external(Error::OutOfMemory(message.as_str().into())))
    }

    /// Ends it: queries take `taken` bytes, more than the `limit` of all of them.
    pub(crate) fn exhaust(&self, taken: usize, limit: usize) {
        let message = format!(
            "queries take {} MiB, and query_memory_limit is {} MiB: this one takes most of it in values and \
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
    pub(crate) async fn within_limits<T>(&self, work: impl Future<Output = T>) -> Result<T> {
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
    pub(crate) fn check(&self) -> Result<()> {
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

    /// The origin that requests to storage nodes name, as of now.
    pub(crate) fn origin(&self) -> Origin {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Origin {
            query_id: self.id.to_string(),
            tenant: self.settings.tenant.clone(),
            deadline_ms: left.map_or(0, |left| left.as_millis().max(1) as u64),
            busy_permille: self.resources.load.permille(),
        }
    }

    /// Has the query see `table` as it was found a moment ago.
    pub(crate) async fn sees(&self, table: &ExternalTable, snapshot: &Arc<Snapshot>) {
        let table_id = std::ptr::from_ref(table).addr();
        self.snapshots.lock().await.insert(table_id, Arc::clone(snapshot));
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
        let snapshot = table.snapshot(self.limits.partition_size).await?;
        for gone in before.objects_not_in(&snapshot) {
            self.resources.cache.remove_version(table.reader(), &gone.path, &gone.version);
        }
        if self.settings.indexes
            && let Some(table) = self.resources.table(&table.definition.name)
        {
            self.resources.indexes.keep_up(&table, &snapshot, self.limits.partition_size);
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
        let micros = |time: fn(&ScanMetrics) -> &Time| scans.iter().map(|scan| time(scan).value() as u64 / 1000).sum();
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
            computing_us: micros(|scan| &scan.time_compute),
            decoding_us: micros(|scan| &scan.time_decode),
            network_us: micros(|scan| &scan.time_network),
            storage_us: micros(|scan| &scan.time_storage),
            waiting_us: micros(|scan| &scan.time_waiting),
            expected_us: micros(|scan| &scan.time_expected),
            taken_us: micros(|scan| &scan.time_taken),
        }
    }
}
