//! Batches to Flight messages, in a task of their own so that decoding and sending overlap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::wire::{Compression, ErrorKind, FragmentReport};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::arbitrator::PushdownSlot;
use super::duty_cycle::DutyCycle;
use super::storage_node::{Answer, before};
use crate::NodeError;

/// Encoded messages waiting for the link, per answer.
const MESSAGES_AHEAD: usize = 4;
/// Arrow bytes of a message before compression.
const MESSAGE_BYTES: usize = 2 << 20;

/// How to answer.
pub(super) struct AnswerOptions {
    pub(super) compression: Compression,
    /// See [`thermocline_pushdown::wire::FragmentRequest::answer_bytes_max`].
    pub(super) bytes_max: u64,
    pub(super) deadline: Instant,
    /// Measures and slows the work of making the answer.
    pub(super) duty_cycle: DutyCycle,
}

/// What there is to send.
pub(super) struct Opened {
    /// An encoded selection bitmap, sent first.
    pub(super) bitmap: Option<Vec<u8>>,
    pub(super) batches: SendableRecordBatchStream,
}

/// Encodes `batches` and closes with the report that `report` makes of the rows sent. The slot is
/// held until the last message is handed over or the answer is dropped.
pub(super) fn answer(
    batches: SendableRecordBatchStream,
    options: AnswerOptions,
    report: impl FnOnce(u64) -> FragmentReport + Send + 'static,
    slot: PushdownSlot,
) -> Answer {
    answer_opening(std::future::ready(Ok(Opened { bitmap: None, batches })), options, report, slot)
}

/// The same of batches that some work, under the same deadline, comes before.
pub(super) fn answer_opening(
    opening: impl Future<Output = Result<Opened, NodeError>> + Send + 'static,
    options: AnswerOptions,
    report: impl FnOnce(u64) -> FragmentReport + Send + 'static,
    slot: PushdownSlot,
) -> Answer {
    let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD);
    let task = SpawnedTask::spawn(async move { produce(opening, &options, report, &sender, &slot).await });
    finished_by(task, receiver)
}

/// The receiver's items, then whatever the task itself has to say: an error or a panic must not
/// look like a short answer. Dropping the stream aborts the task.
pub(super) fn finished_by(
    task: SpawnedTask<Result<(), NodeError>>,
    mut receiver: mpsc::Receiver<Result<FlightData, NodeError>>,
) -> Answer {
    let items = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    let end = futures::stream::once(async move {
        match task.join().await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(error) => Some(Err(NodeError::new(ErrorKind::Internal, format!("the answer's task failed: {error}")))),
        }
    });
    items.chain(end.filter_map(|end| async move { end })).boxed()
}

async fn produce(
    opening: impl Future<Output = Result<Opened, NodeError>> + Send + 'static,
    options: &AnswerOptions,
    report: impl FnOnce(u64) -> FragmentReport,
    sender: &mpsc::Sender<Result<FlightData, NodeError>>,
    slot: &PushdownSlot,
) -> Result<(), NodeError> {
    let rows_out = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&rows_out);
    let write_options = write_options(options.compression)?;
    let messages = async move {
        let opened =
            opening.await.map_err(|error| FlightError::ExternalError(Box::new(DataFusionError::from(error))))?;
        Ok::<_, FlightError>(messages(opened, write_options, counted))
    };
    let messages = messages.into_stream().try_flatten().boxed();
    let mut messages = options.duty_cycle.paced(messages);

    // With a limit, nothing is sent before it is clear that the limit holds: a caller that is told
    // to fetch the stored bytes instead must not have paid for half an answer.
    let mut held: Vec<FlightData> = vec![];
    let mut answer_bytes = 0;
    while let Some(message) = before(options.deadline, messages.try_next()).await?.map_err(from_flight)? {
        answer_bytes += message.encoded_len() as u64;
        if options.bytes_max == 0 {
            send(sender, options.deadline, message).await?;
            continue;
        }
        if answer_bytes > options.bytes_max {
            slot.learn(answer_bytes, None);
            return Err(NodeError::new(
                ErrorKind::RawIsSmaller,
                format!("the answer passes {} bytes, the stored columns are smaller", options.bytes_max),
            ));
        }
        held.push(message);
    }
    slot.learn(answer_bytes, Some(options.duty_cycle.busy()));
    for message in held {
        send(sender, options.deadline, message).await?;
    }
    let report = report(rows_out.load(Ordering::Relaxed));
    let trailer = FlightData { app_metadata: report.encode_to_vec().into(), ..FlightData::default() };
    send(sender, options.deadline, trailer).await
}

/// The bitmap, and the batches encoded; their rows are counted.
fn messages(
    Opened { bitmap, batches }: Opened,
    options: IpcWriteOptions,
    rows_out: Arc<AtomicU64>,
) -> impl Stream<Item = Result<FlightData, FlightError>> + Send {
    let schema = batches.schema();
    let compact = batches.map(move |batch| {
        let batch = compact(batch?)?;
        rows_out.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok::<_, DataFusionError>(batch)
    });
    let encoded = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_options(options)
        .with_max_flight_data_size(MESSAGE_BYTES)
        .build(compact.map_err(|error| FlightError::ExternalError(Box::new(error))));
    let bitmap = bitmap.map(|bitmap| Ok(FlightData { data_body: bitmap.into(), ..FlightData::default() }));
    futures::stream::iter(bitmap).chain(encoded)
}

async fn send(
    sender: &mpsc::Sender<Result<FlightData, NodeError>>,
    deadline: Instant,
    message: FlightData,
) -> Result<(), NodeError> {
    before(deadline, sender.send(Ok(message)))
        .await?
        .map_err(|_| NodeError::new(ErrorKind::Unavailable, "the reader of the answer is gone"))
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
pub(super) fn compact(batch: RecordBatch) -> Result<RecordBatch, DataFusionError> {
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
