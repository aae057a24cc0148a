//! Partitions on the route `bitmap`.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use thermocline_cache::{Access, PinnedSegment};
use thermocline_pushdown::wire::{BitmapRequest, Combine, ErrorKind, Format, TicketKind};
use thermocline_pushdown::{Bitmap, Fragment, NodeError, PushbackToken, Route};

use super::assemble::assembled;
use super::bitmap::{Answer, BitmapPlan, Here, Origin};
use super::local::{CachedColumn, Columns};
use super::remote::Answered;
use super::run::{Batches, ScanRun, Sender, hand_over};
use super::work::{Work, is_decoded};
use crate::learning::Seen;

/// One partition on the route `bitmap`: what the fragment makes of it, or, if its cached columns
/// are used above the filter, the rows that pass the filter.
pub(super) async fn exchange(run: Arc<ScanRun>, plan: Arc<BitmapPlan>, work: Work, sender: Sender) -> Result<()> {
    let here = plan.here.as_ref().map(|here| here.bitmap(&run, &work)).transpose()?;
    if !plan.evaluates_there
        && let Some(here) = &here
    {
        let selected = here.count() as u64;
        run.observe(from_ref(&work), Seen { selected: Some(selected), ..Seen::default() });
    }
    let selects_nothing = plan.combine == Combine::And && here.as_ref().is_some_and(|here| here.count() == 0);
    if !selects_nothing {
        let mut batches = match (ask(&run, &plan, &work, here.as_ref()).await?, &plan.answer) {
            (Asked::Answered(answered), Answer::Fragment) => result(Arc::clone(&run), answered, work),
            (Asked::Answered(answered), Answer::Rows(origins)) => {
                rows(&run, &plan, origins, work, here, answered).await?
            }
            (Asked::Instead(token), Answer::Fragment) => fetched_instead(&run, work, &run.fragment, token).await?,
            (Asked::Instead(token), Answer::Rows(_)) => {
                fetched_instead(&run, work, &run.fragment.filter_alone()?, token).await?
            }
        };
        if !hand_over(&sender, &mut batches).await {
            return Ok(());
        }
    }
    run.done(1);
    Ok(())
}

/// Outcome of a request.
enum Asked {
    Answered(Answered),
    /// The node says to fetch the stored bytes instead, under this token if it keeps a slot.
    Instead(Option<PushbackToken>),
}

/// Asks the storage node for its part.
async fn ask(run: &ScanRun, plan: &BitmapPlan, work: &Work, here: Option<&Bitmap>) -> Result<Asked> {
    let bitmap = here.map(Bitmap::encode).unwrap_or_default();
    if here.is_some() {
        run.metrics.bitmaps_to_storage.add(1);
        run.metrics.bitmap_bytes_to_storage.add(bitmap.len());
    }
    run.metrics.columns_scanned.add(plan.there.len());
    run.metrics.columns_saved.add(run.columns.len().saturating_sub(plan.there.len()));
    let missing_bytes = missing_bytes(run, work);
    let request = BitmapRequest {
        origin: Some(run.query.origin()),
        object: Some(work.object.entry.clone()),
        format: Some(Format::from(&work.object.format(&run.call.format))),
        partition: Some(work.partition.range.into()),
        bitmap,
        combine: plan.combine as i32,
        return_bitmap: plan.returns_bitmap,
        compression: run.compression(&work.object) as i32,
        // An answer that is larger than the columns that are not cached would be worse than those. Of
        // plain text, all columns would have to be fetched.
        answer_bytes_max: if work.partition.is_plain_text() { 0 } else { missing_bytes.max(1) },
        accepts_pushback: run.call.accepts_pushback,
        bytes_in: missing_bytes,
        bytes_out_estimate: match plan.answer {
            Answer::Fragment => run.expected.bytes(work.partition.rows),
            Answer::Rows(_) => 0,
        },
        partitions_to_follow: run.waiting(plan.answers_rows()) as u32,
        use_indexes: run.call.indexes.is_some(),
        ..BitmapRequest::default()
    };
    let request = |fragment: (Vec<u8>, Vec<u8>), table_schema: (Vec<u8>, Vec<u8>)| {
        TicketKind::Bitmap(BitmapRequest {
            fragment: fragment.0,
            fragment_digest: fragment.1,
            table_schema: table_schema.0,
            table_schema_digest: table_schema.1,
            ..request.clone()
        })
    };
    let object = Arc::clone(&work.object);
    let partition = vec![Arc::clone(&work.partition)];
    // What one of this side's cores would take for a part of the columns is not known.
    match run.call.send(&plan.fragment, request, (object, partition), Arc::clone(&plan.schema), 0.0).await {
        Ok(answered) => {
            run.learn_raw_is_smaller(plan.shape, from_ref(work), false);
            Ok(Asked::Answered(answered))
        }
        Err(error) if error.wants_pullup() => {
            run.learn_refusal(&work.object, error.kind);
            if error.kind == ErrorKind::RawIsSmaller {
                run.learn_raw_is_smaller(plan.shape, from_ref(work), true);
            }
            Ok(Asked::Instead(error.pushback))
        }
        Err(error) => Err(error.into()),
    }
}

