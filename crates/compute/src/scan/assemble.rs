//! All needed columns of a partition: cached ones as they are, others from its stored bytes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use futures::{StreamExt, TryStreamExt, stream};
use thermocline_cache::{Access, Claim, CountedBuffers, LoadTicket, PinnedSegment, Representation, StoredColumn};
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_formats::RangeSource;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_pushdown::{NodeError, PushbackToken};

use super::kept_source::KeptSource;
use super::loading::Loading;
use super::local::Columns;
use super::run::{Batches, ScanRun};
use super::work::{Companion, Work};

/// The rows of a partition of which some columns may be cached or admitted, in storage order. Stored
/// bytes are fetched under the token of a pushback if there is one.
///
/// Admitted columns are loaded whole before the first row is handed on: queries wait for them, and
/// whoever takes our rows may be waiting for those queries. They take memory that the cache has
/// reserved. Columns that are not kept decoded are decoded batch by batch, and held by nobody.
///
/// ```text
///   admitted as stored bytes ---- fetch -----> cache --+
///   cached as stored bytes ----------------------------+-- decode ---+
///   admitted decoded ------------ fetch ---------------+             +--> whole columns --> cache --+
///   cached decoded ---------------------------------------------------------------------------------+--> rows
///   missing, or kept as stored bytes ------------------------ decode, batch by batch ---------------+
/// ```
pub(super) async fn assembled(run: &ScanRun, work: Work, mut pushback: Option<PushbackToken>) -> Result<Batches> {
    let Work { object, partition, segments, companions, .. } = work;
    // Where a column is missing, one that another query loads is read again rather than waited for:
    // of text it costs no bytes, of Parquet it takes two queries at the same moment.
    let loads = !segments.iter().any(|access| matches!(access, Access::Missing));
    let mut columns: Vec<Option<PinnedSegment>> = vec![];
    let mut kept: Vec<PinnedSegment> = vec![];
    let (mut stored_loads, mut decoded_loads, mut pending) = (vec![], vec![], vec![]);
    for (position, access) in segments.into_iter().enumerate() {
        columns.push(match access {
            Access::Hit(segment) if segment.stored().is_none() => Some(segment),
            Access::Hit(segment) => {
                kept.push(segment);
                None
            }
            Access::Decode { stored, load } => {
                kept.push(stored);
                // While another query decodes it, this one decodes it as well: nothing is fetched twice.
                if let Claim::Load(ticket) = load.claim() {
                    decoded_loads.push((position, ticket));
                }
                None
            }
            Access::Load(share) if loads => {
                match share.claim() {
                    Claim::Load(ticket) => match ticket.representation() {
                        Representation::Stored => stored_loads.push((position, ticket)),
                        Representation::Decoded => decoded_loads.push((position, ticket)),
                    },
                    Claim::Wait(other) => pending.push((position, other)),
                }
                None
            }
            Access::Load(_) | Access::Missing => None,
        });
    }
    let mut found = |position: usize, segment: PinnedSegment| {
        if let Some(column) = columns.get_mut(position) {
            *column = Some(segment);
        }
    };
    let mut rest = None;
    if !stored_loads.is_empty() || !decoded_loads.is_empty() {
        let mut source = run.source(&object, pushback.take());
        if stored_loads.is_empty() && kept.is_empty() {
            let positions: Vec<usize> = decoded_loads.iter().map(|(position, _)| *position).collect();
            source = run.partition_source(source, &object, &partition, &run.columns_at(&positions)).await?;
        }
        source = with_kept(source, &kept, vec![]);
        if !stored_loads.is_empty() {
            let decoded = decoded_loads.iter().map(|(position, _)| *position);
            source = fetched(run, (&object, &partition), source, stored_loads, decoded, &mut kept).await?;
        }
        if !decoded_loads.is_empty() {
            match load(run, (&object, &partition), source, decoded_loads, companions).await? {
                Loaded::Whole(segments) => {
                    segments.into_iter().for_each(|(position, segment)| found(position, segment))
                }
                Loaded::TooLarge(positions, batches) => rest = Some((positions, batches)),
            }
        }
    }
    for (position, pending) in pending {
        // A load that failed did so for reasons of its own, or for one that we will meet too.
        match pending.wait().await {
            Some(segment) if segment.stored().is_none() => found(position, segment),
            Some(segment) => kept.push(segment),
            None => {}
        }
    }

    let rows = partition.rows as usize;
    let missing: Vec<usize> =
        (0..columns.len()).filter(|position| matches!(columns.get(*position), Some(None))).collect();
    let cached: Vec<usize> = (0..columns.len()).filter(|position| !missing.contains(position)).collect();
    let cached = Columns::new(Arc::new(run.input.project(&cached)?), rows, columns.into_iter().flatten());
    if missing.is_empty() {
        return Ok(stream::iter(cached.batches(run.context.session_config().batch_size())).boxed());
    }
    let stored = match rest {
        Some((positions, batches)) if positions == missing => batches,
        _ => {
            let columns = run.columns_at(&missing);
            let source = match run.source(&object, pushback) {
                source if kept.is_empty() => run.partition_source(source, &object, &partition, &columns).await?,
                source => with_kept(source, &kept, vec![]),
            };
            run.segments(source, &object, &partition, columns, false)?
        }
    };
    let beside = Beside {
        schema: Arc::clone(&run.input),
        cached,
        stored_columns: (0..run.columns.len()).map(|position| missing.contains(&position)).collect(),
        stored,
        left: None,
        at: 0,
        wrong_rows: wrong_rows(&object, &partition),
        rows,
    };
    Ok(stream::try_unfold(beside, |mut beside| async move { Ok(beside.next().await?.map(|batch| (batch, beside))) })
        .boxed())
}

