//! Descriptions of many objects from one node, as they come.

use std::collections::VecDeque;
use std::time::Instant;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{DescribeRequest, DescribeResponse, Description, ErrorKind, ObjectEntry};

use super::{BUSY_PAUSE_MAX, NodeClient};

/// Objects that one request names.
const OBJECTS_PER_REQUEST: usize = 4096;

/// A walk over objects to describe: a request names the next ones, its answer brings descriptions of
/// these, several in a message. What a broken answer leaves out is asked for again.
pub(crate) struct Describing {
    client: NodeClient,
    /// The request without objects.
    request: DescribeRequest,
    /// Objects of which no description has come, in order.
    left: VecDeque<ObjectEntry>,
    answer: Option<BoxStream<'static, Result<DescribeResponse, NodeError>>>,
    /// Number of objects at the front of `left` that the answer has yet to describe.
    asked: usize,
    arrived: VecDeque<Description>,
    /// Failures since the last message.
    failures: u32,
    /// Until when a node that has too much to do is waited for; `None` if it has not said so since the last
    /// message.
    busy_until: Option<Instant>,
}

impl Describing {
    pub(crate) fn new(client: NodeClient, mut request: DescribeRequest) -> Self {
        let left = std::mem::take(&mut request.objects).into();
        Self { client, request, left, answer: None, asked: 0, arrived: VecDeque::new(), failures: 0, busy_until: None }
    }

    pub(crate) fn stream(self) -> BoxStream<'static, Result<Description, NodeError>> {
        futures::stream::try_unfold(self, |mut describing| async move {
            Ok(describing.next().await?.map(|description| (description, describing)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Description>, NodeError> {
        while self.arrived.is_empty() {
            if self.left.is_empty() {
                return Ok(None);
            }
            match self.message().await {
                Ok(message) => {
                    self.failures = 0;
                    self.busy_until = None;
                    self.left.drain(..message.objects.len());
                    self.asked -= message.objects.len();
                    self.arrived.extend(message.objects);
                }
                Err(error) if error.is_busy() && self.may_wait() => {
                    tracing::debug!(node = self.client.label(), "waiting: {error}");
                    self.answer = None;
                    tokio::time::sleep(BUSY_PAUSE_MAX / 4).await;
                }
                Err(error) if error.is_transient() && self.failures + 1 < self.client.options().attempts => {
                    tracing::debug!(node = self.client.label(), "retrying: {error}");
                    self.answer = None;
                    tokio::time::sleep(self.client.options().backoff * (1 << self.failures.min(16))).await;
                    self.failures += 1;
                }
                Err(error) => return Err(self.client.failed(error)),
            }
        }
        Ok(self.arrived.pop_front())
    }

    /// Whether a node that has too much to do may be asked once more.
    fn may_wait(&mut self) -> bool {
        let now = Instant::now();
        now < *self.busy_until.get_or_insert_with(|| now + self.client.options().busy_wait_max)
    }

    /// The next message with at least one description and no more than were asked for.
    async fn message(&mut self) -> Result<DescribeResponse, NodeError> {
        let answer = match &mut self.answer {
            Some(answer) if self.asked > 0 => answer,
            _ => {
                let objects: Vec<_> = self.left.iter().take(OBJECTS_PER_REQUEST).cloned().collect();
                self.asked = objects.len();
                let answer = self.client.descriptions(DescribeRequest { objects, ..self.request.clone() }).await?;
                self.answer.insert(answer)
            }
        };
        match answer.try_next().await? {
            Some(message) if (1..=self.asked).contains(&message.objects.len()) => Ok(message),
            Some(message) => Err(NodeError::new(
                ErrorKind::Internal,
                format!(
                    "storage node {}: {} objects were described where {} were asked for",
                    self.client.label(),
                    message.objects.len(),
                    self.asked
                ),
            )),
            None => Err(NodeError::new(
                ErrorKind::Unavailable,
                format!("storage node {}: the answer to 'describe' ended early", self.client.label()),
            )),
        }
    }
}
