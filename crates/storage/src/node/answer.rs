//! Answers made in tasks of their own, so that decoding and sending overlap, and held back where they may prove too large.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use datafusion::common::runtime::SpawnedTask;
use futures::{FutureExt, StreamExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{Compression, ErrorKind, FragmentReport};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::arbitrator::PushdownSlot;
use super::config::NodeConfig;
use super::duty_cycle::DutyCycle;
use super::reader::{Deadline, charged};
use super::storage_node::Answer;
use super::workers::Workers;
use crate::messages::{MESSAGE_BYTES, Opened, encoded, last_message};

/// Encoded messages waiting for the link, per answer.
const MESSAGES_AHEAD: usize = 4;
/// Bytes of an answer up to which it waits for room while they are held back; one that holds more is given
/// up instead, so that others need not wait for it.
const WAITING_BYTES_MAX: u64 = 64 << 10;

/// Options of an answer.
pub(super) struct AnswerOptions {
    pub(super) compression: Compression,
    /// See [`thermocline_pushdown::wire::FragmentRequest::answer_bytes_max`].
    pub(super) bytes_max: u64,
    pub(super) deadline: Deadline,
    /// See [`NodeConfig::slot_wait_max`](super::NodeConfig::slot_wait_max).
    pub(super) slot_wait_max: Duration,
    /// See [`NodeConfig::held_answer_bytes_max`](super::NodeConfig::held_answer_bytes_max).
    pub(super) held_bytes_max: u64,
    /// Measures and slows the work of making the answer.
    pub(super) duty_cycle: DutyCycle,
    /// Time that the request waited for its slot.
    pub(super) waited: Duration,
}

impl AnswerOptions {
    pub(super) fn new(
        config: &NodeConfig,
        compression: Compression,
        bytes_max: u64,
        deadline: Deadline,
        duty_cycle: DutyCycle,
    ) -> Self {
        let NodeConfig { slot_wait_max, held_answer_bytes_max: held_bytes_max, .. } = *config;
        let waited = Duration::ZERO;
        Self { compression, bytes_max, deadline, slot_wait_max, held_bytes_max, duty_cycle, waited }
    }

    /// The same for a request that waited so long for its slot.
    pub(super) fn after(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }
}

/// Where the messages of an answer go.
pub(super) type Messages = mpsc::Sender<Result<FlightData, NodeError>>;

/// The answer that `produce` makes, in a task of `workers`: it goes on, and lets go of what it need not
/// hold, whether or not its reader comes. Dropping the answer aborts it.
pub(super) fn produced<F>(workers: &Workers, produce: impl FnOnce(Messages) -> F) -> Answer
where
    F: Future<Output = Result<(), NodeError>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD);
    finished_by(workers.spawn(produce(sender)), receiver)
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

/// Encodes the batches that `opening` leads to, which is under the same deadline, and closes with the
/// report that `report` makes of the rows sent. The slot is held until the last message is handed
/// over, but not while the reader is away.
pub(super) async fn answer(
    opening: impl Future<Output = Result<Opened, NodeError>> + Send + 'static,
    options: &AnswerOptions,
    report: impl FnOnce(u64) -> FragmentReport,
    sender: &Messages,
    mut slot: PushdownSlot,
) -> Result<(), NodeError> {
    let rows_out = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&rows_out);
    let compression = options.compression;
    let messages = async move { encoded(opening.await?, compression, counted) };
    let messages = messages.into_stream().try_flatten().boxed();
    let mut messages = options.duty_cycle.paced(messages);

    // With a limit, nothing is sent before it is clear that the limit holds: a caller that is told
    // to fetch the stored bytes instead must not have paid for half an answer.
    let is_held = options.bytes_max > 0;
    let mut held: Vec<FlightData> = vec![];
    let mut answer_bytes = 0;
    let mut sending = Duration::ZERO;
    let account = options.deadline.reader().account();
    loop {
        if !(is_held && answer_bytes > WAITING_BYTES_MAX) {
            let patience = tokio::time::sleep(options.slot_wait_max);
            waited(options, &mut slot, account.take(MESSAGE_BYTES), patience).await?;
            options.deadline.before(slot.resume()).await??;
        } else if !account.try_take(MESSAGE_BYTES) {
            slot.learn(answer_bytes, None);
            return Err(NodeError::new(
                ErrorKind::ResourcesExhausted,
                "the storage node has no memory to hold the answer back until it is complete",
            ));
        }
        let message = options.deadline.before(messages.try_next()).await??;
        account.settle(MESSAGE_BYTES, message.as_ref().map_or(0, charged));
        let Some(message) = message else { break };
        answer_bytes += message.encoded_len() as u64;
        if !is_held {
            sending += send(sender, options, &mut slot, message).await?;
            continue;
        }
        if answer_bytes > options.bytes_max {
            slot.learn(answer_bytes, None);
            return Err(NodeError::new(
                ErrorKind::RawIsSmaller,
                format!("the answer passes {} bytes, the stored columns are smaller", options.bytes_max),
            ));
        }
        if answer_bytes > options.held_bytes_max {
            slot.learn(answer_bytes, None);
            return Err(NodeError::new(
                ErrorKind::ResourcesExhausted,
                format!("the answer passes the {} bytes that the storage node holds back", options.held_bytes_max),
            ));
        }
        held.push(message);
    }
    slot.learn(answer_bytes, Some(options.duty_cycle.busy()));
    // From here on there is nothing to do that would need the slot again.
    for message in held {
        sending += send(sender, options, &mut slot, message).await?;
    }
    let trailer = last_message(FragmentReport {
        sending_us: sending.as_micros() as u64,
        waited_us: options.waited.as_micros() as u64,
        busy_us: options.duty_cycle.busy().as_micros() as u64,
        preempted_us: options.duty_cycle.preempted().as_micros() as u64,
        ..report(rows_out.load(Ordering::Relaxed))
    });
    account.settle(0, charged(&trailer));
    send(sender, options, &mut slot, trailer).await.map(drop)
}

/// Hands `message` over; says how long that took.
async fn send(
    sender: &Messages,
    options: &AnswerOptions,
    slot: &mut PushdownSlot,
    message: FlightData,
) -> Result<Duration, NodeError> {
    let started = Instant::now();
    let patience = options.deadline.reader().away_for(options.slot_wait_max);
    let room = waited(options, slot, sender.reserve(), patience).await?;
    room.map_err(|_| NodeError::new(ErrorKind::Unavailable, "the reader of the answer is gone"))?.send(Ok(message));
    Ok(started.elapsed())
}

/// Waits for something that depends on readers. The slot is kept as long as `patience` lasts.
async fn waited<T>(
    options: &AnswerOptions,
    slot: &mut PushdownSlot,
    wait: impl Future<Output = T>,
    patience: impl Future<Output = ()>,
) -> Result<T, NodeError> {
    let mut wait = std::pin::pin!(options.deadline.before(wait));
    tokio::select! {
        biased;
        done = &mut wait => return done,
        () = patience => slot.suspend(),
    }
    wait.await
}
