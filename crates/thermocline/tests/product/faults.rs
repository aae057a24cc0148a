//! Storage nodes that are missing, die, hang or answer garbage, and requests that they must refuse.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::data;
use crate::support::rows::canonical;
use crate::support::topology::{NodeProcess, spread};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::Ticket as FlightTicket;
use arrow_flight::flight_service_client::FlightServiceClient;
use parquet::arrow::ArrowWriter;
use prost::Message;
use thermocline_database::{Database, Session};
use thermocline_pushdown::wire::{
    Compression, Format, FragmentRequest, ObjectEntry, Origin, Range, RangesRequest, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{FileFormat, Route};
use thermocline_workloads::ssb::{DATES, Format as DataFormat, LINEORDER, create_table_sql, schema};

const HEAVY: &str = "SELECT lo_orderkey, sum(lo_revenue), max(lo_shipmode) FROM lineorder \
    WHERE lo_quantity > 1 GROUP BY lo_orderkey ORDER BY 2 DESC LIMIT 5";

async fn session() -> Session {
    let session = Database::in_memory().await.unwrap().session();
    session.set("request_timeout", "2s").unwrap();
    session
}

async fn define(session: &Session, location: &str) {
    session.run(&create_table_sql(LINEORDER, DataFormat::Parquet, &format!("{location}/lineorder"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_there() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let session = session().await;
    let started = Instant::now();
    let sql = create_table_sql(LINEORDER, DataFormat::Parquet, &format!("thermocline://{address}/lineorder"));
    let error = session.run(&sql).await.unwrap_err().to_string();
    assert!(error.contains(&address), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_or_talks_nonsense() {
    for answer in [&b""[..], &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..], &[0xff; 4096][..]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let mut open = vec![];
            while let Ok((mut socket, _)) = listener.accept() {
                let _ = socket.read(&mut [0; 1024]);
                let _ = socket.write_all(answer);
                open.push(socket);
            }
        });
        let session = session().await;
        let sql = create_table_sql(LINEORDER, DataFormat::Parquet, &format!("thermocline://{address}/lineorder"));
        let started = Instant::now();
        let error = session.run(&sql).await.unwrap_err().to_string();
        assert!(error.contains(&address), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_during_a_query_is_named_and_welcome_back() {
    let temporary = tempfile::tempdir().unwrap();
    let (left, right) = (temporary.path().join("left"), temporary.path().join("right"));
    spread(data::ssb(DataFormat::Parquet), &[&left, &right]);
    let left = NodeProcess::over(&left);
    // Slow enough that the kill comes in the middle.
    let slow = ["--egress-limit", "100KiB/s"];
    let mut killed = NodeProcess::start(right.to_str().unwrap(), "127.0.0.1:0", &slow, &[]);
    let address = killed.address.clone();

    let session = session().await;
    define(&session, &format!("thermocline://{},{address}", left.address)).await;
    session.set("mode", "pullup").unwrap();
    let query = tokio::spawn({
        let session = session.clone();
        async move { session.run(HEAVY).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Instant::now();
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    let error = query.await.unwrap().unwrap_err().to_string();
    assert!(error.contains(&address), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());

    let again = NodeProcess::start(right.to_str().unwrap(), &address, &[], &[]);
    assert_eq!(again.address, address);
    assert_eq!(session.run(HEAVY).await.unwrap().rows(), 5);
}

/// User and system time of a process so far, in clock ticks.
fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_stops_at_the_node() {
    let node = NodeProcess::over(data::ssb(DataFormat::Csv));
    let session = session().await;
    let sql = create_table_sql(LINEORDER, DataFormat::Csv, &format!("thermocline://{}/lineorder", node.address));
    session.run(&sql).await.unwrap();
    session.set("mode", "pushdown").unwrap();
    // Two hundred digests of each row, so that it would run for long.
    let digests = |seed: usize| {
        (0..10).fold(format!("CAST(concat(lo_shipmode, '{seed}') AS BYTEA)"), |of, _| format!("sha512({of})"))
    };
    let terms: Vec<_> = (0..20).map(|seed| format!("{} = sha512('none')", digests(seed))).collect();
    let slow = format!("SELECT count(*) FROM lineorder WHERE {}", terms.join(" OR "));
    let query = tokio::spawn({
        let session = session.clone();
        async move { session.run(&slow).await }
    });
    let pid = node.process.id();
    // Ticks that the node works in half a second, once they are as wanted or time runs out.
    let work = |wanted: fn(u64) -> bool| async move {
        let mut ticks = 0;
        for _ in 0..40 {
            let before = cpu_ticks(pid);
            tokio::time::sleep(Duration::from_millis(500)).await;
            ticks = cpu_ticks(pid) - before;
            if wanted(ticks) {
                break;
            }
        }
        ticks
    };
    assert!(work(|ticks| ticks > 2).await > 2, "the node works on the query");
    query.abort();
    let _ = query.await;
    // It would work for minutes if it were not told to stop.
    assert!(work(|ticks| ticks <= 2).await <= 2, "the node is idle after the query was dropped");
}

async fn get(address: &str, ticket: Vec<u8>) -> tonic::Status {
    let channel =
        tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = FlightServiceClient::new(channel).max_encoding_message_size(64 << 20);
    match client.do_get(FlightTicket::new(ticket)).await {
        Err(status) => status,
        Ok(answer) => {
            let mut messages = answer.into_inner();
            loop {
                match messages.message().await {
                    Err(status) => return status,
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the request was answered"),
                }
            }
        }
    }
}

fn ranges(path: &str) -> Vec<u8> {
    let object = ObjectEntry { path: path.into(), version: "etag:x".into(), size: 100 };
    let request = RangesRequest {
        origin: Some(Origin::default()),
        object: Some(object),
        starts: vec![0],
        ends: vec![10],
        ..RangesRequest::default()
    };
    Ticket { kind: Some(TicketKind::Ranges(request)) }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_leave_root_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(temporary.path().join("secret.parquet"), "secret secret secret").unwrap();
    std::os::unix::fs::symlink(temporary.path().join("secret.parquet"), root.join("link.parquet")).unwrap();
    let node = NodeProcess::over(&root);
    for path in ["../secret.parquet", "a/../../secret.parquet", "/etc/passwd", "link.parquet", "./x"] {
        let status = get(&node.address, ranges(path)).await;
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{path}: {status}");
        assert!(status.message().contains(path.trim_start_matches("a/../")), "{path}: {status}");
    }
    let session = session().await;
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}/../'", node.address);
    let error = session.run(&sql).await.unwrap_err().to_string();
    assert!(error.contains("ROOT"), "{error}");
    // A link that leads out of ROOT is not listed either.
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'thermocline://{}'", node.address);
    let error = session.run(&sql).await.unwrap_err().to_string();
    assert!(error.contains("no PARQUET objects"), "{error}");
}

fn fragment_request(root: &Path, fragment: Vec<u8>) -> Vec<u8> {
    let path = std::fs::read_dir(root.join("dates")).unwrap().next().unwrap().unwrap().path();
    let object = ObjectEntry {
        path: format!("dates/{}", path.file_name().unwrap().to_str().unwrap()),
        version: "any".into(),
        size: std::fs::metadata(path).unwrap().len(),
    };
    let request = FragmentRequest {
        origin: None,
        object: Some(object),
        format: Some(Format::from(&FileFormat::Parquet)),
        table_schema: encode_schema(&schema(DATES)).unwrap(),
        partitions: vec![Range { row_groups: true, start: 0, end: 1, first_row: 0 }],
        fragment,
        compression: Compression::None as i32,
        ..FragmentRequest::default()
    };
    Ticket { kind: Some(TicketKind::Fragment(request)) }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_and_garbled_fragments_are_refused() {
    use std::sync::Arc;

    use datafusion::physical_expr::LexOrdering;
    use datafusion::physical_expr::expressions::{Column, NegativeExpr, col};
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::projection::ProjectionExec;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use thermocline_pushdown::Fragment;

    let root = data::ssb(DataFormat::Parquet);
    let node = NodeProcess::over(root);

    // A full sort is not bounded.
    let columns = schema(DATES);
    let scan = Fragment::scan(Arc::clone(&columns));
    let order = LexOrdering::new([datafusion::physical_expr::PhysicalSortExpr::new_default(
        col("d_datekey", &columns).unwrap(),
    )])
    .unwrap();
    let sort: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order.clone(), Arc::clone(scan.root())));
    let status = get(&node.address, fragment_request(root, scan.with_operator(&sort).unwrap().encode().unwrap())).await;
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert!(status.message().contains("SortExec"), "{status}");

    // Nor is a top-K of all rows.
    let sort: Arc<dyn ExecutionPlan> =
        Arc::new(SortExec::new(order, Arc::clone(scan.root())).with_fetch(Some(1 << 40)));
    let status = get(&node.address, fragment_request(root, scan.with_operator(&sort).unwrap().encode().unwrap())).await;
    assert!(status.message().contains("top-K"), "{status}");

    // An expression nested a thousand deep, which takes a large stack to make.
    let deep = std::thread::Builder::new().stack_size(256 << 20).spawn({
        let scan = scan.clone();
        move || {
            let mut deep: Arc<dyn datafusion::physical_expr::PhysicalExpr> = Arc::new(Column::new("d_datekey", 0));
            for _ in 0..1000 {
                deep = Arc::new(NegativeExpr::new(deep));
            }
            let columns = vec![(deep, "x".to_owned())];
            let projection: Arc<dyn ExecutionPlan> =
                Arc::new(ProjectionExec::try_new(columns, Arc::clone(scan.root())).unwrap());
            scan.with_operator(&projection).unwrap().encode().unwrap()
        }
    });
    let deep = deep.unwrap().join().unwrap();
    let status = get(&node.address, fragment_request(root, deep)).await;
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");

    for garbage in [vec![], vec![0xff; 100], b"SELECT 1".to_vec()] {
        let status = get(&node.address, fragment_request(root, garbage)).await;
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
        assert!(status.message().contains("dates/"), "{status}");
    }
    // A Bloom filter made with another hash function would drop rows that must be kept.
    let key: Arc<dyn datafusion::physical_expr::PhysicalExpr> = Arc::new(Column::new("d_datekey", 0));
    let empty = thermocline_pushdown::BloomFilter::with_bytes(64);
    let bloom = Arc::new(thermocline_pushdown::BloomFilterExpr::new(vec![key], Arc::new(empty)));
    let mut bytes = scan.with_filter_below(bloom).unwrap().encode().unwrap();
    let bits = bytes.windows(64).rposition(|bytes| bytes == [0; 64]).unwrap();
    // The check follows the bits and its tag.
    bytes[bits + 64 + 1] ^= 1;
    let status = get(&node.address, fragment_request(root, bytes)).await;
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    assert!(status.message().contains("another hash function"), "{status}");

    // An invalid ticket, and one that is far too large.
    assert_eq!(get(&node.address, vec![0xff; 64]).await.code(), tonic::Code::PermissionDenied);
    let status = get(&node.address, fragment_request(root, vec![7; 20 << 20])).await;
    assert!(matches!(status.code(), tonic::Code::OutOfRange | tonic::Code::ResourceExhausted), "{status}");

    // The node still works.
    let session = session().await;
    let sql = create_table_sql(DATES, DataFormat::Parquet, &format!("thermocline://{}/dates", node.address));
    session.run(&sql).await.unwrap();
    assert_eq!(session.run("SELECT d_datekey FROM dates WHERE d_year = 1992").await.unwrap().rows(), 366);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_without_bound_are_sent_as_partial_states() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    // One partition of half a million groups. Its stored bytes fit into the node's memory, but not together with the
    // states.
    let keys: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..1_000_000).map(|i| format!("group number {:020}", i % 500_000))));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let batch = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
    let file = fs::File::create(folder.path().join("t/0.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();

    let node = NodeProcess::start(folder.path().to_str().unwrap(), "127.0.0.1:0", &["--memory-limit", "256MiB"], &[]);
    let session = Database::in_memory().await.unwrap().session();
    let location = format!("thermocline://{}/t", node.address);
    session.run(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'")).await.unwrap();
    // Every group twice, in the same partition: a state that was sent early is merged with its other half here.
    let sql = "SELECT count(*), sum(n), sum(s), min(s) FROM \
               (SELECT k, count(*) n, sum(v) s FROM t WHERE v >= 1000 GROUP BY k)";
    let mut answers = vec![];
    for mode in ["pullup", "pushdown"] {
        session.set("mode", mode).unwrap();
        let result = session.run(sql).await.unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert_eq!(result.stats.partitions(Route::Pushdown) > 0, mode == "pushdown", "{mode}");
        assert_eq!(result.stats.partitions_pushed_back, 0, "{mode}");
        answers.push(canonical(&result));
    }
    assert_eq!(answers[0], answers[1]);
    let used = session.run("SELECT memory_used, queue_length FROM system.storage_nodes").await.unwrap();
    assert_eq!(canonical(&used), [[Some("0".to_owned()), Some("0".to_owned())]], "the node still holds something");
}
