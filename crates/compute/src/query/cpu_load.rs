//! Measurement of the share of its cores that this process uses.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;

/// Shortest time over which load is measured: long enough for the clock, short enough for a query of a
/// fraction of a second.
const WINDOW_MIN: Duration = Duration::from_millis(20);

/// How much of its cores this process uses.
#[derive(Debug)]
pub(crate) struct CpuLoad {
    cores: f64,
    last: Mutex<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    /// Time that the process had computed by then; `None` where the clock is not to be had.
    computed: Option<Duration>,
    permille: u32,
}

impl CpuLoad {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let last = Look { at: Instant::now(), computed: computed(), permille: 0 };
        Self { cores: cores as f64, last: Mutex::new(last) }
    }

    /// The share in use lately, in thousandths of all cores that the process may run on; 0 if that
    /// cannot be known.
    pub(crate) fn permille(&self) -> u32 {
        self.look(Instant::now(), computed)
    }

    fn look(&self, now: Instant, computed: impl FnOnce() -> Option<Duration>) -> u32 {
        let mut last = self.last.lock();
        let elapsed = now.saturating_duration_since(last.at);
        if elapsed >= WINDOW_MIN {
            let computed = computed();
            let used = computed.zip(last.computed).map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before));
            let share = used.as_secs_f64() / (elapsed.as_secs_f64() * self.cores);
            *last = Look { at: now, computed, permille: (share * 1000.0).clamp(0.0, 1000.0) as u32 };
        }
        last.permille
    }
}

/// Time that all threads of this process have computed.
fn computed() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_the_share_of_the_cores_since_the_last_look() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let load = CpuLoad { cores: 2.0, last: Mutex::new(Look { at: begin, computed: Some(ms(0)), permille: 0 }) };
        let look = |at, computed: Option<u64>| load.look(begin + ms(at), || computed.map(ms));
        // Eighths of a second, which have no rounding.
        assert_eq!(look(125, Some(125)), 500);
        assert_eq!(look(140, Some(999)), 500, "too early to tell");
        assert_eq!(look(250, Some(375)), 1000);
        assert_eq!(look(375, Some(375)), 0);
        assert_eq!(look(500, Some(1375)), 1000, "clocks differ a little");
        assert_eq!(look(625, None), 0);
        assert_eq!(look(750, Some(1625)), 0, "nothing to compare with");
        assert_eq!(look(875, Some(1750)), 500);
    }

    #[test]
    fn the_process_that_computes_is_loaded() {
        let load = CpuLoad::new();
        let (begin, before) = (Instant::now(), computed().unwrap());
        while begin.elapsed() <= WINDOW_MIN || computed().unwrap() - before < Duration::from_millis(20) {}
        let busy = load.permille();
        assert!(busy > 0 && busy <= 1000, "{busy}");
    }
}
