//! Requests to storage nodes: stored bytes, and fragments.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use prost::Message;
use thermocline_catalog::{Partition, PlannedObject, fetch, ranges_ticket};
use thermocline_formats::RangeSource;
use thermocline_pushdown::wire::{
    Compression, ErrorKind, Format, FragmentReport, FragmentRequest, ObjectEntry, Origin, RANGES_MAX, Ticket,
    TicketKind,
};
use thermocline_pushdown::{FileFormat, NodeError, PartitionRange, PushbackToken};
use thermocline_storage::{Content, wire_bytes};

use super::arrow_message::ArrowMessages;
use super::window::Window;
use crate::index::Indexes;
use crate::model::{Outstanding, StorageRates, Transfer, UnderWay};
use crate::query::{QueryContext, ScanMetrics};

/// Stored bytes of one object, through its node.
#[derive(Debug, Clone)]
pub(super) struct RemoteSource {
    object: Arc<PlannedObject>,
    origin: Origin,
    metrics: ScanMetrics,
    /// The slot that the node keeps for these reads, if it sent us for them.
    pushback: Option<PushbackToken>,
    /// Room for reads that are large, if they have to wait for any.
    window: Option<Window>,
    /// What is known of the node.
    rates: Arc<Mutex<StorageRates>>,
}

impl RemoteSource {
    /// An object's bytes for `query`, as far as there is room in `window`. Under the token of a pushback, if there is one,
    /// the node says when.
    pub(super) fn new(
        object: &Arc<PlannedObject>,
        query: &QueryContext,
        metrics: &ScanMetrics,
        pushback: Option<PushbackToken>,
        window: Option<Window>,
    ) -> Self {
        Self {
            object: Arc::clone(object),
            origin: query.origin(),
            metrics: metrics.clone(),
            window: window.filter(|_| pushback.is_none()),
            pushback,
            rates: query.resources().model.storage(object.node.label()),
        }
    }
}

#[async_trait]
impl RangeSource for RemoteSource {
    fn object(&self) -> &ObjectEntry {
        &self.object.entry
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let mut read = Vec::with_capacity(ranges.len());
        for ranges in ranges.chunks(RANGES_MAX) {
            let Some(window) = self.window.clone() else {
                read.extend(self.request(ranges).await?);
                continue;
            };
            let (this, ranges) = (self.clone(), ranges.to_vec());
            let bytes = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
            let request = window.run(bytes, async move { this.request(&ranges).await });
            let failed = |error| NodeError::new(ErrorKind::Internal, format!("the task of a read failed: {error}"));
            read.extend(request.await.map_err(failed)??);
        }
        Ok(read)
    }
}

impl RemoteSource {
    /// At most [`RANGES_MAX`] ranges, now.
    async fn request(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let ticket = ranges_ticket(&self.object.entry, ranges, self.origin.clone(), self.pushback);
        self.metrics.bytes_to_storage.add(prost_len(&ticket));
        self.metrics.requests.add(1);
        let came = AtomicU64::new(0);
        let count = |bytes| {
            came.fetch_add(bytes, Ordering::Relaxed);
            self.metrics.bytes_from_storage.add(bytes as usize);
        };
        let under_way = UnderWay::new(&self.rates);
        let started = Instant::now();
        let read = fetch(&self.object.node, &self.object.entry, &ticket, ranges, count).await?;
        let took = started.elapsed();
        drop(under_way);
        self.metrics.time_network.add_duration(took);
        // Under a token, the transfer may have waited for its turn.
        if self.pushback.is_none() && self.object.node.capabilities().crosses_link {
            let bytes = came.load(Ordering::Relaxed);
            self.rates.lock().transferred(Transfer { bytes, ended: Instant::now(), took });
        }
        Ok(read)
    }
}

/// The parts that all fragment requests of a scan share.
#[derive(Debug, Clone)]
pub(super) struct FragmentCall {
    pub(super) fragment: Content,
    /// See [`FragmentRequest::shape`].
    pub(super) shape: u64,
    pub(super) table_schema: Content,
    pub(super) format: FileFormat,
    pub(super) query: Arc<QueryContext>,
    /// Whether the node may answer that the stored bytes should be fetched instead.
    pub(super) accepts_pushback: bool,
    pub(super) metrics: ScanMetrics,
    /// The database's indexes; `None` if nodes are not to use them.
    pub(super) indexes: Option<Arc<Indexes>>,
}

