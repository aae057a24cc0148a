//! Readers that take nothing of their answers for a while: they get all of them in the end, and no other
//! reader waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Answer, Fixture, bytes};
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::wire::{ErrorKind, Origin};
use thermocline_storage::{NodeClient, NodeConfig, RemoteOptions, Server, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TICK: Duration = Duration::from_millis(50);

fn impatient(pushdown_slots: usize, pushback_slots: usize) -> NodeConfig {
    NodeConfig { pushdown_slots, pushback_slots, slot_wait_max: TICK, ..NodeConfig::default() }
}

async fn served(fixture: &Fixture, options: RemoteOptions) -> (Server, NodeClient) {
    let server = serve(Arc::clone(&fixture.node), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = NodeClient::remote(&server.address().to_string(), &options).unwrap();
    (server, client)
}

/// A short patience, with which a test need not wait long to see that somebody starves.
fn options() -> RemoteOptions {
    RemoteOptions { request_timeout: Duration::from_secs(5), ..RemoteOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_answers_take_nobody_elses_window() {
    let fixture = Fixture::new(NodeConfig::default()).await;
    let small = RemoteOptions { stream_window: 64 << 10, streams_per_connection: 3, ..options() };
    for options in [options(), small] {
        let (_server, client) = served(&fixture, options).await;
        let mut paused: Vec<(usize, Answer)> = vec![];
        for _ in 0..16 {
            let mut answer = client.get(&fixture.ranges(None)).await.unwrap();
            let first = answer.next().await.unwrap().unwrap().data_body.len();
            paused.push((first, answer));
        }
        // As long as it takes for all that the windows let through to arrive.
        tokio::time::sleep(10 * TICK).await;
        for ticket in [fixture.ranges(None), fixture.fragment(false)] {
            assert!(bytes(client.get(&ticket).await.unwrap()).await as u64 > fixture.object.size / 2);
        }
        for (first, answer) in paused {
            let rest = bytes(answer).await;
            assert_eq!((first + rest) as u64, fixture.object.size, "a paused reader gets what it asked for");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_has_no_slot_while_its_reader_is_away() {
    let fixture = Fixture::new(impatient(1, 0)).await;
    let whole = bytes(fixture.get(&fixture.fragment(false)).await.unwrap()).await;
    let mut paused = vec![];
    for _ in 0..3 {
        // Each begins in the slot that the one before has given up.
        paused.push(fixture.begun().await);
    }
    fixture.until(|status| status.pushdown_slots_used == 0).await;
    assert_eq!(bytes(fixture.get(&fixture.fragment(false)).await.unwrap()).await, whole);
    // They come back all at once, and take turns.
    let mut readers = tokio::task::JoinSet::new();
    for answer in paused {
        readers.spawn(bytes(answer));
    }
    for rest in readers.join_all().await {
        // The first message, which was taken before, is the schema.
        assert_eq!(rest, whole, "a paused reader gets what it asked for");
    }
    let status = fixture.until_idle().await;
    assert_eq!(status.queue_length, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_has_no_slot_while_its_reader_is_away() {
    let fixture = Fixture::new(NodeConfig { compute_power: 0.01, ..impatient(1, 1) }).await;
    // Somebody reads as fast as the fragment runs, so that it keeps its slot for long.
    let slow = fixture.get(&fixture.fragment(false)).await.unwrap();
    let slow = tokio::spawn(slow.try_for_each(|_| async { Ok(()) }));
    fixture.until(|status| status.pushdown_slots_used == 1).await;
    let token = fixture.pushed_back().await;
    let mut transfer = fixture.get(&fixture.ranges(token)).await.unwrap();
    let first = transfer.next().await.unwrap().unwrap().data_body.len();
    fixture.until(|status| status.pushback_slots_used == 0).await;
    assert!(fixture.pushed_back().await.is_some(), "the slot is somebody else's");
    assert_eq!((first + bytes(transfer).await) as u64, fixture.object.size);
    slow.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn time_away_counts_only_for_who_has_a_deadline() {
    let fixture = Fixture::new(NodeConfig { deadline_max: 20 * TICK, ..impatient(4, 0) }).await;
    let in_time = Origin { deadline_ms: (10 * TICK).as_millis() as u64, ..Origin::default() };
    let patient = fixture.begun().await;
    let mut raw = fixture.get(&fixture.ranges(None)).await.unwrap();
    raw.next().await.unwrap().unwrap();
    let mut strict = fixture.get(&fixture.fragment_of(in_time, false)).await.unwrap();
    strict.next().await.unwrap().unwrap();
    tokio::time::sleep(40 * TICK).await;
    assert!(bytes(patient).await > 0);
    assert!(bytes(raw).await > 0);
    let rest: Result<Vec<_>, _> = strict.try_collect().await;
    assert_eq!(rest.unwrap_err().kind, ErrorKind::DeadlineExceeded);
}

/// Passes bytes on until it is frozen, which neither side is told.
async fn proxy(to: std::net::SocketAddr, frozen: Arc<AtomicBool>) -> std::net::SocketAddr {
    async fn copy(
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
        frozen: Arc<AtomicBool>,
    ) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if frozen.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if to.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (client_reads, client_writes) = client.into_split();
            let (node_reads, node_writes) = TcpStream::connect(to).await.unwrap().into_split();
            tokio::spawn(copy(client_reads, node_writes, Arc::clone(&frozen)));
            tokio::spawn(copy(node_reads, client_writes, Arc::clone(&frozen)));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_answers_no_ping_is_gone() {
    let fixture = Fixture::new(NodeConfig { keepalive: 4 * TICK, ..impatient(2, 0) }).await;
    let server = serve(Arc::clone(&fixture.node), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let frozen = Arc::new(AtomicBool::new(false));
    let address = proxy(server.address(), Arc::clone(&frozen)).await;
    let small = RemoteOptions { stream_window: 64 << 10, ..options() };
    let client = NodeClient::remote(&address.to_string(), &small).unwrap();
    let mut paused = client.get(&fixture.fragment(false)).await.unwrap();
    paused.next().await.unwrap().unwrap();
    // Slow, but alive: for many times as long as a ping may take.
    tokio::time::sleep(20 * TICK).await;
    assert_eq!(fixture.node.status().answers, 1);
    frozen.store(true, Ordering::Relaxed);
    fixture.until(|status| status.answers == 0).await;
    fixture.until_idle().await;
}
