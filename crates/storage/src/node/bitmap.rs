//! Running a fragment over the rows of a partition that a bitmap selects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch, not};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use thermocline_formats::{PartitionReader, ReadOptions};
use thermocline_pushdown::wire::{BitmapRequest, Combine, Compression, ErrorKind, FragmentReport};
use thermocline_pushdown::{Bitmap, FileFormat, Fragment, NodeError, PartitionRange, Selection};
use tokio::time::Instant;

use super::StorageNode;
use super::answer::{AnswerOptions, answer, produced};
use super::arbitrator::{Ask, shape_of};
use super::duty_cycle::DutyCycle;
use super::execute::positions;
use super::indexed::IndexUse;
use super::reader::Reader;
use super::storage_node::{Answer, required};
use crate::messages::{Opened, compact};
use crate::source::RootSource;

impl StorageNode {
    /// Decodes and validates; the answer then waits for the arbitrator, and is either
    /// [`ErrorKind::PushedBack`] or the bitmap, if it is wanted, the batches and a
    /// [`FragmentReport`].
    pub(super) fn select(self: &Arc<Self>, request: BitmapRequest, reader: &Reader) -> Result<Answer, NodeError> {
        let deadline = self.deadline(request.origin.as_ref(), reader);
        let object = required(request.object, "object")?;
        let refused = |why: &str| NodeError::new(ErrorKind::Refused, format!("{}: {why}", object.path));
        let (fragment, digest) = self
            .fragment(&request.fragment, &request.fragment_digest, &self.config.limits)
            .map_err(|error| error.context(&object.path))?;
        let (fragment, input) = (fragment.fragment.clone(), Arc::clone(&fragment.input));
        let selection = fragment.selection()?;
        let sent = (!request.bitmap.is_empty()).then_some(request.bitmap);
        match (&sent, &selection.predicate, request.return_bitmap) {
            (None, None, _) => return Err(refused("a bitmap request selects by nothing")),
            (None, _, false) => return Err(refused("a bitmap request neither brings nor wants a bitmap")),
            (_, None, true) => return Err(refused("a bitmap request wants back the bitmap that it brings")),
            (_, _, true) if selection.above.reduces() => {
                return Err(refused("no bitmap describes what is left of an aggregate, a limit or a second filter"));
            }
            _ => {}
        }
        let combine = Combine::try_from(request.combine)
            .map_err(|_| refused(&format!("unknown combination {} of bitmaps", request.combine)))?;
        let compression = Compression::try_from(request.compression)
            .map_err(|_| refused(&format!("unknown compression {}", request.compression)))?;
        let table_schema = self.table_schema(&request.table_schema, &request.table_schema_digest)?;
        let columns = positions(&input, &table_schema).map_err(|error| error.context(&object.path))?;
        let range = PartitionRange::try_from(required(request.partition, "partition")?)?;
        let format = FileFormat::try_from(&required(request.format, "format")?)?;

        let partition_bytes = match range {
            PartitionRange::RowGroups { .. } => request.bytes_in,
            PartitionRange::Bytes { .. } => range.bytes(),
        };
        let origin = request.origin.unwrap_or_default();
        let ask = Ask {
            caller_busy_permille: origin.busy_permille,
            peer: reader.account().peer().clone(),
            tenant: origin.tenant,
            query: origin.query_id,
            // What a bitmap leaves of a fragment is another share than the fragment alone.
            shape: shape_of(&[digest.as_bytes(), b"bitmap"].concat(), &object.path),
            bytes_in: partition_bytes.min(object.size),
            bytes_out: Some(request.bytes_out_estimate).filter(|bytes| *bytes > 0),
            accepts_pushback: request.accepts_pushback,
            to_follow: request.partitions_to_follow,
            resumes: false,
        };
        let bytes_read = Arc::new(AtomicU64::new(0));
        let statistics = matches!(format, FileFormat::Csv(_)).then(Arc::default);
        let source =
            RootSource::new(self.root.clone(), object.clone()).charged(self.context.memory_pool()).counted(&bytes_read);
        let duty_cycle = DutyCycle::new(self.config.compute_power);
        let mut selecting = Selecting {
            reader: PartitionReader { source: Arc::new(source), format, footers: self.footers.clone(), table_schema },
            indexes: None,
            range,
            columns,
            input,
            fragment,
            selection,
            combine,
            return_bitmap: request.return_bitmap,
            options: ReadOptions { statistics, ..ReadOptions::default() },
            duty_cycle: duty_cycle.clone(),
            rows_in: Arc::default(),
            memory: MemoryConsumer::new("selection bitmap").register(self.context.memory_pool()),
            context: Arc::clone(&self.context),
        };
        let bytes_max = request.answer_bytes_max;
        let options = AnswerOptions::new(&self.config, compression, bytes_max, deadline, duty_cycle);
        let node = Arc::clone(self);
        Ok(produced(&self.workers, move |sender| async move {
            let answered = async {
                let asked = Instant::now();
                let slot = node.slot(ask, &options.deadline).await?;
                let options = options.after(asked.elapsed());
                let _reading = node.reading(&object, options.deadline.reader()).await?;
                if request.use_indexes {
                    let predicate = selecting.selection.predicate.as_ref();
                    selecting.indexes =
                        options.deadline.before(IndexUse::of(&node, &selecting.reader, predicate)).await??;
                }
                let report = node.report(&selecting, bytes_read);
                answer(selecting.open(sent), &options, report, &sender, slot).await
            };
            answered.await.map_err(|error| error.context(&object.path))
        }))
    }

