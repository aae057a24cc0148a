//! The reader of an answer, as the node sees it: one that takes nothing is slow or dead.
//!
//! ```text
//!            the next message is wanted
//!   away  ------------------------------> here
//!    ^                                     |
//!    +-------------------------------------+
//!            a message is handed over
//! ```
//!
//! While the reader is away its answer has no slot (see [`Reader::away_for`]) and its deadline stands
//! still (see [`Deadline`]). That a reader is dead shows at its connection, which no longer answers
//! pings: the answer is dropped with the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use arrow_flight::FlightData;
use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, Origin};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::StorageNode;
use super::answer::finished_by;
use super::storage_node::Answer;
use crate::budget::Account;

/// Longest time to a deadline that a clock can express.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Messages that are still here when the next one is wanted: hyper asks for one before it has sent the
/// one before that.
const HANDED_OVER: usize = 1;

/// Bytes that a message is charged with.
pub(super) fn charged(message: &FlightData) -> usize {
    message.data_header.len() + message.data_body.len() + message.app_metadata.len()
}

/// The reader of one answer. Cheap to clone; clones are the same reader.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    presence: Arc<Mutex<Presence>>,
    /// Bytes that its request and its answer hold.
    account: Account,
}

#[derive(Debug)]
struct Presence {
    /// Since when the reader has wanted nothing; `None` while it waits for a message.
    away_since: Option<Instant>,
    /// Time that it was away before that.
    away: Duration,
}

impl Reader {
    /// A reader who has asked, and has yet to come for the answer.
    pub(super) fn new(account: Account) -> Self {
        let presence = Presence { away_since: Some(Instant::now()), away: Duration::ZERO };
        Self { presence: Arc::new(Mutex::new(presence)), account }
    }

    /// Bytes that its request and its answer hold. Every message must be charged before it is handed over.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// `answer`, from which this reader takes messages, each of which is charged while it is here.
    pub(super) fn reading(&self, mut answer: Answer) -> Answer {
        let reader = self.clone();
        let last_handed_over = if self.account.peer().is_local() { 0 } else { HANDED_OVER };
        // What is kept of it must leave room for the next one in what is guaranteed.
        let kept_max = self.account.guaranteed() / 2;
        let mut handed_over = VecDeque::new();
        stream::poll_fn(move |context| {
            reader.comes();
            while handed_over.len() > last_handed_over {
                reader.account.give_back(handed_over.pop_front().unwrap_or_default());
            }
            let message = answer.poll_next_unpin(context);
            if let Poll::Ready(message) = &message {
                if let Some(Ok(message)) = message {
                    let kept = charged(message).min(kept_max);
                    reader.account.give_back(charged(message) - kept);
                    handed_over.push_back(kept);
                }
                reader.leaves();
            }
            message
        })
        .boxed()
    }

    fn comes(&self) {
        let mut presence = self.presence.lock();
        if let Some(since) = presence.away_since.take() {
            presence.away += since.elapsed();
        }
    }

    fn leaves(&self) {
        self.presence.lock().away_since.get_or_insert_with(Instant::now);
    }

