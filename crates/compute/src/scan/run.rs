//! One execution of a scan: the routed partitions that its output streams take, and how they are read.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use thermocline_cache::Access;
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_formats::{PartitionReader, RangeSource, ReadOptions};
use thermocline_pushdown::wire::{Compression, ErrorKind};
use thermocline_pushdown::{FileFormat, Fragment, PartitionRange, PushbackToken, Route};
use thermocline_storage::Content;
use tokio::sync::mpsc;

use super::auto::Estimates;
use super::by_index::indexes_of;
use super::costing::Unseen;
use super::expected::ExpectedAnswer;
use super::group::{Group, grouped};
use super::group_source::{GroupSource, chunk_ranges};
use super::local::Columns;
use super::morsels::Morsels;
use super::poll_time::PollTime;
use super::probe::begin_more_probes;
use super::remote::{FragmentCall, RemoteSource};
use super::router::{Routing, route};
use super::scan_plan::ScanPlan;
use super::window::Windows;
use super::work::Work;
use crate::learning::{Expected, Place, Seen, Shape};
use crate::model::DecodeKind;
use crate::query::{QueryContext, RunningScan, ScanMetrics};
use crate::settings::WireCompression;

/// Rows of a segment's chunks: those of DataFusion's batches, unless a session asks for others. It is
/// one number for all sessions, so that the chunks of columns that were loaded at different times end
/// at the same rows.
const CHUNK_ROWS: usize = 8192;
/// Stored bytes of small row groups that one request fetches: few enough for a LIMIT to need little more than it reads.
const PIECE_BYTES: u64 = 1 << 20;

pub(super) type Batches = BoxStream<'static, Result<RecordBatch>>;

pub(super) type Sender = mpsc::Sender<Result<RecordBatch>>;

/// State that the output streams of one execution share. A stream that is free takes the next partition.
#[derive(Debug)]
pub(super) struct ScanRun {
    /// Partitions whose columns are all in memory.
    pub(super) cached: Morsels,
    /// Partitions of which the answer is kept.
    pub(super) answered: Mutex<VecDeque<Work>>,
    /// Partitions whose stored bytes are in memory, or to pull up from nodes without a link in between.
    pub(super) at_hand: Mutex<VecDeque<Work>>,
    /// Partitions to load or pull up.
    pub(super) fetched: Mutex<VecDeque<Group>>,
    /// Partitions of which this side makes the answer by itself, to be kept.
    pub(super) made: Mutex<VecDeque<Work>>,
    /// Partitions that storage nodes process.
    pub(super) pushed: Mutex<VecDeque<Group>>,
    /// Partitions in `pushed`.
    pub(super) pushed_left: AtomicUsize,
    /// Partitions of which the rows that pass the filter are put together here.
    pub(super) selected: Mutex<VecDeque<Work>>,
    /// The operators above the filter, for those; `None` if there are none.
    pub(super) above: Option<Fragment>,
    /// Groups of partitions in flight per output stream and queue.
    pub(super) ahead: usize,
    pub(super) fragment: Fragment,
    /// The fragment as storage is asked for it, of which answers are kept. Its filters of joins may let more rows pass.
    pub(super) fragment_there: Fragment,
    /// Whether the fragment yields every row that passes its filter.
    pub(super) yields_selected: bool,
    pub(super) input: SchemaRef,
    pub(super) columns: Vec<usize>,
    table_schema: SchemaRef,
    format: FileFormat,
    pub(super) fetch: Option<usize>,
    pub(super) call: FragmentCall,
    /// Expected answers to the fragment.
    pub(super) expected: ExpectedAnswer,
    pub(super) query: Arc<QueryContext>,
    /// Rows of all partitions.
    rows: u64,
    pub(super) shape: Shape,
    /// Expectations from statistics, which what is learnt of `shape` corrects.
    statistics: Expected,
    /// Seconds per row that one of this side's cores is expected to take.
    pub(super) expected_s_per_row: f64,
    pub(super) work_here: Arc<WorkHere>,
    /// Time that the model expected; `None` where it did not choose.
    pub(super) estimates: Option<Estimates>,
    /// Stored bytes that are on their way.
    windows: Windows,
    started: Instant,
    /// Partitions that are not done.
    left: AtomicUsize,
    /// What was expected of storage, if the fragment had not been seen there.
    unseen: Option<Unseen>,
    /// Time until the last partition was done, so far.
    took_us: AtomicU64,
    pub(super) metrics: ScanMetrics,
    _running: RunningScan,
    pub(super) context: Arc<TaskContext>,
    /// The same for reading segments.
    segment_context: Arc<TaskContext>,
}

