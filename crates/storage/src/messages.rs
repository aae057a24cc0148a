//! Batches as Flight messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, SchemaAsIpc};
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{Compression, ErrorKind, FragmentReport};

use crate::Messages;

/// Arrow bytes of a message before compression. A node has room for so many before a message is
/// made.
pub(crate) const MESSAGE_BYTES: usize = 1 << 20;

/// The answer of a [`Storage`](crate::Storage) to a fragment: its batches encoded, then the report that `report` makes of
/// the number of rows sent. That number, and the time since now, are filled in.
///
/// # Errors
/// If there is no such compression. The stream's errors are those of `batches`.
pub fn answer_messages(
    batches: SendableRecordBatchStream,
    compression: Compression,
    report: impl FnOnce(u64) -> FragmentReport + Send + 'static,
) -> Result<Messages, NodeError> {
    let rows_out = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let messages = encoded(Opened { bitmap: None, batches }, compression, Arc::clone(&rows_out))?;
    let trailer = futures::stream::once(async move {
        let rows_out = rows_out.load(Ordering::Relaxed);
        let elapsed_us = started.elapsed().as_micros() as u64;
        Ok(last_message(FragmentReport { rows_out, elapsed_us, ..report(rows_out) }))
    });
    Ok(messages.chain(trailer).boxed())
}

/// The message that closes an answer. Without any time, the report of no rows would have no bytes, as the messages that
/// only say "at work".
pub(crate) fn last_message(report: FragmentReport) -> FlightData {
    let report = FragmentReport { elapsed_us: report.elapsed_us.max(1), ..report };
    FlightData { app_metadata: report.encode_to_vec().into(), ..FlightData::default() }
}

/// Bitmap and batches of an answer.
pub(crate) struct Opened {
    /// An encoded selection bitmap, sent first.
    pub(crate) bitmap: Option<Vec<u8>>,
    pub(crate) batches: SendableRecordBatchStream,
}

/// The bitmap, and the batches encoded; their rows are counted.
///
/// # Errors
/// If there is no such compression.
pub(crate) fn encoded(
    Opened { bitmap, batches }: Opened,
    compression: Compression,
    rows_out: Arc<AtomicU64>,
) -> Result<impl Stream<Item = Result<FlightData, NodeError>> + Send + 'static, NodeError> {
    let options = write_options(compression)?;
    let schema = batches.schema();
    let compact = batches.map(move |batch| {
        let batch = compact(batch?)?;
        rows_out.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok::<_, DataFusionError>(batch)
    });
    // The encoder says that large lists are lists in the schema, which is its first message.
    let has_large_lists =
        schema.flattened_fields().iter().any(|field| matches!(field.data_type(), DataType::LargeList(_)));
    let mut header = has_large_lists.then(|| FlightData::from(SchemaAsIpc::new(&schema, &options)).data_header);
    let encoded = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_options(options)
        .with_max_flight_data_size(MESSAGE_BYTES)
        // The caller's plan has the type that the fragment has.
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(compact.map_err(|error| FlightError::ExternalError(Box::new(error))))
        .map_ok(move |message| match header.take() {
            Some(data_header) => FlightData { data_header, ..message },
            None => message,
        })
        .map_err(from_flight);
    let bitmap = bitmap.map(|bitmap| Ok(FlightData { data_body: bitmap.into(), ..FlightData::default() }));
    Ok(futures::stream::iter(bitmap).chain(encoded))
}

fn write_options(compression: Compression) -> Result<IpcWriteOptions, NodeError> {
    let codec = match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    };
    IpcWriteOptions::default()
        .try_with_compression(codec)
        .map_err(|error| NodeError::new(ErrorKind::Internal, error.to_string()))
}

fn from_flight(error: FlightError) -> NodeError {
    match error {
        FlightError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
            Ok(error) => NodeError::from(*error),
            Err(error) => NodeError::new(ErrorKind::Internal, error.to_string()),
        },
        error => NodeError::new(ErrorKind::Internal, error.to_string()),
    }
}

/// The batch without bytes that its rows do not use: a view array that passed a filter still holds
/// the whole pages that it points into, and the IPC format would send them.
pub(crate) fn compact(batch: RecordBatch) -> Result<RecordBatch, DataFusionError> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
            _ => Arc::clone(column),
        })
        .collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