/// The object of `source`, of which the stored bytes of columns in the cache and `fetched` ones are in memory.
fn with_kept(source: Arc<dyn RangeSource>, kept: &[PinnedSegment], fetched: Vec<(u64, Bytes)>) -> Arc<dyn RangeSource> {
    match kept.is_empty() && fetched.is_empty() {
        true => source,
        false => Arc::new(KeptSource::new(source, kept, fetched)),
    }
}

/// Fetches columns of a partition with one request: those of `tickets`, whose stored bytes go to the cache and are added to
/// `kept`, and those at the positions `others`. Returns the object with the bytes of all of them in memory.
async fn fetched(
    run: &ScanRun,
    (object, partition): (&Arc<PlannedObject>, &Arc<Partition>),
    source: Arc<dyn RangeSource>,
    tickets: Vec<(usize, LoadTicket)>,
    others: impl Iterator<Item = usize>,
    kept: &mut Vec<PinnedSegment>,
) -> Result<Arc<dyn RangeSource>> {
    let positions: Vec<usize> = tickets.iter().map(|(position, _)| *position).chain(others).collect();
    let ranges = run.ranges(&source, object, partition, &positions).await?;
    let all: Vec<Range<u64>> = ranges.iter().flatten().cloned().collect();
    let mut read = source.read(&all).await?.into_iter();
    let mut tickets = tickets.into_iter();
    let mut fetched = vec![];
    for ranges in ranges {
        let bytes: Vec<(u64, Bytes)> = ranges.iter().map(|range| range.start).zip(read.by_ref()).collect();
        let Some((_, ticket)) = tickets.next() else {
            fetched.extend(bytes);
            continue;
        };
        let bytes = bytes.iter().map(|(offset, bytes)| (*offset, bytes.as_ref()));
        let (segment, stays) = ticket.complete_stored(StoredColumn::new(partition.rows as usize, bytes));
        run.metrics.segments_admitted.add(usize::from(stays));
        kept.push(segment);
    }
    Ok(with_kept(source, kept, fetched))
}

fn wrong_rows(object: &PlannedObject, partition: &Partition) -> NodeError {
    NodeError::new(
        ErrorKind::BadData,
        format!(
            "{}: {} does not have the {} rows that were expected",
            object.entry.path, partition.range, partition.rows
        ),
    )
}