    /// The closing report of the execution that begins now.
    fn report(
        self: &Arc<Self>,
        selecting: &Selecting,
        bytes_read: Arc<AtomicU64>,
    ) -> impl FnOnce(u64) -> FragmentReport + Send + 'static {
        let node = Arc::clone(self);
        let started = Instant::now();
        let rows_in = Arc::clone(&selecting.rows_in);
        let statistics = selecting.options.statistics.clone();
        let indexes = selecting.indexes.clone();
        move |rows_out| {
            node.counters().fragments.fetch_add(1, Ordering::Relaxed);
            let mut report = FragmentReport {
                rows_in: rows_in.load(Ordering::Relaxed),
                rows_out,
                bytes_read: bytes_read.load(Ordering::Relaxed),
                elapsed_us: started.elapsed().as_micros() as u64,
                statistics: statistics.map_or_else(Vec::new, |found| std::mem::take(&mut *found.lock())),
                ..FragmentReport::default()
            };
            indexes.inspect(|indexes| indexes.add_to(&mut report));
            report
        }
    }
}

/// One request on its way to an answer.
///
/// ```text
///   caller's bitmap ---+                         first pass: A (and what of B is read with it)
///                      +-- combine --> bitmap --------+
///   filter over A -----+                 |            |  second pass: rest of B, selected rows
///                                        v            v
///                                    to the caller   zip --> operators above --> to the caller
/// ```
///
/// A request that does not ask for the bitmap and joins by AND takes a shortcut: one pass over the rows
/// of the caller's bitmap, which the fragment's filter then narrows.
struct Selecting {
    reader: PartitionReader,
    /// Indexes that may help with the filter.
    indexes: Option<Arc<IndexUse>>,
    range: PartitionRange,
    /// Positions in the table of the fragment's input columns.
    columns: Vec<usize>,
    input: SchemaRef,
    fragment: Fragment,
    selection: Selection,
    combine: Combine,
    return_bitmap: bool,
    options: ReadOptions,
    duty_cycle: DutyCycle,
    rows_in: Arc<AtomicU64>,
    /// Bitmaps and the rows that are held until the bitmap is complete.
    memory: MemoryReservation,
    context: Arc<TaskContext>,
}

impl Selecting {
    async fn open(self, sent: Option<Vec<u8>>) -> Result<Opened, NodeError> {
        let object = self.reader.source.object().path.clone();
        self.opened(sent).await.map_err(|error| error.context(object))
    }

    async fn opened(self, sent: Option<Vec<u8>>) -> Result<Opened, NodeError> {
        let sent = sent.map(|bytes| self.decoded(&bytes)).transpose()?;
        match self.selection.predicate.clone() {
            Some(predicate) if self.return_bitmap || self.combine == Combine::Or => {
                self.in_two_passes(&predicate, sent).await
            }
            _ => {
                let all: Vec<usize> = (0..self.columns.len()).collect();
                let rows = self.read(&all, sent)?;
                let batches = self.fragment.instantiate(rows)?.execute(0, Arc::clone(&self.context))?;
                Ok(Opened { bitmap: None, batches: holding(batches, self.memory) })
            }
        }
    }

    /// The caller's bitmap, once there is room for it.
    fn decoded(&self, bytes: &[u8]) -> Result<Arc<Bitmap>, NodeError> {
        let rows = Bitmap::encoded_rows(bytes)?;
        self.memory.try_grow(rows.div_ceil(8) as usize)?;
        Ok(Arc::new(Bitmap::decode(bytes, rows)?))
    }