    /// Time that the reader has been away in all.
    fn away(&self) -> Duration {
        let presence = self.presence.lock();
        presence.away + presence.away_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits until the reader has been away for `moment` without a break.
    pub(super) async fn away_for(&self, moment: Duration) {
        loop {
            let since = self.presence.lock().away_since;
            let until = since.unwrap_or_else(Instant::now) + moment.min(FOREVER);
            if since.is_some() && until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// When a request must be done.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    at: Instant,
    reader: Reader,
    /// Whether time in which the reader takes nothing counts, because the statement has a deadline of its own.
    is_strict: bool,
}

impl Deadline {
    /// The deadline of a request that begins now: what `origin` asks for, which has no pauses, or else
    /// `max` of time in which the reader wants messages.
    pub(super) fn of(origin: Option<&Origin>, max: Duration, reader: &Reader) -> Self {
        let max = max.min(FOREVER);
        match origin.map_or(0, |origin| origin.deadline_ms) {
            0 => Self { at: Instant::now() + max, reader: reader.clone(), is_strict: false },
            asked => {
                let at = Instant::now() + max.min(Duration::from_millis(asked));
                Self { at, reader: reader.clone(), is_strict: true }
            }
        }
    }

    /// The reader of the answer.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The deadline as it is now.
    fn at(&self) -> Instant {
        if self.is_strict { self.at } else { self.at + self.reader.away() }
    }

    /// `work`, unless the deadline passes first.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`].
    pub(super) async fn before<T>(&self, work: impl Future<Output = T>) -> Result<T, NodeError> {
        let mut work = std::pin::pin!(work);
        loop {
            let at = self.at();
            match tokio::time::timeout_at(at, &mut work).await {
                Ok(done) => return Ok(done),
                // The reader was away meanwhile.
                Err(_) if self.at() > at => {}
                Err(_) => {
                    let why = "the request's deadline passed at the storage node";
                    return Err(NodeError::new(ErrorKind::DeadlineExceeded, why));
                }
            }
        }
    }
}

/// `answer`, dropped with everything that it holds if its reader takes nothing for
/// [`NodeConfig::reader_wait_max`](super::NodeConfig::reader_wait_max), if there is such a limit. A
/// reader that comes back after that finds an error at the end of what was sent. `asked` names the
/// request in the log.
pub(super) fn attended(node: &Arc<StorageNode>, mut answer: Answer, asked: String) -> Answer {
    let Some(wait_max) = node.config.reader_wait_max else {
        return answer;
    };
    let node = Arc::clone(node);
    let (sender, receiver) = mpsc::channel(1);
    let task = SpawnedTask::spawn(async move {
        while let Some(message) = answer.next().await {
            match tokio::time::timeout(wait_max, sender.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => {
                    drop(answer);
                    node.counters().abandoned.fetch_add(1, Ordering::Relaxed);
                    let why = format!("the answer was given up: its reader took nothing for {wait_max:?}");
                    tracing::warn!("{asked}: {why}");
                    return Err(NodeError::new(ErrorKind::DeadlineExceeded, why));
                }
            }
        }
        Ok(())
    });
    finished_by(task, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::peer::Peer;

    const TICK: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn absence_moves_the_deadline_unless_a_statement_has_one() {
        let reader = Reader::new(Budget::new(0).account(Peer::local(), "", 0));
        reader.comes();
        let patient = Deadline::of(None, TICK, &reader);
        let origin = Origin { deadline_ms: TICK.as_millis() as u64, ..Origin::default() };
        let strict = Deadline::of(Some(&origin), Duration::from_secs(3600), &reader);
        reader.leaves();
        tokio::time::sleep(4 * TICK).await;
        assert!(strict.before(std::future::pending::<()>()).await.is_err());
        assert_eq!(patient.before(std::future::ready(1)).await.unwrap(), 1);
        // It comes back while somebody waits; from then on, time counts.
        let back = async {
            tokio::time::sleep(4 * TICK).await;
            reader.comes();
        };
        let (ended, ()) = tokio::join!(patient.before(std::future::pending::<()>()), back);
        assert_eq!(ended.unwrap_err().kind, ErrorKind::DeadlineExceeded);
        assert!(reader.away() >= 8 * TICK, "{:?}", reader.away());
    }

    #[tokio::test]
    async fn a_reader_that_waits_for_a_message_is_not_away() {
        let reader = Reader::new(Budget::new(0).account(Peer::local(), "", 0));
        reader.away_for(TICK).await;
        reader.comes();
        assert!(tokio::time::timeout(4 * TICK, reader.away_for(TICK)).await.is_err());
        reader.leaves();
        reader.away_for(TICK).await;
    }
}
