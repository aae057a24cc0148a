//! Clients that ask a storage node for more than it has: it survives, keeps to its memory limit, and answers others
//! meanwhile.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::topology::NodeProcess;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData, Result as ActionResult, Ticket as FlightTicket};
use prost::Message;
use thermocline_database::Database;
use thermocline_pushdown::wire::{
    Compression, Csv, DescribeRequest, ErrorKind, Format, FragmentRequest, ListRequest, ObjectEntry, Origin,
    RANGES_MAX, Range, RangesRequest, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{CsvFormat, FileFormat, Fragment, NodeError};
use thermocline_storage::{NodeClient, RemoteOptions};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

const LIMIT: u64 = 128 << 20;
/// Memory of a process outside of its accounting: code, stacks, socket buffers, allocator overhead.
const BESIDE: u64 = 300 << 20;
/// The hostile client's address; the others come from 127.0.0.1.
const HOSTILE: &str = "127.0.0.2";

/// A node over a table of 24 MiB, and a sparse object of 8 GiB.
struct Attacked {
    node: NodeProcess,
    table: ObjectEntry,
    sparse: ObjectEntry,
    _folder: tempfile::TempDir,
}

impl Attacked {
    async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("t")).unwrap();
        let text: String = (0..1_200_000_u64).map(|n| format!("{n},{}\n", n * 7919 % 1_000_000_007)).collect();
        std::fs::write(folder.path().join("t/0.csv"), format!("a,b\n{text}")).unwrap();
        std::fs::File::create(folder.path().join("sparse")).unwrap().set_len(8 << 30).unwrap();
        let limit = LIMIT.to_string();
        let arguments = [&["--memory-limit", &limit], arguments].concat();
        let node = NodeProcess::start(folder.path().to_str().unwrap(), "127.0.0.1:0", &arguments, &[]);
        let client = NodeClient::remote(&node.address, &RemoteOptions::default()).unwrap();
        let mut objects = client.list("").await.unwrap();
        objects.sort_by(|a, b| a.path.cmp(&b.path));
        let [sparse, table] = objects.try_into().unwrap();
        Self { node, table, sparse, _folder: folder }
    }

    /// A connection of the hostile client.
    async fn connect(&self) -> FlightServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.node.address)).unwrap();
        let endpoint = endpoint.local_address(Some(HOSTILE.parse::<IpAddr>().unwrap()));
        let endpoint = endpoint.initial_stream_window_size(1 << 16).initial_connection_window_size((1 << 31) - 1);
        FlightServiceClient::new(endpoint.connect().await.unwrap()).max_encoding_message_size(64 << 20)
    }

    /// The largest resident memory of the node so far.
    fn resident_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.node.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Checks that another client's query is answered and that memory is within its limit.
    async fn check(&self, what: &str) {
        let session = Database::in_memory().await.unwrap().session();
        let location = format!("thermocline://{}/t", self.node.address);
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'");
        session.run(&sql).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        for mode in ["pushdown", "pullup"] {
            session.set("mode", mode).unwrap();
            let counted = session.run("SELECT a FROM t WHERE b >= 0").await;
            assert_eq!(counted.unwrap_or_else(|error| panic!("{what}, {mode}: {error}")).rows(), 1_200_000);
        }
        let resident = self.resident_max();
        assert!(resident <= LIMIT + BESIDE, "{what}: {} MiB were resident", resident >> 20);
    }

    fn fragment(&self, query: usize) -> Vec<u8> {
        let columns = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        let schema = Arc::new(Schema::new(columns.to_vec()));
        let request = FragmentRequest {
            origin: Some(Origin { query_id: query.to_string(), tenant: query.to_string(), ..Origin::default() }),
            object: Some(self.table.clone()),
            format: Some(Format::from(&FileFormat::Csv(CsvFormat::default()))),
            table_schema: encode_schema(&schema).unwrap(),
            partitions: vec![Range { row_groups: false, start: 0, end: self.table.size, first_row: 0 }],
            fragment: Fragment::scan(schema).encode().unwrap(),
            compression: Compression::None as i32,
            // Would hold back every answer.
            answer_bytes_max: u64::MAX,
            ..FragmentRequest::default()
        };
        Ticket { kind: Some(TicketKind::Fragment(request)) }.encode_to_vec()
    }
}

fn ranges(object: &ObjectEntry, ranges: impl Iterator<Item = std::ops::Range<u64>>) -> Vec<u8> {
    let (starts, ends) = ranges.map(|range| (range.start, range.end)).unzip();
    let request = RangesRequest { object: Some(object.clone()), starts, ends, ..RangesRequest::default() };
    Ticket { kind: Some(TicketKind::Ranges(request)) }.encode_to_vec()
}

type Answer = Streaming<FlightData>;

