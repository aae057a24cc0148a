//! A limit on what leaves a node, shared fairly by its streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Bytes that one stream may send before the next one's turn.
const TURN_BYTES: usize = 32 << 10;
/// Idle time that may be made up for in a burst, as a real link's buffer would.
const BURST: Duration = Duration::from_millis(5);

/// A paced link: every stream sends in turns of 32 KiB, first come, first served, so that a large
/// answer never holds up a small one for longer than the other streams' turns.
#[derive(Debug, Clone)]
pub struct Egress {
    bytes_per_s: u64,
    /// When the link has sent everything that was granted so far. The lock hands over in the order
    /// of its waiters.
    free_at: Arc<Mutex<Instant>>,
}

impl Egress {
    /// A link of that many bytes a second.
    pub fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), free_at: Arc::new(Mutex::new(Instant::now())) }
    }

    /// A stream that sends over the link.
    pub fn stream(&self) -> EgressStream {
        EgressStream { link: self.clone(), unwaited: 0, sent_at: Instant::now() }
    }

    /// When these bytes will have been sent, after all that was granted before.
    async fn grant(&self, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().await;
        let earliest = Instant::now().checked_sub(BURST).unwrap_or_else(Instant::now);
        *free_at = (*free_at).max(earliest) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        *free_at
    }
}

/// One stream's use of a link. It waits once a turn, however many messages the turn holds: ten
/// small messages would otherwise wait for ten turns of everybody else.
///
/// Invariant: unwaited < `TURN_BYTES` between calls.
#[derive(Debug)]
pub struct EgressStream {
    link: Egress,
    /// Bytes that were granted and not waited for.
    unwaited: usize,
    /// When the last granted bytes will have been sent.
    sent_at: Instant,
}

impl EgressStream {
    /// Waits until all but the last turn of what was passed so far has left.
    pub async fn pass(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let granted = left.min(TURN_BYTES - self.unwaited);
            left -= granted;
            self.unwaited += granted;
            self.sent_at = self.link.grant(granted).await;
            if self.unwaited == TURN_BYTES {
                self.finish().await;
            }
        }
    }

    /// Waits until everything has left.
    pub async fn finish(&mut self) {
        if self.unwaited > 0 {
            self.unwaited = 0;
            tokio::time::sleep_until(self.sent_at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_leaves_stays_below_the_limit() {
        let link = Egress::new(8 << 20);
        let started = Instant::now();
        let streams = (0..8).map(|n| {
            let mut stream = link.stream();
            tokio::spawn(async move {
                // Messages of all sizes: 128 KiB each stream, 1 MiB in all.
                let message = 1 << (10 + n % 4);
                for _ in 0..(128 << 10) / message {
                    stream.pass(message).await;
                }
                stream.finish().await;
            })
        });
        for stream in futures::future::join_all(streams.collect::<Vec<_>>()).await {
            assert!(stream.is_ok());
        }
        // No clock runs fast: only the burst may be missing.
        let least = Duration::from_millis(125) - BURST;
        assert!(started.elapsed() >= least, "1 MiB left in {:?}", started.elapsed());
    }

    #[tokio::test]
    async fn small_messages_wait_once_a_turn() {
        let mut stream = Egress::new(1 << 20).stream();
        for _ in 0..10 {
            stream.pass(2 << 10).await;
        }
        assert_eq!(stream.unwaited, 20 << 10, "it has waited");
        stream.pass(13 << 10).await;
        assert_eq!(stream.unwaited, 1 << 10);
        stream.finish().await;
        assert_eq!(stream.unwaited, 0);
    }
}