/// The parts that differ between a scan's requests: see the fields of [`FragmentRequest`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Hints {
    pub(super) answer_bytes_max: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out_estimate: u64,
    pub(super) partitions_to_follow: u32,
    /// Seconds that one of this side's cores would take.
    pub(super) expected_s: f64,
}

/// Time that an answer may have waited for its reader and still tell the bandwidth.
const IDLE_MAX: Duration = Duration::from_millis(1);

/// An answer whose first message has come.
pub(super) struct Answered {
    /// Batches as they arrive.
    pub(super) batches: BoxStream<'static, Result<RecordBatch>>,
    /// The encoded bitmap, if one was asked for: it is there once the first batch is, or their end.
    pub(super) bitmap: Arc<Mutex<Option<Bytes>>>,
    /// Measures of the answer so far.
    pub(super) meter: Arc<AnswerMeter>,
}

/// Measures of an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerMeter {
    bytes: AtomicU64,
    storage_us: AtomicU64,
    network_us: AtomicU64,
}

impl AnswerMeter {
    /// Bytes on the wire so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Time that the node computed and the answer was on its way; zero before the answer's end.
    pub(super) fn work(&self) -> Duration {
        self.storage() + Duration::from_micros(self.network_us.load(Ordering::Relaxed))
    }

    /// Time that the node computed; zero before the answer's end.
    pub(super) fn storage(&self) -> Duration {
        Duration::from_micros(self.storage_us.load(Ordering::Relaxed))
    }
}

impl FragmentCall {
    /// Runs the fragment over `partitions` at the object's node; batches arrive as they are made.
    ///
    /// # Errors
    /// [`NodeError::wants_pullup`], before any batch, if the caller should fetch the stored bytes
    /// instead; others are final.
    pub(super) async fn run(
        &self,
        object: Arc<PlannedObject>,
        partitions: Vec<Arc<Partition>>,
        schema: arrow::datatypes::SchemaRef,
        compression: Compression,
        hints: Hints,
    ) -> Result<Answered, NodeError> {
        let request = FragmentRequest {
            origin: Some(self.query.origin()),
            object: Some(object.entry.clone()),
            format: Some(Format::from(&object.format(&self.format))),
            partitions: partitions.iter().map(|partition| partition.range.into()).collect(),
            compression: compression as i32,
            answer_bytes_max: hints.answer_bytes_max,
            accepts_pushback: self.accepts_pushback,
            bytes_in: hints.bytes_in,
            bytes_out_estimate: hints.bytes_out_estimate,
            partitions_to_follow: hints.partitions_to_follow,
            use_indexes: self.indexes.is_some(),
            shape: self.shape,
            ..FragmentRequest::default()
        };
        let request = |fragment: (Vec<u8>, Vec<u8>), table_schema: (Vec<u8>, Vec<u8>)| {
            TicketKind::Fragment(FragmentRequest {
                fragment: fragment.0,
                fragment_digest: fragment.1,
                table_schema: table_schema.0,
                table_schema_digest: table_schema.1,
                ..request.clone()
            })
        };
        self.send(&self.fragment, request, (object, partitions), schema, hints.expected_s).await
    }

