//! One execution of a scan: partitions in flight, their rows merged into the output streams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_cache::Access;
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_formats::{PartitionReader, RangeSource, ReadOptions};
use thermocline_pushdown::wire::{Compression, ErrorKind};
use thermocline_pushdown::{FileFormat, Fragment, PartitionRange, PushbackToken, Route};
use thermocline_storage::Content;
use tokio::sync::mpsc;

use super::assemble::assembled;
use super::bitmap::exchange;
use super::by_index::indexes_of;
use super::expected::ExpectedAnswer;
use super::group::{Group, grouped};
use super::group_source::{GroupSource, chunk_ranges};
use super::hybrid_scan::HybridScanExec;
use super::local::Columns;
use super::morsels::Morsels;
use super::remote::{FragmentCall, Hints, RemoteSource};
use super::router::{Work, route};
use crate::learning::{Expected, Place, Shape};
use crate::query::{QueryContext, RunningScan, ScanMetrics};
use crate::settings::WireCompression;

/// Batches that wait for the operators above, per partition in flight.
const BATCHES_AHEAD: usize = 2;
/// Rows of a segment's chunks: those of DataFusion's batches, unless a session asks for others. It is
/// one number for all sessions, so that the chunks of columns that were loaded at different times end
/// at the same rows.
const CHUNK_ROWS: usize = 8192;

pub(super) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// State that the output streams of one execution share. A stream that is free takes the next partition.
#[derive(Debug)]
pub(super) struct ScanRun {
    /// Partitions whose columns are all in memory.
    cached: Morsels,
    /// Partitions to pull up from nodes without a link in between.
    at_hand: Mutex<VecDeque<Work>>,
    /// Partitions to load or pull up.
    fetched: Mutex<VecDeque<Group>>,
    /// Partitions that storage nodes process.
    pushed: Mutex<VecDeque<Group>>,
    /// Partitions in `pushed`.
    pushed_left: AtomicUsize,
    /// Partitions of which the rows that pass the filter are put together here.
    selected: Mutex<VecDeque<Work>>,
    /// The operators above the filter, for those; `None` if there are none.
    above: Option<Fragment>,
    /// Groups of partitions in flight per output stream and queue.
    ahead: usize,
    pub(super) fragment: Fragment,
    /// Whether the fragment yields every row that passes its filter.
    yields_selected: bool,
    pub(super) input: SchemaRef,
    pub(super) columns: Vec<usize>,
    table_schema: SchemaRef,
    format: FileFormat,
    fetch: Option<usize>,
    pub(super) call: FragmentCall,
    /// Expected answers to the fragment.
    pub(super) expected: ExpectedAnswer,
    pub(super) query: Arc<QueryContext>,
    pub(super) shape: Shape,
    /// Expectations from statistics, which what is learnt of `shape` corrects.
    statistics: Expected,
    pub(super) metrics: ScanMetrics,
    _running: RunningScan,
    pub(super) context: Arc<TaskContext>,
    /// The same for reading segments.
    segment_context: Arc<TaskContext>,
}