    /// The columns at `positions` of the fragment's input.
    fn read(&self, positions: &[usize], rows: Option<Arc<Bitmap>>) -> Result<SendableRecordBatchStream, NodeError> {
        let columns = positions.iter().filter_map(|position| self.columns.get(*position).copied()).collect();
        let schema = Arc::new(self.input.project(positions).map_err(DataFusionError::from)?);
        let options = ReadOptions { columns, rows, ..self.options.clone() };
        let rows_in = Arc::clone(&self.rows_in);
        let batches = self.reader.stream(self.range, &options, &self.context)?.inspect_ok(move |batch| {
            rows_in.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        });
        Ok(self.duty_cycle.yielding(Box::pin(RecordBatchStreamAdapter::new(schema, batches))))
    }

    /// The rows that may pass both the caller's part of the predicate and, as far as indexes know,
    /// this side's; `None` for all.
    async fn candidates(&self, sent: Option<Arc<Bitmap>>, first: &[usize]) -> Result<Option<Arc<Bitmap>>, NodeError> {
        let Some(indexes) = &self.indexes else { return Ok(sent) };
        let columns: Vec<usize> = first.iter().filter_map(|position| self.columns.get(*position).copied()).collect();
        let found = indexes.bitmap(&self.reader, self.range, &columns).await?;
        Ok(match (sent, found) {
            (Some(sent), Some(found)) if sent.len() == found.len() => {
                Some(Arc::new(Bitmap::new(sent.bits() & found.bits())))
            }
            // One of another length is refused by the reader.
            (Some(sent), _) => Some(sent),
            (None, found) => found.map(Arc::new),
        })
    }

    async fn in_two_passes(
        self,
        predicate: &Arc<dyn PhysicalExpr>,
        sent: Option<Arc<Bitmap>>,
    ) -> Result<Opened, NodeError> {
        let mut first: Vec<usize> = collect_columns(predicate).iter().map(|column| column.index()).collect();
        // Rows of text are read once: a second pass would parse all of it again.
        if matches!(self.reader.format, FileFormat::Csv(_)) {
            first.extend(&self.selection.output);
        }
        first.sort_unstable();
        first.dedup();
        let (with_first, rest): (Vec<usize>, Vec<usize>) =
            self.selection.output.iter().partition(|position| first.binary_search(position).is_ok());
        let (bitmap, held) = self.first_pass(predicate, sent, &first, &with_first).await?;
        self.memory.try_grow(bitmap.len().div_ceil(8))?;
        let encoded = self.return_bitmap.then(|| bitmap.encode());

        let selected = bitmap.count();
        let schema = self.selection.above.input_schema();
        let rows = if rest.is_empty() {
            let order = positions_of(&with_first, &self.selection.output);
            let held = held.project(&order).map_err(DataFusionError::from)?;
            // Without columns, the bitmap says all that there is to say of the rows.
            let rows = if self.return_bitmap && self.selection.output.is_empty() { 0 } else { selected };
            let batches = slices(held, rows, self.context.session_config().batch_size());
            futures::stream::iter(batches.map(Ok)).boxed()
        } else {
            let order = positions_of(&[&with_first[..], &rest[..]].concat(), &self.selection.output);
            zipped(held, self.read(&rest, Some(Arc::new(bitmap)))?, selected, order, Arc::clone(&schema)).boxed()
        };
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        let batches = self.selection.above.instantiate(rows)?.execute(0, Arc::clone(&self.context))?;
        Ok(Opened { bitmap: encoded, batches: holding(batches, self.memory) })
    }

