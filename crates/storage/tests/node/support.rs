//! A storage node over one object, and requests to it.

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
use thermocline_pushdown::{CsvFormat, FileFormat, Fragment, NodeError, PushbackToken};
use thermocline_storage::{NodeConfig, Root, StorageNode};

pub type Answer = BoxStream<'static, Result<FlightData, NodeError>>;

/// A node over one CSV object that is larger than all buffers on the way to its reader.
pub struct Fixture {
    pub node: Arc<StorageNode>,
    pub object: ObjectEntry,
    schema: SchemaRef,
    _root: tempfile::TempDir,
}

impl Fixture {
    pub async fn new(config: NodeConfig) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text: String = (0..400_000_u64).map(|n| format!("{n},{}\n", n * 7919 % 1_000_003)).collect();
        std::fs::write(root.path().join("t.csv"), text).unwrap();
        let node = StorageNode::new(Root::open(root.path().to_str().unwrap()).unwrap(), config).unwrap();
        let object = node.list("t.csv").await.unwrap().objects.remove(0);
        let columns = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        Self { node, object, schema: Arc::new(Schema::new(columns.to_vec())), _root: root }
    }

    pub fn fragment(&self, accepts_pushback: bool) -> Ticket {
        self.fragment_of(Origin { query_id: "q1".into(), ..Origin::default() }, accepts_pushback)
    }

    /// The same for somebody else.
    pub fn fragment_of(&self, origin: Origin, accepts_pushback: bool) -> Ticket {
        let csv = CsvFormat { has_header: false, ..CsvFormat::default() };
        let request = FragmentRequest {
            origin: Some(origin),
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

    pub fn ranges(&self, token: Option<PushbackToken>) -> Ticket {
        let request = RangesRequest {
            object: Some(self.object.clone()),
            starts: vec![0],
            ends: vec![self.object.size],
            pushback_token: token.map_or(0, PushbackToken::number),
            ..RangesRequest::default()
        };
        Ticket { kind: Some(TicketKind::Ranges(request)) }
    }

    pub async fn get(&self, ticket: &Ticket) -> Result<Answer, NodeError> {
        self.node.get(&ticket.encode_to_vec()).await
    }

    /// A fragment that runs and whose reader has taken one message.
    pub async fn begun(&self) -> Answer {
        let mut answer = self.get(&self.fragment(false)).await.unwrap();
        answer.next().await.unwrap().unwrap();
        answer
    }

    /// A fragment that is pushed back; its token.
    pub async fn pushed_back(&self) -> Option<PushbackToken> {
        let mut answer = self.get(&self.fragment(true)).await.unwrap();
        let error = answer.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::PushedBack, "{error}");
        assert!(error.message.contains("t.csv"), "{error}");
        assert!(answer.next().await.is_none());
        error.pushback
    }

    /// A fragment in the queue, waited for in a task of its own.
    pub async fn queued(&self) -> tokio::task::JoinHandle<Option<Result<FlightData, NodeError>>> {
        let before = self.node.status().queue_length;
        let mut answer = self.get(&self.fragment(false)).await.unwrap();
        let waiting = tokio::spawn(async move { answer.next().await });
        self.until(|status| status.queue_length == before + 1).await;
        waiting
    }

    /// Waits for the node to be in a state; a test that waits for ever fails by its runner's limit.
    pub async fn until(&self, reached: impl Fn(&NodeStatus) -> bool) -> NodeStatus {
        loop {
            let status = self.node.status();
            if reached(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn until_idle(&self) -> NodeStatus {
        self.until(|status| {
            status.queue_length + status.pushdown_slots_used + status.pushback_slots_used + status.memory_used == 0
        })
        .await
    }
}

/// Bytes of the bodies of an answer's messages.
pub async fn bytes(answer: Answer) -> usize {
    answer.try_fold(0, |sum, message| async move { Ok(sum + message.data_body.len()) }).await.unwrap()
}
