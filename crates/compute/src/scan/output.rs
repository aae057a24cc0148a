//! The output streams of an execution: partitions in flight, their rows merged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_cache::Access;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_pushdown::{PushbackToken, Route};
use tokio::sync::mpsc;

use super::answers::{Keeping, batches};
use super::assemble::assembled;
use super::exchange::exchange;
use super::group::Group;
use super::poll_time::{PollTime, timed};
use super::remote::Hints;
use super::run::{Batches, ScanRun, Sender, hand_over, hits};
use super::work::Work;
use crate::learning::Seen;

/// Batches that wait for the operators above, per partition in flight.
const BATCHES_AHEAD: usize = 2;

/// One output stream: what is processed here and what storage nodes send, as they come.
///
/// # Errors
/// If the fragment cannot be instantiated.
pub(super) fn output(run: Arc<ScanRun>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let here = select(cached(Arc::clone(&run)), select(at_hand(Arc::clone(&run)), fetched(Arc::clone(&run))));
    let work_here = Arc::clone(&run.work_here);
    let here = here.inspect_ok(move |batch| work_here.rows(batch.num_rows()));
    let here = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&run.input), here));
    let here = computed(&run, run.fragment.instantiate(here)?.execute(0, Arc::clone(&context))?);
    let schema = run.fragment.schema();
    let fetch = run.fetch;
    let there = select(answered(Arc::clone(&run)), pushed(Arc::clone(&run)));
    let mut merged = select(here, select(there, made(Arc::clone(&run))));
    if let Some(above) = &run.above {
        let rows = Box::pin(RecordBatchStreamAdapter::new(above.input_schema(), selected(Arc::clone(&run))));
        let rows = timed(above.instantiate(rows)?.execute(0, context)?, &run.metrics.time_compute);
        merged = select(merged, rows.boxed());
    }
    let merged = match fetch {
        None => merged,
        Some(fetch) => limited(merged, fetch),
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, merged)))
}

/// What the fragment makes of the rows that are here, and the time that it takes.
fn computed(run: &ScanRun, batches: SendableRecordBatchStream) -> Batches {
    let (time, work_here) = (run.metrics.time_compute.clone(), Arc::clone(&run.work_here));
    let add = move |took: Duration| {
        time.add_duration(took);
        work_here.computed(took);
    };
    PollTime::new(batches, add).boxed()
}

fn select(a: Batches, b: Batches) -> Batches {
    stream::select(a, b).boxed()
}

/// The first `rows` rows.
fn limited(batches: Batches, rows: usize) -> Batches {
    let left = (rows > 0).then_some((batches, rows));
    let next = |left: Option<(Batches, usize)>| async move {
        let (mut batches, left) = left?;
        let batch = batches.next().await?.map(|batch| batch.slice(0, batch.num_rows().min(left)));
        let left = left - batch.as_ref().map_or(0, RecordBatch::num_rows);
        // No other batch is waited for once these are all.
        Some((batch, (left > 0).then_some((batches, left))))
    };
    stream::unfold(left, next).boxed()
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
        if morsel.is_last() {
            run.done(1);
        }
        Some((stream::iter(morsel.batches()), run))
    })
    .flatten()
    .boxed()
}

/// Kept answers.
fn answered(run: Arc<ScanRun>) -> Batches {
    let schema = run.fragment.schema();
    queue(run, |run| &run.answered)
        .map(move |(run, work)| {
            run.done(1);
            let answer = match work.answer {
                Some(Access::Hit(answer)) => Some(answer),
                _ => None,
            };
            stream::iter(answer.map(|answer| batches(&answer, &schema)).into_iter().flatten())
        })
        .flatten()
        .boxed()
}

/// Partitions whose bytes are at hand, one at a time: there is nothing to wait for, and a task in
/// between would only move batches between cores.
fn at_hand(run: Arc<ScanRun>) -> Batches {
    let batches = |(run, work): (Arc<ScanRun>, Work)| match work.route {
        Route::Local => kept(run, work),
        _ => pulled_up(run, Group::of(work)),
    };
    queue(run, |run| &run.at_hand).map(batches).flatten().boxed()
}