impl ScanRun {
    /// Routes all partitions of `scan`, once per execution.
    pub(super) fn new(scan: &HybridScanExec, context: &Arc<TaskContext>) -> Result<Self> {
        let metrics = scan.scan_metrics().clone();
        let query = Arc::clone(scan.query());
        query.register(metrics.clone(), scan.partitions().len());
        let input = scan.fragment().input_schema();
        let (mut cached, mut at_hand) = (vec![], VecDeque::new());
        let (mut fetched, mut pushed, mut selected) = (vec![], vec![], VecDeque::new());
        let mut largest = 1;
        for work in route(scan, &metrics) {
            if work.route != Route::Local {
                largest = largest.max(work.partition.stored_bytes(scan.columns()));
            }
            match work.route {
                Route::Local => cached.push(hits(work, &input)),
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
        let above = scan.fragment().selection()?.above;
        Ok(Self {
            cached: Morsels::new(cached),
            at_hand: Mutex::new(at_hand),
            fetched: Mutex::new(fetched),
            pushed: Mutex::new(pushed),
            pushed_left,
            above: (!selected.is_empty()).then(|| above.clone()),
            selected: Mutex::new(selected),
            ahead: in_flight.div_ceil(scan.outputs()),
            yields_selected: !above.reduces(),
            fragment: scan.fragment_here().clone(),
            input,
            columns: scan.columns().to_vec(),
            table_schema: Arc::clone(scan.table_schema()),
            format: scan.format().clone(),
            fetch: datafusion::physical_plan::ExecutionPlan::fetch(scan),
            call: FragmentCall {
                fragment: Content::fragment(scan.encoded().cloned().unwrap_or_default()),
                shape: scan.shape().general(),
                table_schema: Content::schema(Arc::clone(scan.encoded_schema())),
                format: scan.format().clone(),
                query: Arc::clone(&query),
                accepts_pushback: settings.pushback,
                metrics: metrics.clone(),
                indexes: indexes_of(scan),
            },
            expected: ExpectedAnswer::of(scan),
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
    fn source(&self, object: &Arc<PlannedObject>, pushback: Option<PushbackToken>) -> Arc<dyn RangeSource> {
        Arc::new(RemoteSource {
            object: Arc::clone(object),
            origin: self.query.origin(),
            metrics: self.metrics.clone(),
            pushback,
        })
    }

    /// The stored bytes of a group's object, of which those of the group are fetched together.
    async fn group_source(&self, group: &Group, source: Arc<dyn RangeSource>) -> Result<Arc<dyn RangeSource>> {
        let Some(object) = group.object().filter(|_| group.len() > 1) else { return Ok(source) };
        let partitions = group.iter().map(|work| work.partition.range);
        let ranges = match &self.format {
            FileFormat::Parquet => {
                let footer = object.node.footers().get(&source, false).await?;
                let fields = self.columns.iter().filter_map(|column| self.table_schema.fields().get(*column));
                chunk_ranges(footer.metadata(), partitions, &fields.map(|field| field.name().as_str()).collect())
            }
            FileFormat::Csv(_) => partitions
                .filter_map(|range| match range {
                    PartitionRange::Bytes { start, end, .. } => Some(start..end),
                    PartitionRange::RowGroups { .. } => None,
                })
                .collect(),
        };
        Ok(Arc::new(GroupSource::new(source, ranges)))
    }

    fn reader(&self, object: &Arc<PlannedObject>, source: Arc<dyn RangeSource>) -> PartitionReader {
        PartitionReader {
            source,
            format: object.format(&self.format),
            table_schema: Arc::clone(&self.table_schema),
            footers: object.node.footers().clone(),
        }
    }

    /// Partitions for which storage nodes were not asked yet: those of which rows are put together
    /// here, or those whose answer is the fragment's result.
    pub(super) fn waiting(&self, rows: bool) -> usize {
        if rows { self.selected.lock().len() } else { self.pushed_left.load(Ordering::Relaxed) }
    }

    /// Remembers what the fragment selected of partitions and how large the answer was, as far as they
    /// are known.
    pub(super) fn observe(&self, works: &[Work], selected: Option<u64>, answer_bytes: Option<u64>) {
        let rows = works.iter().map(|work| work.partition.rows).sum();
        let experience = &self.query.resources().experience;
        experience.observe(self.shape, self.statistics, (&places(works), rows), selected, answer_bytes);
    }

    /// Remembers whether the stored bytes of partitions were smaller than the answer.
    pub(super) fn learn_raw_is_smaller(&self, shape: Shape, works: &[Work], smaller: bool) {
        self.query.resources().experience.learn_raw_is_smaller(shape, self.statistics, &places(works), smaller);
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

    /// Columns `positions` (of the needed ones) of a partition, from its stored bytes, without pages
    /// in which no row passes `predicate`.
    fn stored(
        &self,
        source: Arc<dyn RangeSource>,
        object: &Arc<PlannedObject>,
        partition: &Arc<Partition>,
        positions: &[usize],
        predicate: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Batches> {
        self.read(source, object, partition, positions, predicate, &self.context)
    }

    /// All rows of columns `positions`, in batches of [`CHUNK_ROWS`]: what stands beside cached
    /// columns, or is going to be cached.
    pub(super) fn segments(
        &self,
        object: &Arc<PlannedObject>,
        partition: &Arc<Partition>,
        positions: &[usize],
        pushback: Option<PushbackToken>,
    ) -> Result<Batches> {
        self.read(self.source(object, pushback), object, partition, positions, None, &self.segment_context)
    }

    fn read(
        &self,
        source: Arc<dyn RangeSource>,
        object: &Arc<PlannedObject>,
        partition: &Arc<Partition>,
        positions: &[usize],
        predicate: Option<Arc<dyn PhysicalExpr>>,
        context: &Arc<TaskContext>,
    ) -> Result<Batches> {
        self.metrics.columns_scanned.add(positions.len());
        let statistics = matches!(self.format, FileFormat::Csv(_)).then(Arc::default);
        let columns = positions.iter().filter_map(|position| self.columns.get(*position).copied()).collect();
        let options = ReadOptions { columns, predicate, statistics: statistics.clone(), ..ReadOptions::default() };
        let batches = self.reader(object, source).stream(partition.range, &options, context)?;
        let partition = Arc::clone(partition);
        let learn = stream::once(async move {
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
fn with_batches_of(rows: usize, context: &Arc<TaskContext>) -> Arc<TaskContext> {
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

/// One output stream: what is processed here and what storage nodes send, as they come.
///
/// # Errors
/// If the fragment cannot be instantiated.
pub(super) fn output(run: Arc<ScanRun>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let here = select(cached(Arc::clone(&run)), select(at_hand(Arc::clone(&run)), fetched(Arc::clone(&run))));
    let here = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&run.input), here));
    let here = run.fragment.instantiate(here)?.execute(0, Arc::clone(&context))?;
    let schema = run.fragment.schema();
    let fetch = run.fetch;
    let mut merged = select(here.boxed(), pushed(Arc::clone(&run)));
    if let Some(above) = &run.above {
        let rows = Box::pin(RecordBatchStreamAdapter::new(above.input_schema(), selected(Arc::clone(&run))));
        merged = select(merged, above.instantiate(rows)?.execute(0, context)?.boxed());
    }
    let merged = match fetch {
        None => merged,
        Some(fetch) => limited(merged, fetch),
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, merged)))
}

fn select(a: Batches, b: Batches) -> Batches {
    stream::select(a, b).boxed()
}

/// The first `rows` rows.
fn limited(batches: Batches, rows: usize) -> Batches {
    batches
        .scan(rows, |left, batch| {
            let batch = batch.map(|batch| batch.slice(0, batch.num_rows().min(*left)));
            let done = *left == 0;
            if let Ok(batch) = &batch {
                *left -= batch.num_rows();
            }
            std::future::ready((!done).then_some(batch))
        })
        .boxed()
}

/// Takes from a queue until it is empty.
fn queue<T: 'static>(
    run: Arc<ScanRun>,
    queue: fn(&ScanRun) -> &Mutex<VecDeque<T>>,
) -> impl futures::Stream<Item = (Arc<ScanRun>, T)> {
    stream::iter(std::iter::from_fn(move || {
        let work = queue(&run).lock().pop_front()?;
        Some((Arc::clone(&run), work))
    }))
}

/// The columns of a partition that is all cached.
fn hits(work: Work, schema: &SchemaRef) -> Columns {
    let hit = |access| match access {
        Access::Hit(segment) => Some(segment),
        Access::Load(_) | Access::Missing => None,
    };
    Columns::new(Arc::clone(schema), work.partition.rows as usize, work.segments.into_iter().filter_map(hit))
}

/// Partitions that need no I/O, morsel by morsel.
///
/// Nothing here ever waits, so a task that aggregates these rows would keep its thread to the end of
/// the scan, and with it the task that was woken last on that thread, which no other thread may take
/// over: often the one that reads the scan's other output stream, as all of them wait for the routes
/// to be made. So the stream yields before every morsel, the first one included.
fn cached(run: Arc<ScanRun>) -> Batches {
    stream::unfold(run, |run| async move {
        tokio::task::yield_now().await;
        let morsel = run.cached.take(run.context.session_config().batch_size())?;
        run.metrics.partitions_done.add(usize::from(morsel.is_last()));
        Some((stream::iter(morsel.batches()), run))
    })
    .flatten()
    .boxed()
}

/// Partitions whose bytes are at hand, one at a time: there is nothing to wait for, and a task in
/// between would only move batches between cores.
fn at_hand(run: Arc<ScanRun>) -> Batches {
    queue(run, |run| &run.at_hand).map(|(run, work)| pulled_up(run, Group::of(work))).flatten().boxed()
}

/// Partitions whose bytes are fetched, several at once.
fn fetched(run: Arc<ScanRun>) -> Batches {
    let ahead = run.ahead;
    queue(run, |run| &run.fetched)
        .map(|(run, group)| async move { produced(|sender| fetch(run, group, sender)) })
        .buffered(ahead)
        .flatten()
        .boxed()
}

/// Partitions that storage nodes process, several at once, in the order in which they come: one
/// that waits at a busy node holds up no others.
fn pushed(run: Arc<ScanRun>) -> Batches {
    let ahead = run.ahead;
    queue(run, |run| &run.pushed)
        .map(|(run, group)| {
            run.pushed_left.fetch_sub(group.len(), Ordering::Relaxed);
            produced(|sender| push(run, group, sender))
        })
        .flatten_unordered(ahead)
        .boxed()
}

/// Partitions of which both sides have a part, several at once.
fn selected(run: Arc<ScanRun>) -> Batches {
    let ahead = run.ahead;
    queue(run, |run| &run.selected)
        .map(|(run, work)| produced(|sender| push(run, Group::of(work), sender)))
        .flatten_unordered(ahead)
        .boxed()
}

pub(super) type Sender = mpsc::Sender<Result<RecordBatch>>;

/// Runs `producer` in a task of its own, so that its I/O goes on while this stream waits to be
/// polled; dropping the stream ends the task.
fn produced<F>(producer: impl FnOnce(Sender) -> F) -> Batches
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (sender, mut receiver) = mpsc::channel(BATCHES_AHEAD);
    let task = SpawnedTask::spawn(producer(sender));
    let end = stream::once(async move {
        match task.join().await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(error) => Some(Err(exec_datafusion_err!("a partition's task failed: {error}"))),
        }
    });
    stream::poll_fn(move |context| receiver.poll_recv(context)).chain(end.filter_map(|end| async move { end })).boxed()
}

/// Hands a batch over; `false` if nobody wants it any more.
pub(super) async fn hand_over(sender: &Sender, batch: Result<RecordBatch>) -> bool {
    sender.send(batch).await.is_ok()
}

/// Routes `load` and `pullup`.
async fn fetch(run: Arc<ScanRun>, group: Group, sender: Sender) -> Result<()> {
    let work = match group.into_single() {
        Ok(work) if !work.segments.is_empty() => Ok(work),
        Ok(work) => Err(Group::of(work)),
        Err(group) => Err(group),
    };
    let work = match work {
        Ok(work) => work,
        Err(group) => return fetch_streaming(run, group, sender).await,
    };
    let started = Instant::now();
    let mut batches = assembled(&run, work, None).await?;
    while let Some(batch) = batches.next().await {
        let failed = batch.is_err();
        if !hand_over(&sender, batch).await || failed {
            return Ok(());
        }
    }
    run.metrics.time_compute.add_duration(started.elapsed());
    run.metrics.partitions_done.add(1);
    Ok(())
}

/// Partitions of which nothing is cached, nor will be: their rows as they are decoded.
async fn fetch_streaming(run: Arc<ScanRun>, group: Group, sender: Sender) -> Result<()> {
    let mut batches = pulled_up(run, group);
    while let Some(batch) = batches.next().await {
        let failed = batch.is_err();
        if !hand_over(&sender, batch).await || failed {
            return Ok(());
        }
    }
    Ok(())
}

/// All needed columns of the partitions of a group, from their stored bytes.
fn pulled_up(run: Arc<ScanRun>, group: Group) -> Batches {
    let batches = async move {
        let started = Instant::now();
        let batches = stored_group(&run, &group, None).await?;
        let done = stream::once(async move {
            run.metrics.time_compute.add_duration(started.elapsed());
            run.metrics.partitions_done.add(group.len());
            None
        });
        Ok::<_, DataFusionError>(batches.map(Some).chain(done).filter_map(std::future::ready))
    };
    stream::once(batches).try_flatten().boxed()
}

/// The needed columns of a group's partitions, one after the other.
async fn stored_group(run: &Arc<ScanRun>, group: &Group, pushback: Option<PushbackToken>) -> Result<Batches> {
    let Some(object) = group.object().cloned() else { return Ok(stream::empty().boxed()) };
    let source = run.group_source(group, run.source(&object, pushback)).await?;
    // The page index is one more round trip, which only pays where that costs nothing.
    let predicate = match object.node.capabilities().crosses_link {
        true => None,
        false => run.fragment.predicate().cloned(),
    };
    let run = Arc::clone(run);
    let batches = stream::iter(group.partitions()).map(move |partition| {
        let all: Vec<usize> = (0..run.columns.len()).collect();
        run.stored(Arc::clone(&source), &object, &partition, &all, predicate.clone())
    });
    Ok(batches.try_flatten().boxed())
}

/// Route `pushdown`. If the node is busy, or says that the stored bytes are smaller than its answer
/// or that the fragment does not fit its memory, the fragment runs here over the stored bytes.
async fn push(run: Arc<ScanRun>, group: Group, sender: Sender) -> Result<()> {
    let group = match group.into_single() {
        Ok(mut work) => match work.plan.take() {
            Some(plan) => return exchange(run, plan, work, sender).await,
            None => Group::of(work),
        },
        Err(group) => group,
    };
    let Some(object) = group.object() else { return Ok(()) };
    let started = Instant::now();
    run.metrics.columns_scanned.add(run.columns.len() * group.len());
    // An answer of plain text streams; another must stay below what is stored, or the node says so.
    let bytes_in = group.stored_bytes(&run.columns);
    let rows_in = group.iter().map(|work| work.partition.rows).sum();
    let is_plain_text = group.iter().any(|work| work.partition.is_plain_text());
    let hints = Hints {
        answer_bytes_max: if is_plain_text { 0 } else { bytes_in.max(1) },
        bytes_in,
        bytes_out_estimate: run.expected.bytes(rows_in),
        partitions_to_follow: run.pushed_left.load(Ordering::Relaxed) as u32,
    };
    let compression = run.compression(object);
    let answer = run.call.run(Arc::clone(object), group.partitions(), run.fragment.schema(), compression, hints).await;
    let mut bytes = None;
    let mut batches = match answer {
        Ok(answered) => {
            bytes = Some(answered.bytes);
            answered.batches
        }
        Err(error) if error.wants_pullup() => {
            if error.kind == ErrorKind::RawIsSmaller {
                run.learn_raw_is_smaller(run.shape, &group, true);
            }
            pull_up_instead(&run, &group, error.pushback).await?
        }
        Err(error) => return Err(DataFusionError::from(error)),
    };
    let mut rows_out = 0;
    while let Some(batch) = batches.next().await {
        let failed = batch.is_err();
        rows_out += batch.as_ref().map_or(0, RecordBatch::num_rows) as u64;
        if !hand_over(&sender, batch).await || failed {
            return Ok(());
        }
    }
    if let Some(bytes) = bytes {
        // What leaves an aggregate or a limit does not tell how many rows passed the filter.
        let selected = run.yields_selected.then_some(rows_out);
        let bytes = bytes.load(Ordering::Relaxed);
        run.observe(&group, selected, Some(bytes));
        run.learn_raw_is_smaller(run.shape, &group, false);
    }
    run.metrics.time_compute.add_duration(started.elapsed());
    run.metrics.partitions_done.add(group.len());
    Ok(())
}

async fn pull_up_instead(run: &Arc<ScanRun>, group: &Group, pushback: Option<PushbackToken>) -> Result<Batches> {
    run.metrics.partitions(Route::Pullup).add(group.len());
    run.metrics.partitions_pushed_back.add(group.len());
    let stored = stored_group(run, group, pushback).await?;
    let input = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&run.input), stored));
    Ok(run.fragment.instantiate(input)?.execute(0, Arc::clone(&run.context))?.boxed())
}
