//! The arbitrator behind a node's own interface: places in the queue, slots and tokens come back,
//! whatever a caller does.

use std::time::Duration;

use crate::support::{Fixture, bytes};
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::PushbackToken;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_storage::{NodeConfig, PushbackPolicy, Root, StorageNode};

/// A node whose answers keep their slots, read or not.
fn config(pushdown_slots: usize, pushback_slots: usize) -> NodeConfig {
    let slot_wait_max = Duration::from_secs(3600);
    NodeConfig { pushdown_slots, pushback_slots, slot_wait_max, ..NodeConfig::default() }
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
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
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