/// Sends a request, and reads nothing of the answer.
async fn unread(
    attacked: &Attacked,
    tickets: impl Iterator<Item = Vec<u8>>,
) -> Vec<(Result<Answer, tonic::Status>, FlightServiceClient<Channel>)> {
    let mut open = vec![];
    let mut client = attacked.connect().await;
    for (n, ticket) in tickets.enumerate() {
        if n % 100 == 99 {
            client = attacked.connect().await;
        }
        let answer = tokio::time::timeout(Duration::from_secs(20), client.do_get(FlightTicket::new(ticket))).await;
        let answer = answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer began")));
        open.push((answer.map(tonic::Response::into_inner), client.clone()));
    }
    open
}

async fn first_error(mut answer: Answer) -> tonic::Status {
    loop {
        match answer.message().await {
            Err(status) => return status,
            Ok(message) => assert!(message.is_some(), "the request was answered"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_cut_not_believed() {
    let attacked = Attacked::start(&[]).await;
    // Unlimited, in an object of the claimed size.
    let endless = ObjectEntry { size: u64::MAX, ..attacked.table.clone() };
    let mut opened = unread(&attacked, std::iter::once(ranges(&endless, std::iter::once(0..u64::MAX)))).await;
    if let (Ok(answer), _client) = opened.remove(0) {
        let status = first_error(answer).await;
        assert!(status.message().contains("0.csv"), "{status}");
    }
    attacked.check("an endless range").await;
    let outside = unread(&attacked, std::iter::once(ranges(&attacked.table, std::iter::once(0..u64::MAX)))).await;
    assert_eq!(outside[0].0.as_ref().unwrap_err().code(), Code::PermissionDenied);

    // One byte in every 200 KiB of 8 GiB, which are read with everything in between; more than the node allows.
    let step = 200 << 10;
    let sparse =
        |count: u64| ranges(&attacked.sparse, (0..count).map(|n| n * step % (8 << 30)..n * step % (8 << 30) + 1));
    let paused = unread(&attacked, (0..64).map(|_| sparse(40_000))).await;
    attacked.check("many gaps").await;
    drop(paused);
    let many = unread(&attacked, std::iter::once(sparse(RANGES_MAX as u64 + 1))).await;
    assert!(many[0].0.as_ref().unwrap_err().message().contains("ranges are more than"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads() {
    let attacked = Attacked::start(&[]).await;
    let whole = |object: &ObjectEntry| ranges(object, std::iter::once(0..object.size));
    let raw = unread(&attacked, (0..300).map(|_| whole(&attacked.sparse))).await;
    attacked.check("300 transfers that nobody reads").await;
    let fragments = unread(&attacked, (0..300).map(|n| attacked.fragment(n))).await;
    attacked.check("300 fragments that nobody reads, too").await;
    // They are still there: the node had room for others.
    let began = raw.iter().chain(&fragments).filter(|(answer, _)| answer.is_ok()).count();
    assert!(began > 300, "{began} of 600 answers began");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_requests_at_once() {
    let attacked = Attacked::start(&[]).await;
    let garbage = Arc::new(vec![7_u8; 15 << 20]);
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let client = attacked.connect().await;
        for _ in 0..16 {
            let (mut client, garbage) = (client.clone(), Arc::clone(&garbage));
            requests.spawn(async move { client.do_get(FlightTicket::new(garbage.to_vec())).await.err() });
        }
    }
    for status in requests.join_all().await {
        let status = status.expect("garbage is no request");
        assert!(matches!(status.code(), Code::PermissionDenied | Code::Unavailable), "{status}");
    }
    attacked.check("64 requests of 15 MiB").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_requests_have_limits() {
    let limits = ["--connections-per-client", "20", "--requests-per-client", "50"];
    let attacked = Attacked::start(&limits).await;
    let whole = || ranges(&attacked.sparse, std::iter::once(0..attacked.sparse.size));
    let open = unread(&attacked, (0..60).map(|_| whole())).await;
    let refused: Vec<_> = open.iter().filter_map(|(answer, _)| answer.as_ref().err()).collect();
    assert_eq!(refused.len(), 10);
    for status in refused {
        let error = NodeError::from(status.clone());
        assert_eq!(error.kind, ErrorKind::Busy, "{error}");
        assert!(error.message.contains("50 requests of 127.0.0.2"), "{error}");
    }
    let mut sockets = vec![];
    for _ in 0..40 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{HOSTILE}:0").parse().unwrap()).unwrap();
        sockets.push(socket.connect(attacked.node.address.parse().unwrap()).await.unwrap());
    }
    attacked.check("too many connections").await;
    drop((open, sockets));
}

/// A client that is told to retry does so, and its query is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_is_waited_for() {
    let attacked = Attacked::start(&["--requests-per-client", "3"]).await;
    let session = Database::in_memory().await.unwrap().session();
    let location = format!("thermocline://{}/t", attacked.node.address);
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'");
    session.database().set("partition_size", "2MiB").unwrap();
    session.run(&sql).await.unwrap();
    for mode in ["pushdown", "pullup"] {
        session.set("mode", mode).unwrap();
        let mut queries = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let session = session.clone();
            queries.spawn(
                async move { session.run("SELECT count(*) FROM t WHERE b >= 0").await.map(|found| found.rows()) },
            );
        }
        for rows in queries.join_all().await {
            assert_eq!(rows.unwrap(), 1);
        }
    }
}

/// A statement whose output goes into a pager that waits for its user.
fn paged(attacked: &Attacked, mode: &str) -> std::process::Child {
    let define = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'thermocline://{}/t'", attacked.node.address);
    std::process::Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["sql", "--format", "csv", "--set", "request_timeout=2s", "--set", &format!("mode={mode}")])
        .args(["-c", &define, "-c", "SELECT a, b FROM t WHERE b >= 0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pager_gets_all_rows_and_can_be_left() {
    let attacked = Attacked::start(&[]).await;
    let mut paused: Vec<_> = ["pushdown", "pullup"].map(|mode| paged(&attacked, mode)).into();
    // Several times as long as a request may be silent.
    tokio::time::sleep(Duration::from_secs(7)).await;
    attacked.check("two pagers that wait").await;
    for process in &mut paused {
        let mut text = String::new();
        std::io::Read::read_to_string(process.stdout.as_mut().unwrap(), &mut text).unwrap();
        assert!(process.wait().unwrap().success());
        assert_eq!(text.lines().count(), 1_200_001);
    }
    let mut left = paged(&attacked, "pushdown");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let interrupt = std::process::Command::new("kill").args(["-INT", &left.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    // The pager has not read a line.
    assert_eq!(left.wait().unwrap().code(), Some(130));
}

/// Sends the action on several connections, and reads nothing of the answers.
async fn unread_actions(
    attacked: &Attacked,
    name: &str,
    body: &[u8],
    count: usize,
) -> Vec<(Result<Streaming<ActionResult>, tonic::Status>, FlightServiceClient<Channel>)> {
    let mut open = vec![];
    for _ in 0..count.div_ceil(100) {
        let client = attacked.connect().await;
        let asked = (0..count.min(100)).map(|_| {
            let (mut client, action) = (client.clone(), Action::new(name, body.to_vec()));
            async move {
                let answer = tokio::time::timeout(Duration::from_secs(20), client.do_action(action)).await;
                let answer = answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer began")));
                (answer.map(tonic::Response::into_inner), client)
            }
        });
        open.extend(futures::future::join_all(asked).await);
    }
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptions_of_what_unfolds() {
    let attacked = Attacked::start(&[]).await;
    let describe = |csv, objects| {
        DescribeRequest { objects, format: Some(Format { csv: Some(csv) }), partition_bytes: 1 }.encode_to_vec()
    };
    let comma = Csv { delimiter: 44, ..Csv::default() };
    // One byte each on the wire, and eight in memory.
    let fields = Csv { field_count: 15 << 20, fields: vec![1; 15 << 20], ..comma.clone() };
    let null_text = Csv { null_text: "x".repeat(15 << 20), ..comma.clone() };
    let nameless = vec![ObjectEntry::default(); 4 << 20];
    for (name, body) in [
        ("15 million fields", describe(fields, vec![attacked.table.clone(); 64])),
        ("a long text for NULL", describe(null_text, vec![attacked.table.clone(); 64])),
        ("four million objects", describe(comma.clone(), nameless)),
        ("objects without a path", describe(comma.clone(), vec![ObjectEntry::default(); 1000])),
    ] {
        for (answer, _client) in unread_actions(&attacked, "describe", &body, 6).await {
            let status = answer.err().unwrap_or_else(|| panic!("{name}: was answered"));
            let refused = matches!(status.code(), Code::PermissionDenied | Code::DataLoss | Code::Unavailable);
            assert!(refused, "{name}: {status}");
        }
        attacked.check(name).await;
    }
    // Scans of one object in different formats, so that none can be reused.
    let mut scans = vec![];
    for delimiter in 100..200 {
        let csv = Csv { delimiter, ..Csv::default() };
        let object = ObjectEntry { path: "sparse".into(), ..attacked.sparse.clone() };
        scans.extend(unread_actions(&attacked, "describe", &describe(csv, vec![object; 40]), 1).await);
    }
    attacked.check("100 requests for scans of 8 GiB").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_that_nobody_reads() {
    let attacked = Attacked::start(&[]).await;
    let many = attacked._folder.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..20_000 {
        std::fs::write(many.join(format!("an_object_with_a_rather_long_name_{number:08}.csv")), "1").unwrap();
    }
    let request = ListRequest { prefix: "many".into() }.encode_to_vec();
    let open = unread_actions(&attacked, "list", &request, 400).await;
    attacked.check("400 listings that nobody reads").await;
    drop(open);
    let client = NodeClient::remote(&attacked.node.address, &RemoteOptions::default()).unwrap();
    assert_eq!(client.list("many").await.unwrap().len(), 20_000);
}

/// Whether the node closes the connection, in time.
async fn is_closed(mut socket: tokio::net::TcpStream) -> bool {
    let read = async {
        let mut buffer = [0; 1024];
        while tokio::io::AsyncReadExt::read(&mut socket, &mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_open() {
    let attacked = Attacked::start(&["--keepalive", "1s"]).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for sent in [&b""[..], &preface[..10], preface, b"GET / HTTP/1.1\r\nHo"] {
        let mut socket = tokio::net::TcpStream::connect(&attacked.node.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, sent).await.unwrap();
        assert!(is_closed(socket).await, "{sent:?}");
    }
    // An occasional byte must not prolong the wait.
    let socket = tokio::net::TcpStream::connect(&attacked.node.address).await.unwrap();
    let (mut receives, mut sends) = socket.into_split();
    let drip = tokio::spawn(async move {
        for byte in preface.repeat(2) {
            if tokio::io::AsyncWriteExt::write_all(&mut sends, &[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        panic!("the connection was not closed");
    });
    let mut buffer = [0; 1024];
    while tokio::io::AsyncReadExt::read(&mut receives, &mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    drop(receives);
    drip.await.unwrap();
    attacked.check("half-open connections").await;
}

/// An HTTP/2 frame of stream 1 or, for settings and pings, of the connection.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let stream = u8::from(!matches!(kind, 4 | 6));
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Begins a `DoAction` whose body comes slowly or not at all, on a connection that answers pings; returns whether the
/// node ends the request in time.
async fn is_ended(address: &str, body: &[u8]) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let field = |name: &str, value: &str| {
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let head = [
        // POST, http
        vec![0x83, 0x86],
        field(":path", "/arrow.flight.protocol.FlightService/DoAction"),
        field(":authority", "node"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let opening = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, &[]), frame(1, 4, &head.concat())];
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut receives, sends) = socket.into_split();
    let sends = Arc::new(tokio::sync::Mutex::new(sends));
    sends.lock().await.write_all(&opening.concat()).await.unwrap();
    let drips = Arc::clone(&sends);
    let body = body.to_vec();
    let drip = tokio::spawn(async move {
        for byte in body {
            let _may_be_over = drips.lock().await.write_all(&frame(0, 0, &[byte])).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        std::future::pending::<()>().await;
    });
    let ended = async {
        loop {
            let mut head = [0; 9];
            receives.read_exact(&mut head).await.expect("pings are answered, so that the connection stays");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            receives.read_exact(&mut payload).await.unwrap();
            match (head[3], head[4]) {
                (6, 0) => sends.lock().await.write_all(&frame(6, 1, &payload)).await.unwrap(),
                // The answer's head, or the end of the stream.
                (1 | 3, _) => return,
                _ => {}
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.is_ok();
    drip.abort();
    ended
}

/// Bodies that never come, that come one byte at a time, and that never end.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_do_not_come_whole() {
    let attacked = Attacked::start(&["--keepalive", "1s"]).await;
    let slow = [&[0, 0, 0, 0, 200][..], &[0x0a; 200]].concat();
    assert!(is_ended(&attacked.node.address, &[]).await, "no body");
    assert!(is_ended(&attacked.node.address, &slow).await, "a byte at a time");
    attacked.check("requests that do not come whole").await;
}

/// A full disk, simulated by a limit of the process, while an index is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_no_part_of_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..400_000_u64).map(|n| format!("{n},{}\n", n * 7919 % 1_000_000_007)).collect();
    std::fs::write(folder.path().join("t.csv"), format!("a,b\n{text}")).unwrap();
    let listing = |below: &Path| std::fs::read_dir(below).map_or(0, |entries| entries.count());
    for (limits, said) in [
        (["sh", "-c", "ulimit -f 512; exec \"$@\""], "File too large"),
        (["sh", "-c", "exec \"$@\" --index-limit 1MiB"], "1.0 MiB that indexes may take"),
    ] {
        let node = NodeProcess::start_with(&limits, folder.path().to_str().unwrap());
        let session = Database::in_memory().await.unwrap().session();
        let location = format!("thermocline://{}/t.csv", node.address);
        session.run(&format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'")).await.unwrap();
        let error = session.run("CREATE INDEX i ON t (b)").await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(listing(&folder.path().join(".thermocline/index")), 0, "{error}");
        let counted = session.run("SELECT a FROM t WHERE b = 7919").await.unwrap();
        assert_eq!(counted.rows(), 1);
    }
}
