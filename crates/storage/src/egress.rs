//! A limit on what leaves a node, shared fairly by its streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// What one stream may send before the next one's turn.
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

    /// Waits until `bytes` have passed the link.
    pub async fn pass(&self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let turn = left.min(TURN_BYTES);
            left -= turn;
            let sent_at = {
                let mut free_at = self.free_at.lock().await;
                let earliest = Instant::now().checked_sub(BURST).unwrap_or_else(Instant::now);
                *free_at = (*free_at).max(earliest) + Duration::from_secs_f64(turn as f64 / self.bytes_per_s as f64);
                *free_at
            };
            tokio::time::sleep_until(sent_at).await;
        }
    }
}