/// Outcome of loading segments.
enum Loaded {
    /// All of them, pinned, by position.
    Whole(Vec<(usize, PinnedSegment)>),
    /// They outgrew what the cache can give: their columns as a stream, which keeps no more of them
    /// than it had already.
    TooLarge(Vec<usize>, Batches),
}

/// Loads segments of one partition, the columns at their positions of the needed ones; and `companions`, as far as the
/// cache has room and they can be read: a query does not fail for columns that it does not need.
async fn load(
    run: &ScanRun,
    place: (&Arc<PlannedObject>, &Arc<Partition>),
    source: Arc<dyn RangeSource>,
    tickets: Vec<(usize, LoadTicket)>,
    companions: Vec<Companion>,
) -> Result<Loaded> {
    let (object, partition) = place;
    let positions: Vec<usize> = tickets.iter().map(|(position, _)| *position).collect();
    let columns = run.columns_at(&positions);
    let needed = tickets
        .into_iter()
        .zip(&columns)
        .map(|((position, ticket), column)| Loading::new(position, ticket, partition.memory_bytes(*column)));
    let mut needed: Vec<Loading> = needed.collect();
    let mut beside: Vec<(usize, Option<Loading>)> = vec![];
    for Companion { column, share } in companions {
        // While another query loads it, nothing is to be done.
        if let Claim::Load(ticket) = share.claim() {
            beside.push((column, Some(Loading::new(column, ticket, partition.memory_bytes(column)))));
        }
    }
    let mut decoded = decode(run, place, &source, &mut needed, &mut beside).await;
    let is_bad = |error: &DataFusionError| NodeError::find(error).is_some_and(|it| it.kind == ErrorKind::BadData);
    if !beside.is_empty() && decoded.as_ref().is_err_and(is_bad) {
        beside.clear();
        needed.iter_mut().for_each(Loading::restart);
        decoded = decode(run, place, &source, &mut needed, &mut beside).await;
    }
    let chunks = match decoded? {
        Decoded::Whole(chunks) => chunks,
        Decoded::TooLarge(chunks, rest) => {
            // Tells those who wait for these segments that none will come.
            drop((needed, beside));
            let own: Vec<usize> = (0..positions.len()).collect();
            let chunks = chunks.iter().map(|chunk| chunk.project(&own)).collect::<Result<_, _>>()?;
            let rest = rest.map(move |batch| Ok(batch?.project(&own)?));
            return Ok(Loaded::TooLarge(positions, held(run, chunks).chain(rest).boxed()));
        }
    };
    if chunks.iter().map(RecordBatch::num_rows).sum::<usize>() != partition.rows as usize {
        return Err(wrong_rows(object, partition).into());
    }
    let complete = |(column, loading): (usize, Loading)| {
        let chunks = chunks.iter().map(|chunk| Arc::clone(chunk.column(column))).collect();
        let position = loading.position();
        let (segment, kept) = loading.complete(chunks);
        run.metrics.segments_admitted.add(usize::from(kept));
        (position, segment)
    };
    let first_beside = needed.len();
    let whole = needed.into_iter().enumerate().map(complete).collect();
    let beside = beside.into_iter().enumerate().filter_map(|(at, (_, loading))| Some((first_beside + at, loading?)));
    // Nobody here reads them.
    beside.map(complete).for_each(drop);
    Ok(Loaded::Whole(whole))
}

/// Columns of a partition, decoded.
enum Decoded {
    /// All rows.
    Whole(Vec<RecordBatch>),
    /// The first rows, at which a needed column outgrew what the cache can give, and the others.
    TooLarge(Vec<RecordBatch>, Batches),
}