/// Stored bytes of the needed columns whose values are not in memory.
fn missing_bytes(run: &ScanRun, work: &Work) -> u64 {
    let missing: Vec<usize> = run
        .columns
        .iter()
        .zip(&work.segments)
        .filter(|(_, access)| !is_decoded(access))
        .map(|(column, _)| *column)
        .collect();
    work.partition.stored_bytes(&missing)
}

/// The fragment's result as it comes.
fn result(run: Arc<ScanRun>, answered: Answered, work: Work) -> Batches {
    let meter = answered.meter;
    let end = futures::stream::once(async move {
        // It is what pushdown would have moved, which later decisions go by.
        run.observe(from_ref(&work), Seen { answer_bytes: Some(meter.bytes()), ..Seen::default() });
        None
    });
    answered.batches.map(Some).chain(end).filter_map(|batch| async move { batch }).boxed()
}

/// The partition by way of the stored bytes of the columns that are not cached.
async fn fetched_instead(
    run: &ScanRun,
    work: Work,
    fragment: &Fragment,
    pushback: Option<PushbackToken>,
) -> Result<Batches> {
    run.metrics.partitions(Route::Pullup).add(1);
    run.metrics.partitions_pushed_back.add(1);
    let columns = RecordBatchStreamAdapter::new(Arc::clone(&run.input), assembled(run, work, pushback).await?);
    Ok(fragment.instantiate(Box::pin(columns))?.execute(0, Arc::clone(&run.context))?.boxed())
}

/// The rows that pass the filter: cached columns beside those of the answer.
async fn rows(
    run: &ScanRun,
    plan: &BitmapPlan,
    origins: &[Origin],
    work: Work,
    here: Option<Bitmap>,
    mut answered: Answered,
) -> Result<Batches> {
    // A bitmap comes before the first batch.
    let first = answered.batches.try_next().await?;
    let garbled = |why: &dyn std::fmt::Display| {
        let node = work.object.node.label();
        NodeError::new(ErrorKind::Unavailable, format!("storage node {node}: {}: {why}", work.object.entry.path))
    };
    let bitmap = if plan.returns_bitmap {
        let encoded = answered.bitmap.lock().take().ok_or_else(|| garbled(&"the answer has no bitmap"))?;
        run.metrics.bitmaps_from_storage.add(1);
        run.metrics.bitmap_bytes_from_storage.add(encoded.len());
        let bitmap = Bitmap::decode(&encoded, work.partition.rows).map_err(|error| garbled(&error))?;
        run.observe(from_ref(&work), Seen { selected: Some(bitmap.count() as u64), ..Seen::default() });
        bitmap
    } else {
        here.ok_or_else(|| internal_datafusion_err!("nothing selects rows"))?
    };

    let sources = origins
        .iter()
        .map(|origin| match origin {
            Origin::Answered(column) => Ok(Source::Answered(*column)),
            Origin::Cached(position) => {
                cached_column(&work, *position).map(|segment| Source::Cached(CachedColumn::new(segment.clone())))
            }
        })
        .collect::<Result<_>>()?;
    let merging = Merging {
        left: bitmap.count(),
        bitmap,
        next_row: 0,
        sources,
        schema: run.fragment.selection()?.above.input_schema(),
        batch_rows: run.context.session_config().batch_size().max(1),
        answer: futures::stream::iter(first.map(Ok))
            .chain(answered.batches)
            .try_filter(|batch| std::future::ready(batch.num_rows() > 0))
            .boxed(),
        wrong_count: garbled(&"the answer has another number of rows than its bitmap selects"),
    };
    Ok(futures::stream::try_unfold(merging, |mut merging| async move {
        Ok(merging.next().await?.map(|batch| (batch, merging)))
    })
    .boxed())
}