    /// Evaluates the predicate over columns `first`: the bitmap of the selected rows, and their
    /// values of the columns `kept`, which are among `first`.
    async fn first_pass(
        &self,
        predicate: &Arc<dyn PhysicalExpr>,
        sent: Option<Arc<Bitmap>>,
        first: &[usize],
        kept: &[usize],
    ) -> Result<(Bitmap, RecordBatch), NodeError> {
        // Joined by AND, only rows of the caller's bitmap matter and no other is read. Joined by OR,
        // these are selected whatever the filter says, so that it is evaluated over the others.
        let (candidates, settled) = match self.combine {
            Combine::And => (self.candidates(sent.clone(), first).await?, None),
            Combine::Or => (None, sent.clone()),
        };
        let mut batches = self.read(first, candidates.clone())?;
        let predicate = reassign_expr_columns(Arc::clone(predicate), &batches.schema())?;
        let kept = positions_of(first, kept);
        let schema = Arc::new(batches.schema().project(&kept).map_err(DataFusionError::from)?);
        let mut bits = BooleanBufferBuilder::new(0);
        let mut held = vec![];
        while let Some(batch) = batches.try_next().await? {
            let mask = match &settled {
                None => selected(&predicate, &batch, None)?,
                Some(settled) if bits.len() + batch.num_rows() > settled.len() => {
                    return Err(wrong_length(settled, "more"));
                }
                Some(settled) => selected(&predicate, &batch, Some(settled.mask(bits.len(), batch.num_rows())))?,
            };
            bits.append_buffer(mask.bits());
            let rows = batch.project(&kept).map_err(DataFusionError::from)?;
            let rows = compact(filter_record_batch(&rows, &mask.mask(0, mask.len())).map_err(DataFusionError::from)?)?;
            self.memory.try_grow(rows.get_array_memory_size())?;
            held.push(rows);
        }
        let passed = Bitmap::new(bits.finish());
        let bitmap = match (&candidates, &settled) {
            (Some(candidates), _) => candidates.narrowed(&passed).ok_or_else(|| {
                exec_datafusion_err!("{} rows were read where {} are selected", passed.len(), candidates.count())
            })?,
            (_, Some(settled)) if settled.len() != passed.len() => {
                return Err(wrong_length(settled, &passed.len().to_string()));
            }
            _ => passed,
        };
        // Joined into one batch, the rows are in memory twice for a moment.
        let bytes = self.memory.size();
        self.memory.try_grow(bytes)?;
        let held = concat_batches(&schema, &held).map_err(DataFusionError::from)?;
        self.memory.shrink(bytes);
        Ok((bitmap, held))
    }
}

fn wrong_length(bitmap: &Bitmap, rows: &str) -> NodeError {
    NodeError::new(
        ErrorKind::Refused,
        format!("a selection bitmap is of {} rows, the partition has {rows}", bitmap.len()),
    )
}

/// The rows of `batch` in `settled` or for which `predicate` is TRUE.
fn selected(
    predicate: &Arc<dyn PhysicalExpr>,
    batch: &RecordBatch,
    settled: Option<BooleanArray>,
) -> Result<Bitmap, DataFusionError> {
    let evaluated = match &settled {
        None => predicate.evaluate(batch)?,
        Some(settled) => predicate.evaluate_selection(batch, &not(settled)?)?,
    };
    let values = evaluated.into_array(batch.num_rows())?;
    let passed = Bitmap::of_true(as_boolean_array(&values)?);
    Ok(match settled {
        None => passed,
        Some(settled) => passed.or(&Bitmap::of_true(&settled)),
    })
}

/// Where each of `wanted` is among `columns`.
fn positions_of(columns: &[usize], wanted: &[usize]) -> Vec<usize> {
    wanted.iter().filter_map(|wanted| columns.iter().position(|column| column == wanted)).collect()
}

/// The first `rows` rows in batches of at most `batch_rows`.
fn slices(batch: RecordBatch, rows: usize, batch_rows: usize) -> impl Iterator<Item = RecordBatch> + Send + 'static {
    let batch_rows = batch_rows.max(1);
    (0..rows).step_by(batch_rows).map(move |start| batch.slice(start, batch_rows.min(rows - start)))
}

/// The columns of `held` beside those of `rest`, row by row, in the order that `order` gives over
/// both. There must be `rows` rows of either.
fn zipped(
    held: RecordBatch,
    rest: SendableRecordBatchStream,
    rows: usize,
    order: Vec<usize>,
    schema: SchemaRef,
) -> impl futures::Stream<Item = Result<RecordBatch, DataFusionError>> + Send + 'static {
    futures::stream::try_unfold((rest, 0), move |(mut rest, start)| {
        let held = held.clone();
        let order = order.clone();
        let schema = Arc::clone(&schema);
        async move {
            let batch = rest.try_next().await?;
            let end = start + batch.as_ref().map_or(0, RecordBatch::num_rows);
            let Some(batch) = batch.filter(|_| end <= rows) else {
                return if end == rows {
                    Ok(None)
                } else {
                    Err(exec_datafusion_err!("{end} rows were read where {rows} are selected"))
                };
            };
            let columns = held.columns().iter().map(|column| column.slice(start, end - start));
            let columns: Vec<_> = columns.chain(batch.columns().iter().cloned()).collect();
            let columns = order.iter().filter_map(|position| columns.get(*position).cloned()).collect();
            Ok(Some((RecordBatch::try_new(schema, columns)?, (rest, end))))
        }
    })
}

/// The batches, with `memory` reserved until they end or are dropped.
fn holding(batches: SendableRecordBatchStream, memory: MemoryReservation) -> SendableRecordBatchStream {
    let schema = batches.schema();
    let batches = batches.inspect(move |_| {
        let _held = &memory;
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}