/// Decodes the `needed` columns and, after them, those `beside` them. Of these, one that outgrows what the cache can give
/// is kept no longer.
async fn decode(
    run: &ScanRun,
    (object, partition): (&Arc<PlannedObject>, &Arc<Partition>),
    source: &Arc<dyn RangeSource>,
    needed: &mut [Loading],
    beside: &mut [(usize, Option<Loading>)],
) -> Result<Decoded> {
    let mut columns = run.columns_at(&needed.iter().map(Loading::position).collect::<Vec<_>>());
    columns.extend(beside.iter().map(|(column, _)| *column));
    let mut stored = run.segments(Arc::clone(source), object, partition, columns, true)?;
    let mut chunks: Vec<RecordBatch> = vec![];
    while let Some(batch) = stored.try_next().await? {
        let (schema, columns, _) = batch.into_parts();
        let batch = RecordBatch::try_new(schema, columns.into_iter().map(fitted).collect())?;
        let fits = needed.iter_mut().zip(batch.columns()).all(|(column, chunk)| column.add(chunk));
        for ((_, loading), chunk) in beside.iter_mut().zip(batch.columns().iter().skip(needed.len())) {
            loading.take_if(|column| !column.add(chunk));
        }
        chunks.push(batch);
        if !fits {
            return Ok(Decoded::TooLarge(chunks, stored));
        }
    }
    Ok(Decoded::Whole(chunks))
}

/// Batches that are in memory already, charged to the query until they are handed on. The charge may
/// pass the limit, so that others make room: what fits without a cache must not fail for having one.
fn held(run: &ScanRun, batches: Vec<RecordBatch>) -> Batches {
    let memory = MemoryConsumer::new("columns that outgrew the cache").register(run.context.memory_pool());
    let mut counted = CountedBuffers::default();
    let columns = batches.iter().flat_map(RecordBatch::columns);
    memory.grow(columns.map(|column| counted.add(column.as_ref())).sum());
    let end = stream::once(async move {
        drop(memory);
        None
    });
    stream::iter(batches.into_iter().map(|batch| Some(Ok(batch)))).chain(end).filter_map(std::future::ready).boxed()
}

/// A chunk without memory that it does not need: room that its decoder left at the ends of buffers,
/// and Parquet pages of strings that are all so short that no view refers to a page.
fn fitted(chunk: ArrayRef) -> ArrayRef {
    let mut chunk: ArrayRef = match chunk.data_type() {
        DataType::Utf8View if chunk.as_string_view().total_buffer_bytes_used() == 0 => {
            Arc::new(chunk.as_string_view().gc())
        }
        DataType::BinaryView if chunk.as_binary_view().total_buffer_bytes_used() == 0 => {
            Arc::new(chunk.as_binary_view().gc())
        }
        _ => chunk,
    };
    chunk.shrink_to_fit();
    chunk
}

/// Cached columns beside those that are being decoded.
struct Beside {
    schema: SchemaRef,
    cached: Columns,
    /// Per needed column, whether it is one of the stored ones.
    stored_columns: Vec<bool>,
    stored: Batches,
    /// The rest of the last stored batch.
    left: Option<RecordBatch>,
    /// Rows of the partition that are done.
    at: usize,
    rows: usize,
    wrong_rows: NodeError,
}

impl Beside {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let stored = loop {
            match self.left.take() {
                Some(batch) if batch.num_rows() > 0 => break batch,
                _ => self.left = self.stored.try_next().await?,
            }
            if self.left.is_none() {
                return if self.at == self.rows { Ok(None) } else { Err(self.wrong_rows.clone().into()) };
            }
        };
        if stored.num_rows() > self.rows - self.at {
            return Err(self.wrong_rows.clone().into());
        }
        let end = self.cached.batch_end(self.at, stored.num_rows());
        let length = end - self.at;
        let cached = self.cached.batch(self.at..end)?;
        self.at = end;
        let now = if length == stored.num_rows() {
            stored
        } else {
            self.left = Some(stored.slice(length, stored.num_rows() - length));
            stored.slice(0, length)
        };
        let (mut cached, mut now) = (cached.columns().iter(), now.columns().iter());
        let columns = self
            .stored_columns
            .iter()
            .map(|is_stored| if *is_stored { now.next() } else { cached.next() }.cloned())
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| exec_datafusion_err!("a column is missing"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}
