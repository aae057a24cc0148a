//! The arbitrator behind a node's own interface: places in the queue, slots and tokens come back,
//! whatever a caller does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::FlightData;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use thermocline_pushdown::wire::{
    ErrorKind, Format, FragmentRequest, NodeStatus, ObjectEntry, Origin, Range, RangesRequest, Ticket, TicketKind,
    encode_schema,
};
use thermocline_pushdown::{CsvFormat, FileFormat, Fragment, PushbackToken};
use thermocline_storage::{NodeConfig, NodeError, PushbackPolicy, Root, StorageNode};

type Answer = BoxStream<'static, Result<FlightData, NodeError>>;

/// A node over one CSV object that is larger than all buffers on the way to its reader.
struct Fixture {
    node: Arc<StorageNode>,
    object: ObjectEntry,
    schema: SchemaRef,
    _root: tempfile::TempDir,
}

impl Fixture {
    async fn new(config: NodeConfig) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text: String = (0..400_000_u64).map(|n| format!("{n},{}\n", n * 7919 % 1_000_003)).collect();
        std::fs::write(root.path().join("t.csv"), text).unwrap();
        let node = StorageNode::new(Root::open(root.path().to_str().unwrap()).unwrap(), config).unwrap();
        let object = node.list("t.csv").await.unwrap().remove(0);
        let columns = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        Self { node, object, schema: Arc::new(Schema::new(columns.to_vec())), _root: root }
    }

    fn fragment(&self, accepts_pushback: bool) -> Ticket {
        let csv = CsvFormat { has_header: false, ..CsvFormat::default() };
        let request = FragmentRequest {
            origin: Some(Origin { query_id: "q1".into(), ..Origin::default() }),
            object: Some(self.object.clone()),
            format: Some(Format::from(&FileFormat::Csv(csv))),
            table_schema: encode_schema(&self.schema).unwrap(),
            partitions: vec![Range { row_groups: false, start: 0, end: self.object.size, first_row: 0 }],
            fragment: Fragment::scan(Arc::clone(&self.schema)).encode().unwrap(),
            accepts_pushback,
            ..FragmentRequest::default()
        };
        Ticket { kind: Some(TicketKind::Fragment(request)) }
    }

    fn ranges(&self, token: Option<PushbackToken>) -> Ticket {
        let request = RangesRequest {
            object: Some(self.object.clone()),
            starts: vec![0],
            ends: vec![self.object.size],
            pushback_token: token.map_or(0, PushbackToken::number),
            ..RangesRequest::default()
        };
        Ticket { kind: Some(TicketKind::Ranges(request)) }
    }

    async fn get(&self, ticket: &Ticket) -> Result<Answer, NodeError> {
        self.node.get(&ticket.encode_to_vec()).await
    }

    /// A fragment that runs and whose reader has taken one message.
    async fn begun(&self) -> Answer {
        let mut answer = self.get(&self.fragment(false)).await.unwrap();
        answer.next().await.unwrap().unwrap();
        answer
    }

    /// A fragment that is pushed back; its token.
    async fn pushed_back(&self) -> Option<PushbackToken> {
        let mut answer = self.get(&self.fragment(true)).await.unwrap();
        let error = answer.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::PushedBack, "{error}");
        assert!(error.message.contains("t.csv"), "{error}");
        assert!(answer.next().await.is_none());
        error.pushback
    }

    /// A fragment in the queue, waited for in a task of its own.
    async fn queued(&self) -> tokio::task::JoinHandle<Option<Result<FlightData, NodeError>>> {
        let before = self.node.status().queue_length;
        let mut answer = self.get(&self.fragment(false)).await.unwrap();
        let waiting = tokio::spawn(async move { answer.next().await });
        self.until(|status| status.queue_length == before + 1).await;
        waiting
    }

    /// Waits for the node to be in a state; a test that waits for ever fails by its runner's limit.
    async fn until(&self, reached: impl Fn(&NodeStatus) -> bool) -> NodeStatus {
        loop {
            let status = self.node.status();
            if reached(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_idle(&self) -> NodeStatus {
        self.until(|status| {
            status.queue_length + status.pushdown_slots_used + status.pushback_slots_used + status.memory_used == 0
        })
        .await
    }
}

fn config(pushdown_slots: usize, pushback_slots: usize) -> NodeConfig {
    NodeConfig { pushdown_slots, pushback_slots, ..NodeConfig::default() }
}

async fn bytes(answer: Answer) -> usize {
    answer.try_fold(0, |sum, message| async move { Ok(sum + message.data_body.len()) }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_vanishes_frees_its_place_and_its_slot() {
    let fixture = Fixture::new(config(1, 0)).await;
    let running = fixture.begun().await;
    let (first, second) = (fixture.queued().await, fixture.queued().await);
    assert_eq!(fixture.node.status().queue_length, 2);
    first.abort();
    fixture.until(|status| status.queue_length == 1).await;
    drop(running);
    // The next in the queue takes the slot.
    assert!(second.await.unwrap().unwrap().is_ok());
    let status = fixture.until_idle().await;
    assert_eq!((status.admitted, status.pushed_back), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_bounded() {
    let fixture = Fixture::new(NodeConfig { queue_max: 1, ..config(1, 0) }).await;
    let running = fixture.begun().await;
    let waiting = fixture.queued().await;
    let error = fixture.get(&fixture.fragment(false)).await.unwrap().next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("queue of 1"), "{error}");
    // Who can be pushed back is, and need not come back.
    assert_eq!(fixture.pushed_back().await, None);
    assert_eq!(fixture.node.status().pushed_back, 1);
    drop((running, waiting));
    fixture.until(|status| status.pushdown_slots_used == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_reading_is_given_up() {
    let patience = Duration::from_millis(100);
    let fixture = Fixture::new(NodeConfig { reader_wait_max: Some(patience), ..config(1, 1) }).await;
    let mut stalled = fixture.begun().await;
    let token = fixture.pushed_back().await;
    let mut stalled_transfer = fixture.get(&fixture.ranges(token)).await.unwrap();
    stalled_transfer.next().await.unwrap().unwrap();
    // Both are still held by their readers.
    let status = fixture.until(|status| status.abandoned == 2).await;
    assert_eq!(status.pushdown_slots_used, 0);
    for answer in [&mut stalled, &mut stalled_transfer] {
        let rest: Vec<_> = answer.collect().await;
        let error = rest.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind, ErrorKind::DeadlineExceeded, "{error}");
        assert!(error.message.contains("took nothing"), "{error}");
    }
    // The node is still well.
    let sent = bytes(fixture.get(&fixture.ranges(None)).await.unwrap()).await;
    assert_eq!(sent as u64, fixture.object.size);
    assert!(bytes(fixture.get(&fixture.fragment(false)).await.unwrap()).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pushback_slot_is_held_until_the_bytes_are_sent() {
    let fixture = Fixture::new(config(1, 1)).await;
    let running = fixture.begun().await;
    let token = fixture.pushed_back().await;
    assert!(token.is_some());
    assert_eq!(fixture.node.status().pushback_slots_used, 1);
    // Both kinds of slots are taken: the next one waits.
    let mut answer = fixture.get(&fixture.fragment(true)).await.unwrap();
    let waiting = tokio::spawn(async move { answer.next().await.unwrap() });
    fixture.until(|status| status.queue_length == 1).await;

    let mut transfer = fixture.get(&fixture.ranges(token)).await.unwrap();
    transfer.next().await.unwrap().unwrap();
    assert_eq!(fixture.node.status().pushback_slots_used, 1);
    assert!(bytes(transfer).await > 0);
    let second = waiting.await.unwrap().unwrap_err().pushback;
    assert!(second.is_some() && second != token);
    // A token is used up, and a wrong one is no reason to refuse bytes.
    for stale in [token, PushbackToken::new(1)] {
        assert_eq!(bytes(fixture.get(&fixture.ranges(stale)).await.unwrap()).await as u64, fixture.object.size);
        assert_eq!(fixture.node.status().pushback_slots_used, 1);
    }
    assert_eq!(bytes(fixture.get(&fixture.ranges(second)).await.unwrap()).await as u64, fixture.object.size);
    drop(running);
    let status = fixture.until_idle().await;
    assert_eq!((status.admitted, status.pushed_back), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_never_used_expires() {
    let wait = Duration::from_millis(50);
    let fixture = Fixture::new(NodeConfig { pushback_wait_max: wait, ..config(1, 1) }).await;
    let running = fixture.begun().await;
    let unused = fixture.pushed_back().await;
    assert!(unused.is_some());
    // Nobody looks at the node but a request that waits: it finds the slot free and takes it.
    let second = fixture.pushed_back().await;
    assert!(second.is_some() && second != unused);
    drop(running);
    fixture.until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pushback_can_be_forced_and_refused() {
    for (policy, expected) in [(PushbackPolicy::Never, 0), (PushbackPolicy::Half, 3), (PushbackPolicy::Always, 6)] {
        let fixture = Fixture::new(NodeConfig { pushback: policy, ..config(4, 0) }).await;
        for _ in 0..6 {
            let answer: Result<Vec<_>, _> =
                fixture.get(&fixture.fragment(true)).await.unwrap().try_collect::<Vec<_>>().await;
            if let Err(error) = answer {
                assert_eq!((error.kind, error.pushback), (ErrorKind::PushedBack, None));
            }
        }
        let status = fixture.until_idle().await;
        assert_eq!((status.pushed_back, status.admitted), (expected, 6 - expected), "{policy:?}");
        // Who does not know the answer does not get it.
        assert!(bytes(fixture.get(&fixture.fragment(false)).await.unwrap()).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compute_power_changes_no_row() {
    let mut sizes = vec![];
    for compute_power in [1.0, 0.3] {
        let fixture = Fixture::new(NodeConfig { compute_power, ..config(2, 0) }).await;
        sizes.push(bytes(fixture.get(&fixture.fragment(false)).await.unwrap()).await);
    }
    assert_eq!(sizes[0], sizes[1]);
    for compute_power in [0.0, -1.0, 1.5, f64::NAN] {
        let root = tempfile::tempdir().unwrap();
        let root = Root::open(root.path().to_str().unwrap()).unwrap();
        let error = StorageNode::new(root, NodeConfig { compute_power, ..NodeConfig::default() }).unwrap_err();
        assert!(error.message.contains("compute power"), "{error}");
    }
}
