use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::ids::Micros;

/// Monotonic time since some start, for timeouts.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Real(Instant),
    Simulated(Arc<AtomicI64>),
}

impl Clock {
    /// The real clock of the machine.
    pub fn real() -> Self {
        Self { source: Source::Real(Instant::now()) }
    }

    /// A clock that stands still until it is [moved](Self::advance); clones move with it.
    pub fn simulated(now: Micros) -> Self {
        Self { source: Source::Simulated(Arc::new(AtomicI64::new(now.0))) }
    }

    /// Current time.
    pub fn now(&self) -> Micros {
        match &self.source {
            Source::Real(start) => Micros(i64::try_from(start.elapsed().as_micros()).unwrap_or(i64::MAX)),
            Source::Simulated(now) => Micros(now.load(Ordering::Relaxed)),
        }
    }

    /// Time since `then`.
    pub fn since(&self, then: Micros) -> Duration {
        Duration::from_micros(u64::try_from(self.now().0.saturating_sub(then.0)).unwrap_or(0))
    }

    /// Time after a duration.
    pub fn after(&self, duration: Duration) -> Micros {
        self.now().after(duration)
    }

    /// Moves a simulated clock forward; a real clock moves by itself.
    pub fn advance(&self, micros: u32) {
        if let Source::Simulated(now) = &self.source {
            now.fetch_add(micros.into(), Ordering::Relaxed);
        }
    }
}