/// A partition whose columns are all cached, some of them as stored bytes. Columns that are to stay decoded are decoded by a
/// task of its own: other queries wait for them, and this stream may not be polled until its rows are wanted.
fn kept(run: Arc<ScanRun>, work: Work) -> Batches {
    let batches = async move {
        let of_task = Arc::clone(&run);
        let task = SpawnedTask::spawn(async move { assembled(&of_task, work, None).await });
        let failed = |error| exec_datafusion_err!("a partition's task failed: {error}");
        let batches = task.join().await.map_err(failed)??;
        let done = stream::once(async move {
            run.done(1);
            None
        });
        Ok::<_, DataFusionError>(batches.map(Some).chain(done).filter_map(std::future::ready))
    };
    stream::once(batches).try_flatten().boxed()
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

/// Partitions of which this side makes the answer by itself, several at once.
fn made(run: Arc<ScanRun>) -> Batches {
    let ahead = run.ahead;
    queue(run, |run| &run.made)
        .map(|(run, work)| produced(|sender| make(run, work, sender)))
        .flatten_unordered(ahead)
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
    if !hand_over(&sender, assembled(&run, work, None).await?).await {
        return Ok(());
    }
    run.done(1);
    Ok(())
}

/// What the fragment makes of one partition, which is kept: the fragment that storage would be asked for, because two joins
/// with different keys may send the same Bloom filter.
async fn make(run: Arc<ScanRun>, mut work: Work, sender: Sender) -> Result<()> {
    let mut keeping = Keeping::new(work.answer.take(), work.answer_bytes_max);
    let rows = match (work.route, work.segments.is_empty()) {
        (Route::Local, _) if work.is_decoded() => {
            let batch_rows = run.context.session_config().batch_size();
            stream::iter(hits(work, &run.input).batches(batch_rows)).boxed()
        }
        (_, true) => stored_group(&run, &Group::of(work), None).await?,
        (_, false) => assembled(&run, work, None).await?,
    };
    let work_here = Arc::clone(&run.work_here);
    let rows = rows.inspect_ok(move |batch| work_here.rows(batch.num_rows()));
    let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&run.input), rows));
    let answer = computed(&run, run.fragment_there.instantiate(rows)?.execute(0, Arc::clone(&run.context))?);
    let kept = answer.inspect_ok(|batch| keeping.add(batch));
    if hand_over(&sender, kept).await {
        keeping.complete(&run.metrics);
        run.done(1);
    }
    Ok(())
}

/// Partitions of which nothing is cached, nor will be: their rows as they are decoded.
async fn fetch_streaming(run: Arc<ScanRun>, group: Group, sender: Sender) -> Result<()> {
    hand_over(&sender, pulled_up(run, group)).await;
    Ok(())
}

/// All needed columns of the partitions of a group, from their stored bytes.
fn pulled_up(run: Arc<ScanRun>, group: Group) -> Batches {
    let batches = async move {
        let batches = stored_group(&run, &group, None).await?;
        let done = stream::once(async move {
            run.done(group.len());
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
        run.stored(Arc::clone(&source), &object, &partition, run.columns.clone(), predicate.clone())
    });
    Ok(batches.try_flatten().boxed())
}

/// Route `pushdown`. If the node is busy, or says that the stored bytes are smaller than its answer
/// or that the fragment does not fit its memory, the fragment runs here over the stored bytes.
async fn push(run: Arc<ScanRun>, group: Group, sender: Sender) -> Result<()> {
    let mut keeping = Keeping::default();
    let group = match group.into_single() {
        Ok(mut work) => match work.plan.take() {
            Some(plan) => return exchange(run, plan, work, sender).await,
            None => {
                keeping = Keeping::new(work.answer.take(), work.answer_bytes_max);
                Group::of(work)
            }
        },
        Err(group) => group,
    };
    let Some(object) = group.object() else { return Ok(()) };
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
        expected_s: run.expected_s_per_row * rows_in as f64,
    };
    let compression = run.compression(object);
    let answer = run.call.run(Arc::clone(object), group.partitions(), run.fragment.schema(), compression, hints).await;
    let mut meter = None;
    let batches = match answer {
        Ok(answered) => {
            meter = Some(answered.meter);
            timed(answered.batches, &run.metrics.time_decode).boxed()
        }
        Err(error) if error.wants_pullup() => {
            run.learn_refusal(object, error.kind);
            if error.kind == ErrorKind::RawIsSmaller {
                run.learn_raw_is_smaller(run.shape, &group, true);
                run.learn_answer_is_larger(&group);
            }
            pull_up_instead(&run, &group, error.pushback).await?
        }
        Err(error) => return Err(DataFusionError::from(error)),
    };
    let mut rows_out = 0;
    let is_answer = meter.is_some();
    let counted = batches.inspect_ok(|batch| {
        rows_out += batch.num_rows() as u64;
        if is_answer {
            keeping.add(batch);
        }
    });
    if !hand_over(&sender, counted).await {
        return Ok(());
    }
    if let Some(meter) = meter {
        keeping.complete(&run.metrics);
        // What leaves an aggregate or a limit does not tell how many rows passed the filter.
        let selected = run.yields_selected.then_some(rows_out);
        let storage_s = Some(meter.storage().as_secs_f64());
        run.observe(&group, Seen { selected, answer_bytes: Some(meter.bytes()), storage_s, ..Seen::default() });
        run.learn_raw_is_smaller(run.shape, &group, false);
        run.observe_misses(&group, meter.work());
    }
    run.done(group.len());
    Ok(())
}

async fn pull_up_instead(run: &Arc<ScanRun>, group: &Group, pushback: Option<PushbackToken>) -> Result<Batches> {
    run.metrics.partitions(Route::Pullup).add(group.len());
    run.metrics.partitions_pushed_back.add(group.len());
    let stored = stored_group(run, group, pushback).await?;
    let input = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&run.input), stored));
    let batches = run.fragment.instantiate(input)?.execute(0, Arc::clone(&run.context))?;
    Ok(timed(batches, &run.metrics.time_compute).boxed())
}