    /// Sends a request of which the answer is batches of `schema` over `partitions`. `request` makes it
    /// of the fields for `fragment` and for the table's schema: each is sent to a node once, if it is
    /// long, and then named; whole, if the node has forgotten it. One of this side's cores would take `expected_s`
    /// seconds for all of it.
    ///
    /// # Errors
    /// As [`FragmentCall::run`].
    pub(super) async fn send(
        &self,
        fragment: &Content,
        request: impl Fn((Vec<u8>, Vec<u8>), (Vec<u8>, Vec<u8>)) -> TicketKind,
        (object, partitions): (Arc<PlannedObject>, Vec<Arc<Partition>>),
        schema: arrow::datatypes::SchemaRef,
        expected_s: f64,
    ) -> Result<Answered, NodeError> {
        for content in [fragment, &self.table_schema] {
            let sent = object.node.put(content).await.map_err(|error| error.context(&object.entry.path))?;
            self.metrics.bytes_to_storage.add(sent);
        }
        let named = object.node.capabilities().contents;
        let with = |whole: bool| request(fragment.fields(whole), self.table_schema.fields(whole));
        let (again, partitions_again) = (Arc::clone(&object), partitions.clone());
        match self.answer(with(!named), object, partitions, Arc::clone(&schema), expected_s).await {
            Err(error) if error.kind == ErrorKind::UnknownContent => {
                again.node.forget(fragment);
                again.node.forget(&self.table_schema);
                self.answer(with(true), again, partitions_again, schema, expected_s).await
            }
            answer => answer,
        }
    }

    async fn answer(
        &self,
        request: TicketKind,
        object: Arc<PlannedObject>,
        partitions: Vec<Arc<Partition>>,
        schema: arrow::datatypes::SchemaRef,
        expected_s: f64,
    ) -> Result<Answered, NodeError> {
        let ticket = Ticket { kind: Some(request) };
        self.metrics.bytes_to_storage.add(prost_len(&ticket));
        self.metrics.requests.add(1);
        let path = object.entry.path.clone();
        let outstanding = Outstanding::new(&self.query.resources().model.storage(object.node.label()));
        let started = Instant::now();
        let messages = object.node.get(&ticket).await.map_err(|error| error.context(&path))?;
        let metrics = self.metrics.clone();
        let reported: Arc<Mutex<Option<Bytes>>> = Arc::default();
        let report = Arc::clone(&reported);
        let bitmap: Arc<Mutex<Option<Bytes>>> = Arc::default();
        let opening = Arc::clone(&bitmap);
        let meter: Arc<AnswerMeter> = Arc::default();
        let count = Arc::clone(&meter);
        // An opening bitmap and the closing report are no Arrow messages; they must not reach the
        // decoder.
        let place = format!("storage node {}: {}", object.node.label(), object.entry.path);
        let mut checks = ArrowMessages::new(Arc::clone(&schema));
        let batches = messages.try_filter(move |message| {
            let bytes = wire_bytes(message);
            count.bytes.fetch_add(bytes, Ordering::Relaxed);
            metrics.bytes_from_storage.add(bytes as usize);
            metrics.bytes_returned.add(bytes as usize);
            let is_arrow = !message.data_header.is_empty();
            if !is_arrow && !message.data_body.is_empty() {
                *opening.lock() = Some(message.data_body.clone());
            }
            if !is_arrow && !message.app_metadata.is_empty() {
                *report.lock() = Some(message.app_metadata.clone());
            }
            std::future::ready(is_arrow)
        });
        let batches = batches.and_then(move |message| {
            let checked = checks.check(&message);
            std::future::ready(
                checked
                    .map(|()| message)
                    .map_err(|why| NodeError::new(ErrorKind::Unavailable, format!("{place}: {why}"))),
            )
        });
        let answer = Answer {
            decoder: FlightDataDecoder::new(batches.map_err(|error| FlightError::ExternalError(Box::new(error)))),
            object,
            partitions,
            schema,
            metrics: self.metrics.clone(),
            indexes: self.indexes.clone(),
            reported,
            meter: Arc::clone(&meter),
            outstanding,
            started,
            idle: Duration::ZERO,
            yielded: None,
            expected_s,
        };
        let batches = futures::stream::try_unfold(answer, |mut answer| async move {
            Ok(answer.next().await?.map(|batch| (batch, answer)))
        });
        Ok(Answered { batches: batches.boxed(), bitmap, meter })
    }
}

struct Answer {
    decoder: FlightDataDecoder,
    object: Arc<PlannedObject>,
    partitions: Vec<Arc<Partition>>,
    schema: arrow::datatypes::SchemaRef,
    metrics: ScanMetrics,
    indexes: Option<Arc<Indexes>>,
    /// The closing report, once it has come: an answer without it was cut short.
    reported: Arc<Mutex<Option<Bytes>>>,
    meter: Arc<AnswerMeter>,
    outstanding: Outstanding,
    started: Instant,
    /// Time that nobody asked for the next batch, and since when nobody does.
    idle: Duration,
    yielded: Option<Instant>,
    /// Seconds that one of this side's cores would have taken.
    expected_s: f64,
}

