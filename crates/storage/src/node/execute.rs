//! Running a fragment over one object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use thermocline_formats::{PartitionReader, ReadOptions};
use thermocline_pushdown::wire::{Compression, ErrorKind, FragmentReport, FragmentRequest, ObjectEntry};
use thermocline_pushdown::{ContentDigest, FileFormat, NodeError, PartitionRange};
use tokio::time::Instant;

use super::StorageNode;
use super::answer::{AnswerOptions, Messages, answer, produced};
use super::arbitrator::{Admission, Ask, Grant, PushdownSlot, shape_of};
use super::contents::ValidFragment;
use super::duty_cycle::DutyCycle;
use super::indexed::IndexUse;
use super::reader::{Deadline, Reader};
use super::storage_node::{Answer, required};
use crate::messages::Opened;
use crate::source::RootSource;

/// A fragment's request, decoded and found to be allowed.
struct Execution {
    request: FragmentRequest,
    object: ObjectEntry,
    fragment: Arc<ValidFragment>,
    digest: ContentDigest,
    table_schema: SchemaRef,
    format: FileFormat,
    ranges: Vec<PartitionRange>,
    compression: Compression,
    deadline: Deadline,
}

impl StorageNode {
    /// Decodes and validates; the answer then waits for the arbitrator, and is either
    /// [`ErrorKind::PushedBack`] or the fragment's batches and a [`FragmentReport`]. Waiting is
    /// part of the answer, so that the caller sees that the node is alive.
    pub(super) fn execute(
        self: &Arc<Self>,
        mut request: FragmentRequest,
        reader: &Reader,
    ) -> Result<Answer, NodeError> {
        let deadline = self.deadline(request.origin.as_ref(), reader);
        let object = required(request.object.take(), "object")?;
        let (fragment, digest) = self
            .fragment(&request.fragment, &request.fragment_digest, &self.config.limits)
            .map_err(|error| error.context(&object.path))?;
        let table_schema = self.table_schema(&request.table_schema, &request.table_schema_digest)?;
        let format = FileFormat::try_from(&required(request.format.take(), "format")?)?;
        let ranges: Vec<PartitionRange> =
            request.partitions.iter().copied().map(PartitionRange::try_from).collect::<Result<_, _>>()?;
        let compression = Compression::try_from(request.compression)
            .map_err(|_| NodeError::new(ErrorKind::Refused, format!("unknown compression {}", request.compression)))?;
        let execution =
            Execution { object, fragment, digest, table_schema, format, ranges, compression, deadline, request };
        let node = Arc::clone(self);
        Ok(produced(&self.workers, move |sender| async move {
            let path = execution.object.path.clone();
            let answered = async {
                let asked = Instant::now();
                let slot = node.slot(execution.ask(), &execution.deadline).await?;
                let _reading = node.reading(&execution.object, execution.deadline.reader()).await?;
                node.run(execution, (slot, asked.elapsed()), &sender).await
            };
            answered.await.map_err(|error| error.context(path))
        }))
    }

    /// The slot that the arbitrator gives, or the error that says to fetch the stored bytes.
    pub(super) async fn slot(&self, ask: Ask, deadline: &Deadline) -> Result<PushdownSlot, NodeError> {
        match deadline.before(self.arbitrator.admit(ask)).await?? {
            Admission::Run(slot) => Ok(slot),
            Admission::PushedBack(grant) => Err(NodeError::pushed_back(grant.and_then(Grant::into_token))),
        }
    }