/// The cached values of a needed column.
fn cached_column(work: &Work, position: usize) -> Result<&PinnedSegment> {
    match work.segments.get(position) {
        Some(Access::Hit(segment)) if segment.stored().is_none() => Ok(segment),
        _ => Err(internal_datafusion_err!("a bitmap was planned over a column that is not cached")),
    }
}

enum Source {
    Cached(CachedColumn),
    /// A column of the answer.
    Answered(usize),
}

/// Selected rows being put together, in storage order.
struct Merging {
    bitmap: Bitmap,
    /// Rows of the partition that are done.
    next_row: usize,
    /// Selected rows that are not.
    left: usize,
    sources: Vec<Source>,
    schema: SchemaRef,
    batch_rows: usize,
    answer: Batches,
    wrong_count: NodeError,
}

impl Merging {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let answers = self.sources.iter().any(|source| matches!(source, Source::Answered(_)));
        let answered = self.answer.try_next().await?;
        let length = match &answered {
            Some(batch) if answers => batch.num_rows(),
            None if !answers => self.batch_rows.min(self.left),
            None => 0,
            Some(_) => return Err(self.wrong_count.clone().into()),
        };
        if length > self.left || (answered.is_none() && length == 0 && self.left > 0) {
            return Err(self.wrong_count.clone().into());
        }
        if answered.is_none() && length == 0 {
            return Ok(None);
        }
        let (start, end) = (self.next_row, self.bitmap.end_of(self.next_row, length));
        self.next_row = end;
        self.left -= length;
        let mask = self.bitmap.mask(start, end - start);
        let columns = self
            .sources
            .iter()
            .map(|source| match (source, &answered) {
                (Source::Cached(column), _) => column.selected(start..end, &mask),
                (Source::Answered(column), Some(batch)) if *column < batch.num_columns() => {
                    Ok(Arc::clone(batch.column(*column)))
                }
                (Source::Answered(_), _) => Err(self.wrong_count.clone().into()),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}

impl Here {
    /// The rows for which this side's part of the predicate is TRUE.
    fn bitmap(&self, run: &ScanRun, work: &Work) -> Result<Bitmap> {
        let rows = work.partition.rows as usize;
        let batch_rows = run.context.session_config().batch_size().max(1);
        let segments = self.columns.iter().map(|position| cached_column(work, *position).cloned());
        let columns = Columns::new(Arc::clone(&self.schema), rows, segments.collect::<Result<Vec<_>>>()?);
        let mut bits = BooleanBufferBuilder::new(rows);
        for batch in columns.batches(batch_rows) {
            let batch = batch?;
            let values = self.predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
            bits.append_buffer(Bitmap::of_true(as_boolean_array(&values)?).bits());
        }
        Ok(Bitmap::new(bits.finish()))
    }
}
