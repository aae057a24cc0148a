use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;

/// Load is told of the time since the last look, which is at least this long: long enough for the
/// clock, short enough for a query of a fraction of a second.
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
        let mut last = self.last.lock();
        let elapsed = last.at.elapsed();
        if elapsed >= WINDOW_MIN {
            let now = computed();
            let used = now.zip(last.computed).map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before));
            let share = used.as_secs_f64() / (elapsed.as_secs_f64() * self.cores);
            *last = Look { at: Instant::now(), computed: now, permille: (share * 1000.0).clamp(0.0, 1000.0) as u32 };
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
    fn a_loop_is_load_and_sleep_is_not() {
        let load = CpuLoad { cores: 1.0, ..CpuLoad::new() };
        // Other tests of this process may compute meanwhile, so that only one side is certain; a
        // machine with other work may give this thread little.
        let before = computed().unwrap();
        while computed().unwrap() - before < Duration::from_millis(30) {}
        let busy = load.permille();
        assert!(busy > 0 && busy <= 1000, "{busy}");
        // Nothing new within the window.
        assert_eq!(load.permille(), busy);
    }
}
