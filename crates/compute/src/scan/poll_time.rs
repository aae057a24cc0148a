//! Time that streams compute, apart from what they wait and from what the streams within them compute.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::Time;
use futures::Stream;

thread_local! {
    /// Time of measured polls within the one under way.
    static WITHIN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A stream of which each poll is measured. A poll computes, or tells that it has to wait and returns; the time of
/// measured streams that it polls in turn is theirs.
#[derive(Debug)]
pub(super) struct PollTime<S, F> {
    stream: S,
    add: F,
}

impl<S, F: FnMut(Duration)> PollTime<S, F> {
    /// `add` is told the time of each poll.
    pub(super) fn new(stream: S, add: F) -> Self {
        Self { stream, add }
    }
}

/// A stream of which the time of all polls is added to `time`.
pub(super) fn timed<S: Stream>(stream: S, time: &Time) -> PollTime<S, impl FnMut(Duration) + Unpin + use<S>> {
    let time = time.clone();
    PollTime::new(stream, move |took| time.add_duration(took))
}

impl<S: Stream + Unpin, F: FnMut(Duration) + Unpin> Stream for PollTime<S, F> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let Self { stream, add } = self.get_mut();
        let before = WITHIN.replace(Duration::ZERO);
        let started = Instant::now();
        let item = Pin::new(stream).poll_next(context);
        let elapsed = started.elapsed();
        let within = WITHIN.replace(before + elapsed);
        add(elapsed.saturating_sub(within));
        item
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use futures::StreamExt;
    use futures::stream;

    use super::*;

    /// Computes until `time` has passed.
    fn compute(time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time {}
    }

    #[tokio::test]
    async fn waiting_and_inner_streams_do_not_count() {
        let ms = Duration::from_millis;
        let (mut inner, mut outer) = (Duration::ZERO, Duration::ZERO);
        let started = Instant::now();
        let reading = stream::iter(0..5).then(|number| async move {
            tokio::time::sleep(ms(20)).await;
            compute(ms(10));
            number
        });
        let reading = PollTime::new(reading.boxed(), |time| inner += time);
        let computing = reading.map(|number| {
            compute(ms(4));
            number
        });
        let total: i32 = PollTime::new(computing.boxed(), |time| outer += time).collect::<Vec<_>>().await.iter().sum();
        assert_eq!(total, 10);
        assert!(inner >= ms(50) && outer >= ms(20), "{inner:?} {outer:?}");
        // Neither contains the other, nor any of the sleeps.
        assert!(inner + outer + ms(100) <= started.elapsed(), "{inner:?} {outer:?}");
    }
}