impl Answer {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(yielded) = self.yielded.take() {
            self.idle += yielded.elapsed();
        }
        let batch = self.next_batch().await?;
        self.yielded = Some(Instant::now());
        Ok(batch)
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(message) = self.decoder.try_next().await.map_err(|error| self.failed(error))? {
            if let DecodedPayload::RecordBatch(batch) = message.payload {
                if batch.num_columns() != self.schema.fields().len() {
                    return Err(self.garbled("the answer has other columns than asked for"));
                }
                // Same columns; the wire may have dropped what the plan knows about nulls.
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                return RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
                    .map(Some)
                    .map_err(|error| self.garbled(&error.to_string()));
            }
        }
        let Some(report) = self.reported.lock().take() else {
            return Err(self.garbled("the answer ended early"));
        };
        let report = FragmentReport::decode(report).map_err(|error| self.garbled(&error.to_string()))?;
        self.metrics.bytes_scanned.add(report.bytes_read as usize);
        self.metrics.partitions_indexed.add(report.partitions_indexed as usize);
        self.metrics.index_bytes_read.add(report.index_bytes_read as usize);
        if let Some(indexes) = self.indexes.as_ref().filter(|_| report.index_unusable) {
            indexes.doubt(&self.object);
        }
        self.learn_times(&report);
        for column in &report.statistics {
            let range = PartitionRange::try_from(column.range).ok();
            if let Some(partition) = self.partitions.iter().find(|partition| Some(partition.range) == range) {
                partition.learn(column);
            }
        }
        Ok(None)
    }

    /// Where the time of the answer went.
    fn learn_times(&self, report: &FragmentReport) {
        let waited = Duration::from_micros(report.waited_us);
        let storage = Duration::from_micros(report.elapsed_us.saturating_sub(report.sending_us));
        let network = self.started.elapsed().saturating_sub(self.idle + waited + storage);
        self.meter.network_us.store(network.as_micros() as u64, Ordering::Relaxed);
        self.metrics.time_waiting.add_duration(waited);
        self.metrics.time_storage.add_duration(storage);
        self.metrics.time_network.add_duration(network);
        // On shared cores, other work is our own: the model counts it by itself.
        let preempted = match self.object.node.capabilities().shares_cores {
            true => Duration::from_micros(report.preempted_us),
            false => Duration::ZERO,
        };
        let alone = storage.saturating_sub(preempted);
        self.meter.storage_us.store(alone.as_micros() as u64, Ordering::Relaxed);
        let mut rates = self.outstanding.rates().lock();
        rates.answered(waited, alone, self.outstanding.at_once(), self.expected_s);
        rates.worked(alone, Duration::from_micros(report.busy_us).saturating_sub(preempted));
        // Bytes that came while nobody asked for them tell little of the link, and those of which storage did not wait for
        // it neither.
        let sending = Duration::from_micros(report.sending_us);
        let bytes = self.meter.bytes();
        let is_telling = Transfer::tells_round_trip(bytes) || sending >= network / 2;
        if self.object.node.capabilities().crosses_link && self.idle < IDLE_MAX.max(network / 4) && is_telling {
            rates.transferred(Transfer { bytes, ended: Instant::now(), took: network });
        }
    }

    fn failed(&self, error: FlightError) -> DataFusionError {
        match error {
            FlightError::ExternalError(inner) => match inner.downcast::<NodeError>() {
                Ok(error) => error.context(&self.object.entry.path).into(),
                Err(error) => self.garbled(&error.to_string()),
            },
            error => self.garbled(&error.to_string()),
        }
    }

    fn garbled(&self, why: &str) -> DataFusionError {
        NodeError::new(
            ErrorKind::Unavailable,
            format!("storage node {}: {}: {why}", self.object.node.label(), self.object.entry.path),
        )
        .into()
    }
}

fn prost_len(ticket: &Ticket) -> usize {
    ticket.encoded_len()
}