/// What a run has read and computed here.
#[derive(Debug, Default)]
pub(super) struct WorkHere {
    /// Rows that the fragment was given, and the time that it took for them.
    rows: AtomicU64,
    computed_ns: AtomicU64,
    /// What was decoded batch by batch.
    decoded: Decoded,
    /// What was decoded to be kept.
    kept: Decoded,
}

/// Bytes that were decoded ([`Partition::decoding_bytes`]), and the time that it took.
#[derive(Debug, Default)]
struct Decoded {
    bytes: AtomicU64,
    took_ns: AtomicU64,
}

impl WorkHere {
    /// Counts rows given to the fragment.
    pub(super) fn rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts time of the fragment.
    pub(super) fn computed(&self, time: Duration) {
        self.computed_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for ScanRun {
    /// Learns how fast this side was, and gives back what the loads of a scan that ends early have reserved.
    fn drop(&mut self) {
        let left = self.left.load(Ordering::Relaxed);
        if let Some(Estimates { time, .. }) = self.estimates.as_ref().filter(|_| left > 0) {
            self.query.resources().model.credit.lock().forget(time);
        }
        let WorkHere { rows, computed_ns, decoded, kept } = self.work_here.as_ref();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let resources = self.query.resources();
        let here_s = Some(of(computed_ns) as f64 / 1e9).filter(|seconds| *seconds > 0.0);
        let seen = Seen { here_s, ..Seen::default() };
        resources.experience.observe(self.shape, self.statistics, (&[], of(rows)), seen);
        let (table, is_text) = (self.shape.table(), matches!(self.format, FileFormat::Csv(_)));
        for (Decoded { bytes, took_ns }, is_kept) in [(decoded, false), (kept, true)] {
            let kind = DecodeKind { table, is_text, is_kept };
            resources.model.decoded(kind, of(bytes), Duration::from_nanos(of(took_ns)));
        }
    }
}

impl ScanRun {
    /// Routes all partitions of `scan`, once per execution.
    pub(super) fn new(scan: &ScanPlan, metrics: &ScanMetrics, context: &Arc<TaskContext>) -> Result<Self> {
        let started = Instant::now();
        let metrics = metrics.clone();
        let query = Arc::clone(scan.query());
        query.register(metrics.clone(), scan.partitions().len());
        let input = scan.fragment().input_schema();
        let (mut cached, mut answered, mut at_hand) = (vec![], VecDeque::new(), VecDeque::new());
        let (mut fetched, mut pushed, mut selected) = (vec![], vec![], VecDeque::new());
        let mut made = VecDeque::new();
        let mut largest = 1;
        let above = scan.fragment().selection()?.above;
        // From here on, nothing fails: what loads have reserved is given back by the run.
        let Routing { works, estimates, unseen, expected_s_per_row } = route(scan, &metrics);
        let left = AtomicUsize::new(works.len());
        begin_more_probes(scan, &works);
        if let Some(estimates) = &estimates {
            metrics
                .time_expected
                .add_duration(Duration::try_from_secs_f64(estimates.time.seconds()).unwrap_or_default());
        }
        for work in works {
            if !matches!(work.route, Route::Local | Route::Answered) {
                largest = largest.max(work.partition.stored_bytes(scan.columns()));
            }
            match work.route {
                Route::Local | Route::Load | Route::Pullup if work.keeps_answer() => made.push_back(work),
                Route::Local if work.is_decoded() => cached.push(hits(work, &input)),
                Route::Local => at_hand.push_back(work),
                Route::Answered => answered.push_back(work),
                Route::Pullup if work.segments.is_empty() && !work.object.node.capabilities().crosses_link => {
                    at_hand.push_back(work);
                }
                Route::Load | Route::Pullup => fetched.push(work),
                Route::Bitmap if work.plan.as_ref().is_some_and(|plan| plan.answers_rows()) => selected.push_back(work),
                Route::Pushdown | Route::Bitmap => pushed.push(work),
            }
        }
        let settings = query.settings();
        let running = query.resources().begin_scan();
        let bytes_in_flight = running.bytes_in_flight(settings.bytes_in_flight);
        let in_flight = |bytes: u64| (bytes_in_flight / bytes).clamp(1, settings.partitions_in_flight as u64) as usize;
        let pushed_left = AtomicUsize::new(pushed.len());
        let group = |works| grouped(works, scan.columns(), query.limits().partition_size, in_flight(largest));
        let (fetched, pushed) = (group(fetched), group(pushed));
        let of_groups = fetched.iter().chain(&pushed).map(|group| group.stored_bytes(scan.columns())).max();
        let in_flight = in_flight(largest.max(of_groups.unwrap_or(0)));
        Ok(Self {
            cached: Morsels::new(cached),
            answered: Mutex::new(answered),
            at_hand: Mutex::new(at_hand),
            fetched: Mutex::new(fetched),
            made: Mutex::new(made),
            pushed: Mutex::new(pushed),
            pushed_left,
            above: (!selected.is_empty()).then(|| above.clone()),
            selected: Mutex::new(selected),
            ahead: in_flight.div_ceil(scan.outputs()),
            yields_selected: !above.reduces(),
            fragment: scan.fragment_here().clone(),
            fragment_there: scan.fragment().clone(),
            input,
            columns: scan.columns().to_vec(),
            table_schema: Arc::clone(scan.table_schema()),
            format: scan.format().clone(),
            fetch: scan.fetch(),
            call: FragmentCall {
                fragment: scan.encoded().cloned().unwrap_or_else(|| Content::fragment(Arc::default())),
                shape: scan.shape().general(),
                table_schema: Content::schema(Arc::clone(scan.encoded_schema())),
                format: scan.format().clone(),
                query: Arc::clone(&query),
                accepts_pushback: settings.pushback,
                metrics: metrics.clone(),
                indexes: indexes_of(scan),
            },
            expected: ExpectedAnswer::of(scan),
            expected_s_per_row,
            work_here: Arc::default(),
            estimates,
            windows: Windows::default(),
            started,
            left,
            unseen,
            took_us: AtomicU64::new(0),
            rows: scan.partitions().iter().map(|(_, partition)| partition.rows).sum(),
            shape: scan.shape(),
            statistics: scan.expected(),
            query,
            metrics,
            _running: running,
            context: Arc::clone(context),
            segment_context: with_batches_of(CHUNK_ROWS, context),
        })
    }

    /// The stored bytes of an object, under the token of a pushback if there is one.
    pub(super) fn source(&self, object: &Arc<PlannedObject>, pushback: Option<PushbackToken>) -> Arc<dyn RangeSource> {
        let window = self.windows.of(object, &self.query.resources().model);
        Arc::new(RemoteSource::new(object, &self.query, &self.metrics, pushback, window))
    }

    /// The stored bytes of a group's object, of which those of the group are fetched together.
    pub(super) async fn group_source(
        &self,
        group: &Group,
        source: Arc<dyn RangeSource>,
    ) -> Result<Arc<dyn RangeSource>> {
        let Some(object) = group.object() else { return Ok(source) };
        if let [work] = &**group {
            return self.partition_source(source, object, &work.partition, &self.columns).await;
        }
        let partitions = group.iter().map(|work| work.partition.range);
        let ranges = match &self.format {
            FileFormat::Parquet => {
                let footer = object.node.footers().get(&source, false).await?;
                chunk_ranges(footer.metadata(), partitions, &self.names_of(&self.columns))
            }
            FileFormat::Csv(_) => partitions
                .filter_map(|range| match range {
                    PartitionRange::Bytes { start, end, .. } => Some(start..end),
                    PartitionRange::RowGroups { .. } => None,
                })
                .collect(),
        };
        Ok(Arc::new(GroupSource::new(source, ranges, u64::MAX)))
    }

    /// The stored bytes of an object over a link, of which those of `columns` of one partition are fetched in pieces of
    /// [`PIECE_BYTES`]: a reader asks for each row group by itself, and these may be small.
    pub(super) async fn partition_source(
        &self,
        source: Arc<dyn RangeSource>,
        object: &PlannedObject,
        partition: &Partition,
        columns: &[usize],
    ) -> Result<Arc<dyn RangeSource>> {
        let is_one = match partition.range {
            PartitionRange::RowGroups { start, end } => end.saturating_sub(start) <= 1,
            PartitionRange::Bytes { .. } => true,
        };
        if is_one || !object.node.capabilities().crosses_link {
            return Ok(source);
        }
        let footer = object.node.footers().get(&source, false).await?;
        let ranges = chunk_ranges(footer.metadata(), [partition.range], &self.names_of(columns));
        Ok(Arc::new(GroupSource::new(source, ranges, PIECE_BYTES)))
    }

    /// Names of columns of the table.
    fn names_of(&self, columns: &[usize]) -> HashSet<&str> {
        let fields = columns.iter().filter_map(|column| self.table_schema.fields().get(*column));
        fields.map(|field| field.name().as_str()).collect()
    }

    fn reader(&self, object: &Arc<PlannedObject>, source: Arc<dyn RangeSource>) -> PartitionReader {
        PartitionReader {
            source,
            format: object.format(&self.format),
            table_schema: Arc::clone(&self.table_schema),
            footers: object.node.footers().clone(),
        }
    }

    /// Counts partitions of which the last row was handed on.
    pub(super) fn done(&self, partitions: usize) {
        self.metrics.partitions_done.add(partitions);
        let now = self.started.elapsed().as_micros() as u64;
        let before = self.took_us.fetch_max(now, Ordering::Relaxed);
        let is_last = self.left.fetch_sub(partitions, Ordering::Relaxed) == partitions;
        if let Some(estimates) = &self.estimates {
            let time = &estimates.time;
            self.metrics.time_taken.add_duration(Duration::from_micros(now.saturating_sub(before)));
            if is_last {
                let took = self.query.resources().model.credit.lock().count(time, self.took().as_secs_f64());
                // What the first run of a fragment took corrects what is expected of it by itself.
                if time.is_uncached && !time.by_index && self.unseen.is_none() {
                    let uncached = Some(took / time.work).filter(|ratio| ratio.is_finite());
                    self.observe_all(Seen { uncached, ..Seen::default() });
                }
                self.observe_route(estimates, took);
            }
        }
    }

    /// Time until the last partition was done, so far.
    pub(super) fn took(&self) -> Duration {
        Duration::from_micros(self.took_us.load(Ordering::Relaxed))
    }

    /// Partitions for which storage nodes were not asked yet: those of which rows are put together
    /// here, or those whose answer is the fragment's result.
    pub(super) fn waiting(&self, rows: bool) -> usize {
        if rows { self.selected.lock().len() } else { self.pushed_left.load(Ordering::Relaxed) }
    }

    /// Remembers what the fragment has shown over partitions.
    pub(super) fn observe(&self, works: &[Work], seen: Seen) {
        let rows = works.iter().map(|work| work.partition.rows).sum();
        let experience = &self.query.resources().experience;
        experience.observe(self.shape, self.statistics, (&places(works), rows), seen);
        if let Some(unseen) = self.unseen {
            let expected = |per_row: f64| per_row * rows as f64;
            let mut known = self.query.resources().model.unseen.lock();
            if let Some(bytes) = seen.answer_bytes {
                known.answers.observe(bytes as f64, expected(unseen.answer_bytes));
            }
            if let Some(seconds) = seen.storage_s {
                known.storage.observe(seconds, expected(unseen.storage_s));
            }
        }
    }

    /// Remembers how a scan that took one route for all partitions, `took` seconds, differs from what was expected.
    fn observe_route(&self, estimates: &Estimates, took: f64) {
        let ratio = |expected: &f64| Some(took / expected).filter(|ratio| ratio.is_finite());
        // As for the time without a cache.
        let pushed = estimates.all_pushed.filter(|_| self.unseen.is_none());
        let fetched = estimates.all_fetched;
        let seen = Seen {
            pushed: pushed.as_ref().and_then(ratio),
            fetched: fetched.as_ref().filter(|_| estimates.has_run_here).and_then(ratio),
            ..Seen::default()
        };
        self.observe_all(seen);
        let mut known = self.query.resources().model.unseen.lock();
        pushed.into_iter().for_each(|expected| known.pushed.observe(took, expected));
        fetched.into_iter().for_each(|expected| known.fetched.observe(took, expected));
    }

    /// Remembers what the scan has shown as a whole.
    fn observe_all(&self, seen: Seen) {
        let experience = &self.query.resources().experience;
        experience.observe(self.shape, self.statistics, (&[], self.rows), seen);
    }

    /// Remembers that the storage of `object` did not run a fragment, if it was too busy.
    pub(super) fn learn_refusal(&self, object: &PlannedObject, kind: ErrorKind) {
        if kind == ErrorKind::PushedBack {
            self.query.resources().model.storage(object.node.label()).lock().refused();
        }
    }

    /// Tells the cache what the misses of pushed partitions cost, `work` together.
    pub(super) fn observe_misses(&self, works: &[Work], work: Duration) {
        let seconds = work.as_secs_f64() / works.len().max(1) as f64;
        let missed: Vec<_> = works.iter().flat_map(|work| &work.missed).map(|key| (key, seconds)).collect();
        if !missed.is_empty() {
            self.query.resources().cache.observe_miss(&missed);
        }
    }

    /// Remembers whether the stored bytes of partitions were smaller than the answer.
    pub(super) fn learn_raw_is_smaller(&self, shape: Shape, works: &[Work], smaller: bool) {
        self.query.resources().experience.learn_raw_is_smaller(shape, self.statistics, &places(works), smaller);
    }

    /// Remembers that the answer of storage would have been larger than the stored bytes of partitions.
    pub(super) fn learn_answer_is_larger(&self, works: &[Work]) {
        let Some(unseen) = self.unseen else { return };
        let stored: u64 = works.iter().map(|work| work.partition.stored_bytes(&self.columns)).sum();
        let rows: u64 = works.iter().map(|work| work.partition.rows).sum();
        let expected = unseen.answer_bytes * rows as f64;
        let answers = &mut self.query.resources().model.unseen.lock().answers;
        // By how much is not known.
        answers.observe((stored as f64).max(expected * answers.value()), expected);
    }

    pub(super) fn compression(&self, object: &PlannedObject) -> Compression {
        let capabilities = object.node.capabilities();
        capabilities.compression(match self.query.settings().compression {
            WireCompression::Fixed(compression) => compression,
            // Reading CSV takes so much longer than ZSTD that the smaller answer costs nothing.
            WireCompression::Auto if capabilities.crosses_link || self.format != FileFormat::Parquet => {
                Compression::Zstd
            }
            WireCompression::Auto => Compression::Lz4,
        })
    }

    /// Positions among the table's columns of those at `positions` of the needed ones.
    pub(super) fn columns_at(&self, positions: &[usize]) -> Vec<usize> {
        positions.iter().filter_map(|position| self.columns.get(*position).copied()).collect()
    }

    /// Columns of a partition, from its stored bytes, without pages in which no row passes `predicate`.
    pub(super) fn stored(
        &self,
        source: Arc<dyn RangeSource>,
        object: &Arc<PlannedObject>,
        partition: &Arc<Partition>,
        columns: Vec<usize>,
        predicate: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Batches> {
        self.read((source, object, partition), columns, predicate, &self.context, false)
    }

    /// All rows of columns, in batches of [`CHUNK_ROWS`]: what stands beside cached
    /// columns, or is going to be cached (`kept`).
    pub(super) fn segments(
        &self,
        source: Arc<dyn RangeSource>,
        object: &Arc<PlannedObject>,
        partition: &Arc<Partition>,
        columns: Vec<usize>,
        kept: bool,
    ) -> Result<Batches> {
        self.read((source, object, partition), columns, None, &self.segment_context, kept)
    }

    /// Where the stored bytes of each of the columns `positions` are in the object; none in text.
    pub(super) async fn ranges(
        &self,
        source: &Arc<dyn RangeSource>,
        object: &PlannedObject,
        partition: &Partition,
        positions: &[usize],
    ) -> Result<Vec<Vec<Range<u64>>>> {
        if self.format != FileFormat::Parquet {
            return Ok(positions.iter().map(|_| vec![]).collect());
        }
        let footer = object.node.footers().get(source, false).await?;
        let of_column = |position: &usize| {
            let field = self.columns.get(*position).and_then(|column| self.table_schema.fields().get(*column));
            let name = field.iter().map(|field| field.name().as_str()).collect();
            chunk_ranges(footer.metadata(), [partition.range], &name)
        };
        Ok(positions.iter().map(of_column).collect())
    }

    fn read(
        &self,
        (source, object, partition): (Arc<dyn RangeSource>, &Arc<PlannedObject>, &Arc<Partition>),
        columns: Vec<usize>,
        predicate: Option<Arc<dyn PhysicalExpr>>,
        context: &Arc<TaskContext>,
        kept: bool,
    ) -> Result<Batches> {
        self.metrics.columns_scanned.add(columns.len());
        let statistics = matches!(self.format, FileFormat::Csv(_)).then(Arc::default);
        let options = ReadOptions { columns, predicate, statistics: statistics.clone(), ..ReadOptions::default() };
        let batches = self.reader(object, source).stream(partition.range, &options, context)?;
        let time = self.metrics.time_decode.clone();
        let decoded_ns: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&decoded_ns);
        let batches = PollTime::new(batches, move |decoded: Duration| {
            time.add_duration(decoded);
            counted.fetch_add(decoded.as_nanos() as u64, Ordering::Relaxed);
        });
        let work_here = Arc::clone(&self.work_here);
        let decoding_bytes = partition.decoding_bytes(&options.columns);
        let partition = Arc::clone(partition);
        let learn = stream::once(async move {
            // The bytes of a partition of which not all was read are not known.
            let Decoded { bytes, took_ns } = if kept { &work_here.kept } else { &work_here.decoded };
            bytes.fetch_add(decoding_bytes, Ordering::Relaxed);
            took_ns.fetch_add(decoded_ns.load(Ordering::Relaxed), Ordering::Relaxed);
            if let Some(found) = statistics {
                let found: Vec<_> = std::mem::take(&mut *found.lock());
                found.iter().for_each(|column| partition.learn(column));
            }
            None
        });
        Ok(batches.map(Some).chain(learn).filter_map(|batch| async move { batch }).boxed())
    }
}

/// A context in which readers yield batches of `rows` rows.
pub fn with_batches_of(rows: usize, context: &Arc<TaskContext>) -> Arc<TaskContext> {
    if context.session_config().batch_size() == rows {
        return Arc::clone(context);
    }
    let config = context.session_config().clone().with_batch_size(rows);
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

fn places(works: &[Work]) -> Vec<Place> {
    works.iter().map(|work| Place::new(&work.object.path, work.partition.range)).collect()
}

/// The columns of a partition that is all cached.
pub(super) fn hits(work: Work, schema: &SchemaRef) -> Columns {
    let hit = |access| match access {
        Access::Hit(segment) => Some(segment),
        Access::Decode { .. } | Access::Load(_) | Access::Missing => None,
    };
    Columns::new(Arc::clone(schema), work.partition.rows as usize, work.segments.into_iter().filter_map(hit))
}

/// Hands batches over, up to the first error. `false` if not all were wanted, or one was an error.
pub(super) async fn hand_over(sender: &Sender, mut batches: impl Stream<Item = Result<RecordBatch>> + Unpin) -> bool {
    while let Some(batch) = batches.next().await {
        let failed = batch.is_err();
        if sender.send(batch).await.is_err() || failed {
            return false;
        }
    }
    true
}
