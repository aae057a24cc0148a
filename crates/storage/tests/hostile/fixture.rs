//! A node behind a socket, an honest client that never stops asking, and a watch over panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData};
use futures::TryStreamExt;
use prost::Message;
use rand::Rng;
use rand::rngs::StdRng;
use thermocline_pushdown::wire::{
    Format, FragmentReport, FragmentRequest, ObjectEntry, Origin, Range, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{CsvFormat, FileFormat, Fragment, NodeError};
use thermocline_storage::{NodeConfig, Root, Server, StorageNode, serve};
use tokio::sync::{Mutex, MutexGuard};
use tonic::transport::{Channel, Endpoint};

/// Rows of the object that all requests are about.
const ROWS: u64 = 20_000;

/// Tests of this process go one after the other: its memory and its panics are what they watch.
pub static TURN: Mutex<()> = Mutex::const_new(());

/// Panics of any thread; a node's must be none.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub struct Node {
    pub object: ObjectEntry,
    pub schema: SchemaRef,
    client: FlightServiceClient<Channel>,
    stop: Arc<AtomicBool>,
    others: tokio::task::JoinHandle<u64>,
    _server: Server,
    _root: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Node {
    /// A node over one CSV object with a number `a` and a text `b`, whose memory is 256 MiB.
    pub async fn start() -> Self {
        static WATCH: std::sync::Once = std::sync::Once::new();
        let turn = TURN.lock().await;
        PANICS.store(0, Ordering::Relaxed);
        WATCH.call_once(|| {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICS.fetch_add(1, Ordering::Relaxed);
                hook(panic);
            }));
        });
        let root = tempfile::tempdir().unwrap();
        let text: String = (0..ROWS).map(|n| format!("{n},text {}\n", n * 7919 % 1009)).collect();
        std::fs::write(root.path().join("t.csv"), text).unwrap();
        let config = NodeConfig { memory_limit: 256 << 20, ..NodeConfig::default() };
        let node = StorageNode::new(Root::open(root.path().to_str().unwrap()).unwrap(), config).unwrap();
        let object = node.list("t.csv").await.unwrap().objects.remove(0);
        let server = serve(node, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = format!("http://{}", server.address());
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8View, true),
        ]));
        let connect = || async {
            let channel = Endpoint::from_shared(address.clone()).unwrap().connect().await.unwrap();
            FlightServiceClient::new(channel)
        };
        let (client, honest) = (connect().await, connect().await);
        let stop = Arc::<AtomicBool>::default();
        let scan = Fragment::scan(Arc::clone(&schema)).encode().unwrap();
        let ticket = fragment(&object, &schema, scan);
        let stopping = Arc::clone(&stop);
        let others = tokio::spawn(async move {
            let mut answers = 0;
            while !stopping.load(Ordering::Relaxed) {
                assert_eq!(rows(get(&honest, ticket.encode_to_vec()).await.unwrap()), ROWS);
                answers += 1;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            answers
        });
        Self { object, schema, client, stop, others, _server: server, _root: root, _turn: turn }
    }

    pub fn format(&self) -> Format {
        format()
    }

    pub fn whole(&self) -> Range {
        whole(&self.object)
    }

    /// The fragment that only reads.
    pub fn scan(&self) -> Vec<u8> {
        Fragment::scan(Arc::clone(&self.schema)).encode().unwrap()
    }

    pub fn request(&self, fragment: Vec<u8>) -> FragmentRequest {
        request(&self.object, &self.schema, fragment)
    }

    pub fn fragment(&self, fragment: Vec<u8>) -> Ticket {
        Ticket { kind: Some(TicketKind::Fragment(self.request(fragment))) }
    }

    /// Sends a ticket; bytes of the whole answer.
    pub async fn ask(&self, ticket: &Ticket) -> Result<u64, NodeError> {
        let messages = self.get(ticket.encode_to_vec()).await?;
        Ok(messages.iter().map(|message| message.data_body.len() as u64).sum())
    }

    /// Sends bytes as a ticket. A node that knows what is wrong never says that it is its own fault.
    pub async fn get(&self, ticket: Vec<u8>) -> Result<Vec<FlightData>, NodeError> {
        get(&self.client, ticket).await.inspect_err(|error| {
            let own_fault = ["task failed", "transport error", "protocol error"];
            assert!(!own_fault.iter().any(|fault| error.message.contains(fault)), "{error}");
        })
    }

    pub async fn act(&self, action: &str, body: Vec<u8>) -> Result<(), NodeError> {
        let answer = self.client.clone().do_action(Action::new(action, body)).await?;
        answer.into_inner().try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Whether an honest request gets its answer on the very connection of the attacks.
    pub async fn check_honest(&self, after: &str) {
        let answer = get(&self.client, self.fragment(self.scan()).encode_to_vec()).await;
        assert_eq!(rows(answer.unwrap_or_else(|error| panic!("after {after}: {error}"))), ROWS, "after {after}");
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "after {after}");
    }

    /// Whether a thread has panicked since the last time.
    pub fn panicked(&self) -> bool {
        PANICS.swap(0, Ordering::Relaxed) > 0
    }

    /// Ends the honest client, which must have had all its answers.
    pub async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.others.await.unwrap() > 0);
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    }
}

fn format() -> Format {
    Format::from(&FileFormat::Csv(CsvFormat { has_header: false, ..CsvFormat::default() }))
}

fn whole(object: &ObjectEntry) -> Range {
    Range { row_groups: false, start: 0, end: object.size, first_row: 0 }
}

fn request(object: &ObjectEntry, schema: &SchemaRef, fragment: Vec<u8>) -> FragmentRequest {
    FragmentRequest {
        origin: Some(Origin { query_id: "q1".into(), ..Origin::default() }),
        object: Some(object.clone()),
        format: Some(format()),
        table_schema: encode_schema(schema).unwrap(),
        partitions: vec![whole(object)],
        fragment,
        ..FragmentRequest::default()
    }
}

fn fragment(object: &ObjectEntry, schema: &SchemaRef, fragment: Vec<u8>) -> Ticket {
    Ticket { kind: Some(TicketKind::Fragment(request(object, schema, fragment))) }
}

async fn get(client: &FlightServiceClient<Channel>, ticket: Vec<u8>) -> Result<Vec<FlightData>, NodeError> {
    let answer = client.clone().do_get(arrow_flight::Ticket::new(ticket)).await?;
    Ok(answer.into_inner().try_collect().await?)
}

/// Rows that the closing report of an answer says.
fn rows(messages: Vec<FlightData>) -> u64 {
    let report = messages.into_iter().rfind(|message| !message.app_metadata.is_empty()).unwrap();
    FragmentReport::decode(report.app_metadata).unwrap().rows_out
}

/// What the process has in memory, from which its maximum is counted anew.
pub fn resident_bytes() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    of_status("VmRSS:")
}

/// The most that the process had in memory since the last [`resident_bytes`].
pub fn resident_bytes_max() -> u64 {
    of_status("VmHWM:")
}

fn of_status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// `bytes` with a few of them changed, cut out or doubled.
pub fn mutated(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..6) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.random_range(0..bytes.len());
        let end = (at + random.random_range(1..9)).min(bytes.len());
        match random.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes[at] = 0xff,
            4 => bytes[at] = random.random(),
            _ => bytes[at] ^= 1 << random.random_range(0..8),
        }
    }
    bytes
}