    /// Runs a fragment that was admitted after a wait.
    async fn run(
        self: &Arc<Self>,
        execution: Execution,
        (slot, waited): (PushdownSlot, Duration),
        sender: &Messages,
    ) -> Result<(), NodeError> {
        let Execution { request, object, fragment, table_schema, format, ranges, compression, deadline, .. } =
            execution;
        let ValidFragment { fragment, input: columns } = fragment.as_ref();
        let started = Instant::now();
        let bytes_read = Arc::new(AtomicU64::new(0));
        let rows_in = Arc::new(AtomicU64::new(0));
        let statistics = matches!(format, FileFormat::Csv(_)).then(Arc::default);
        let source =
            RootSource::new(self.root.clone(), object).charged(self.context.memory_pool()).counted(&bytes_read);
        let reader = PartitionReader { source: Arc::new(source), format, footers: self.footers.clone(), table_schema };
        let options = ReadOptions {
            columns: positions(columns, &reader.table_schema)?,
            predicate: fragment.predicate().cloned(),
            late_materialisation: self.config.late_materialisation,
            statistics: statistics.clone(),
            ..ReadOptions::default()
        };
        let indexes = match request.use_indexes {
            true => deadline.before(IndexUse::of(self, &reader, fragment.predicate())).await??,
            false => None,
        };
        let duty_cycle = DutyCycle::new(self.config.compute_power);
        let input = self.input(reader, ranges, options, Arc::clone(columns), Arc::clone(&rows_in), indexes.clone());
        let input = duty_cycle.yielding(input);
        let batches = fragment.instantiate(input)?.execute(0, Arc::clone(&self.context))?;

        let node = Arc::clone(self);
        let report = move |rows_out| {
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
        };
        let bytes_max = request.answer_bytes_max;
        let options = AnswerOptions::new(&self.config, compression, bytes_max, deadline, duty_cycle).after(waited);
        let opened = Opened { bitmap: None, batches };
        answer(std::future::ready(Ok(opened)), &options, report, sender, slot).await
    }

    /// The needed columns of all partitions, one after the other; of some only the rows that an index
    /// finds.
    fn input(
        &self,
        reader: PartitionReader,
        ranges: Vec<PartitionRange>,
        options: ReadOptions,
        schema: SchemaRef,
        rows_in: Arc<AtomicU64>,
        indexes: Option<Arc<IndexUse>>,
    ) -> SendableRecordBatchStream {
        let context = Arc::clone(&self.context);
        let batches = futures::stream::iter(ranges)
            .then(move |range| {
                let (reader, options, context) = (reader.clone(), options.clone(), Arc::clone(&context));
                let indexes = indexes.clone();
                async move {
                    let rows = match indexes {
                        Some(indexes) => indexes.stream(reader, range, &options, &context).await,
                        None => reader.stream(range, &options, &context),
                    };
                    rows.map_err(datafusion::common::DataFusionError::from)
                }
            })
            .try_flatten()
            .inspect_ok(move |batch| {
                rows_in.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed()))
    }
}

impl Execution {
    fn ask(&self) -> Ask {
        let origin = self.request.origin.clone().unwrap_or_default();
        Ask {
            caller_busy_permille: origin.busy_permille,
            peer: self.deadline.reader().account().peer().clone(),
            tenant: origin.tenant,
            query: origin.query_id,
            shape: match self.request.shape {
                0 => shape_of(self.digest.as_bytes(), &self.object.path),
                shape => shape_of(&shape.to_le_bytes(), &self.object.path),
            },
            bytes_in: self.bytes_in(),
            bytes_out: Some(self.request.bytes_out_estimate).filter(|bytes| *bytes > 0),
            accepts_pushback: self.request.accepts_pushback,
            to_follow: self.request.partitions_to_follow,
            resumes: false,
        }
    }

    /// S_in: of CSV the ranges themselves, of Parquet what the caller knows from the footer.
    fn bytes_in(&self) -> u64 {
        let bytes = match self.format {
            FileFormat::Parquet => self.request.bytes_in,
            FileFormat::Csv(_) => self.ranges.iter().map(PartitionRange::bytes).fold(0, u64::saturating_add),
        };
        bytes.min(self.object.size)
    }
}

/// Positions of a fragment's input columns in the table, with equal types.
pub(super) fn positions(columns: &SchemaRef, table: &SchemaRef) -> Result<Vec<usize>, NodeError> {
    let refused = |why: String| NodeError::new(ErrorKind::Refused, why);
    let wanted: HashSet<&str> = columns.fields().iter().map(|column| column.name().as_str()).collect();
    let mut found: HashMap<&str, (usize, &DataType)> = HashMap::with_capacity(wanted.len());
    for (position, field) in table.fields().iter().enumerate() {
        if wanted.contains(field.name().as_str()) {
            found.entry(field.name()).or_insert((position, field.data_type()));
        }
    }
    let position = |column: &Arc<Field>| match found.get(column.name().as_str()) {
        Some((position, data_type)) if *data_type == column.data_type() => Ok(*position),
        Some((_, data_type)) => Err(refused(format!(
            "column {} is {data_type} in the table and {} in the fragment",
            column.name(),
            column.data_type()
        ))),
        None => Err(refused(format!("column {} is not in the table", column.name()))),
    };
    columns.fields().iter().map(position).collect()
}
