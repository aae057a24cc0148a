//! Running a fragment over one object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::wire::{Compression, ErrorKind, FragmentReport, FragmentRequest, decode_schema};
use thermocline_pushdown::{FileFormat, Fragment, PartitionRange};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::StorageNode;
use super::answer::{AnswerOptions, answer};
use super::storage_node::{Answer, before, required};
use crate::source::RootSource;
use crate::{CountingSource, NodeError, PartitionReader, ReadOptions};

impl StorageNode {
    /// Decodes and validates first; waits for a slot; then streams the fragment's batches and a
    /// [`FragmentReport`].
    pub(super) async fn execute(self: &Arc<Self>, request: FragmentRequest) -> Result<Answer, NodeError> {
        let deadline = self.deadline(request.origin.as_ref());
        let object = required(request.object, "object")?;
        let (fragment, columns) = Fragment::decode(&request.fragment, &self.context, &self.config.limits)
            .map_err(|error| NodeError::from(error).context(&object.path))?;
        let table_schema = decode_schema(&request.table_schema)?;
        let format = FileFormat::try_from(&required(request.format, "format")?)?;
        let ranges: Vec<PartitionRange> =
            request.partitions.into_iter().map(PartitionRange::try_from).collect::<Result<_, _>>()?;
        let compression = Compression::try_from(request.compression)
            .map_err(|_| NodeError::new(ErrorKind::Refused, format!("unknown compression {}", request.compression)))?;

        let slot = self.slot(deadline).await?;
        let started = Instant::now();
        let bytes_read = Arc::new(AtomicU64::new(0));
        let rows_in = Arc::new(AtomicU64::new(0));
        let statistics = matches!(format, FileFormat::Csv(_)).then(Arc::default);
        let reader = PartitionReader {
            source: Arc::new(CountingSource::new(
                Arc::new(RootSource::new(self.root.clone(), object.clone())),
                Arc::clone(&bytes_read),
            )),
            format,
            footer: None,
            table_schema,
        };
        let options = ReadOptions {
            columns: positions(&columns, &reader.table_schema).map_err(|error| error.context(&object.path))?,
            predicate: fragment.predicate().cloned(),
            late_materialisation: self.config.late_materialisation,
            statistics: statistics.clone(),
        };
        let input = self.input(reader, ranges, options, columns, Arc::clone(&rows_in));
        let batches = fragment.instantiate(input)?.execute(0, Arc::clone(&self.context))?;

        let node = Arc::clone(self);
        let report = move |rows_out| {
            node.counters().fragments.fetch_add(1, Ordering::Relaxed);
            FragmentReport {
                rows_in: rows_in.load(Ordering::Relaxed),
                rows_out,
                bytes_read: bytes_read.load(Ordering::Relaxed),
                elapsed_us: started.elapsed().as_micros() as u64,
                statistics: statistics.map_or_else(Vec::new, |found| std::mem::take(&mut *found.lock())),
            }
        };
        let options = AnswerOptions { compression, bytes_max: request.answer_bytes_max, deadline };
        Ok(answer(batches, options, report, slot))
    }

    /// Waits for the right to run a fragment.
    async fn slot(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, NodeError> {
        /// Counts a waiter for as long as it lives.
        struct Waiting<'a>(&'a AtomicU64);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }

        let queued = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if queued >= self.config.queue_max as u64 {
            return Err(NodeError::new(
                ErrorKind::Unavailable,
                format!("the storage node's queue of {} fragments is full", self.config.queue_max),
            ));
        }
        before(deadline, Arc::clone(&self.slots).acquire_owned())
            .await?
            .map_err(|_| NodeError::new(ErrorKind::Unavailable, "the storage node is shutting down"))
    }

    /// The needed columns of all partitions, one after the other.
    fn input(
        &self,
        reader: PartitionReader,
        ranges: Vec<PartitionRange>,
        options: ReadOptions,
        schema: SchemaRef,
        rows_in: Arc<AtomicU64>,
    ) -> SendableRecordBatchStream {
        let context = Arc::clone(&self.context);
        let batches = futures::stream::iter(ranges)
            .map(move |range| {
                reader.stream(range, &options, &context).map_err(datafusion::common::DataFusionError::from)
            })
            .try_flatten()
            .inspect_ok(move |batch| {
                rows_in.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed()))
    }
}

/// Positions of a fragment's input columns in the table, with equal types.
fn positions(columns: &SchemaRef, table: &SchemaRef) -> Result<Vec<usize>, NodeError> {
    columns
        .fields()
        .iter()
        .map(|column| match table.column_with_name(column.name()) {
            Some((position, field)) if field.data_type() == column.data_type() => Ok(position),
            Some((_, field)) => Err(NodeError::new(
                ErrorKind::Refused,
                format!(
                    "column {} is {} in the table and {} in the fragment",
                    column.name(),
                    field.data_type(),
                    column.data_type()
                ),
            )),
            None => Err(NodeError::new(ErrorKind::Refused, format!("column {} is not in the table", column.name()))),
        })
        .collect()
}
