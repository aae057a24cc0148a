//! How much of a core one fragment takes: `--compute-power`, and pauses that let others run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// Rests shorter than this are saved up: timers are no finer.
const REST_MIN: Duration = Duration::from_millis(2);
/// A fragment that computed for this long without a pause lets others have the thread.
const STRETCH_MAX: Duration = Duration::from_millis(5);
/// Rest taken beyond what was owed counts towards later work, up to this much.
const CREDIT_MAX: Duration = Duration::from_millis(20);

/// The meter of one fragment's execution. Whatever computes for `t` then rests for `t (1/p - 1)`,
/// where p is the compute power.
///
/// ```text
///   paced( encode <- fragment <- yielding( decode ) )
///     |  measures each poll          |  between batches: stops a poll that has taken its share
///     +---- rests before the next ---+
/// ```
///
/// The time of a poll is taken as the time of computing: reads are awaited, not waited for. The part of it in which the
/// thread had no core is known as well.
#[derive(Debug, Clone)]
pub(super) struct DutyCycle {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Seconds of rest per second of work.
    rest_per_work: f64,
    busy: Duration,
    /// Part of `busy` in which other work had the core.
    preempted: Duration,
    /// Since when a poll is under way, and the thread's time on a core then.
    working_since: Option<(Instant, Option<Duration>)>,
    /// Seconds of rest owed; negative for credit.
    owed: f64,
    rest: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Rests taken so far, and their time.
    rests: u64,
    rested: Duration,
}

impl DutyCycle {
    /// `power` is the share of a core, above 0 and at most 1.
    pub(super) fn new(power: f64) -> Self {
        let rest_per_work = if power > 0.0 { (1.0 / power - 1.0).max(0.0) } else { 0.0 };
        Self { state: Arc::new(Mutex::new(State { rest_per_work, ..State::default() })) }
    }

    /// Time computed so far.
    pub(super) fn busy(&self) -> Duration {
        self.state.lock().busy
    }

    /// Part of that time in which other work of the machine had the core.
    pub(super) fn preempted(&self) -> Duration {
        self.state.lock().preempted
    }

    /// The outermost stream of the execution, measured and rested.
    pub(super) fn paced<S: Stream + Unpin>(&self, mut stream: S) -> impl Stream<Item = S::Item> + use<S> {
        let cycle = self.clone();
        futures::stream::poll_fn(move |context| {
            if cycle.state.lock().rests(context) {
                return Poll::Pending;
            }
            cycle.state.lock().working_since = Some((Instant::now(), thread_time()));
            let item = stream.poll_next_unpin(context);
            cycle.state.lock().stop_working();
            item
        })
    }

    /// The innermost stream: a place to pause within a long poll of [`DutyCycle::paced`].
    pub(super) fn yielding(&self, mut batches: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let cycle = self.clone();
        let schema = batches.schema();
        let batches = futures::stream::poll_fn(move |context| {
            if cycle.state.lock().is_due(context) {
                return Poll::Pending;
            }
            batches.poll_next_unpin(context)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// Time that this thread has had a core so far; `None` where the system does not tell.
fn thread_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

impl State {
    /// Adds what was worked since the last time.
    fn stop_working(&mut self) {
        if let Some((since, on_core)) = self.working_since.take() {
            let worked = since.elapsed();
            self.busy += worked;
            let on_core = thread_time().zip(on_core).map(|(now, before)| now.saturating_sub(before));
            self.preempted += on_core.map_or(Duration::ZERO, |on_core| worked.saturating_sub(on_core));
            self.owed += worked.as_secs_f64() * self.rest_per_work;
        }
    }

    /// Whether a rest is being taken; the task is woken when it is over.
    fn rests(&mut self, context: &mut Context<'_>) -> bool {
        if self.rest.is_none() && self.owed >= REST_MIN.as_secs_f64() {
            let now = Instant::now();
            self.rest = Some((now, Box::pin(tokio::time::sleep(Duration::from_secs_f64(self.owed)))));
        }
        let Some((since, sleep)) = &mut self.rest else {
            return false;
        };
        if sleep.as_mut().poll(context).is_pending() {
            return true;
        }
        let rested = since.elapsed();
        self.owed = (self.owed - rested.as_secs_f64()).max(-CREDIT_MAX.as_secs_f64());
        self.rest = None;
        self.rests += 1;
        self.rested += rested;
        false
    }

    /// Whether the poll under way should stop here.
    fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some((since, _)) = self.working_since else {
            return false;
        };
        let worked = since.elapsed();
        let owed = self.owed + worked.as_secs_f64() * self.rest_per_work;
        if owed < REST_MIN.as_secs_f64() && worked < STRETCH_MAX {
            return false;
        }
        self.stop_working();
        if !self.rests(context) {
            context.waker().wake_by_ref();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use futures::TryStreamExt;

    use super::*;

    /// Rows through a fragment that computes for a millisecond a batch, all within one poll.
    async fn worked(power: f64) -> (usize, DutyCycle) {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![1; 10]))]).unwrap();
        let batches = futures::stream::iter(vec![batch; 40]).map(Ok);
        let cycle = DutyCycle::new(power);
        let input = cycle.yielding(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
        let aggregate = input.try_fold(0, |rows, batch| async move {
            let until = std::time::Instant::now() + Duration::from_millis(1);
            while std::time::Instant::now() < until {}
            Ok(rows + batch.num_rows())
        });
        let answer: Vec<_> = cycle.paced(Box::pin(futures::stream::once(aggregate))).collect().await;
        let rows = answer.into_iter().map(Result::unwrap).sum();
        (rows, cycle)
    }

    #[tokio::test]
    async fn work_is_rested_for() {
        let (rows, cycle) = worked(0.5).await;
        assert_eq!(rows, 400);
        assert!(cycle.busy() >= Duration::from_millis(40));
        let state = cycle.state.lock();
        // One second of rest per second of work, up to what a timer cannot do.
        assert!(state.owed < 0.02, "{state:?}");
        assert!(state.rests >= 5, "in small steps: {state:?}");
        assert!(state.rested + REST_MIN + STRETCH_MAX >= state.busy, "{state:?}");
    }

    #[tokio::test]
    async fn full_power_never_rests() {
        let (rows, cycle) = worked(1.0).await;
        assert_eq!(rows, 400);
        let state = cycle.state.lock();
        assert_eq!((state.rests, state.rested), (0, Duration::ZERO));
        assert!(state.busy >= Duration::from_millis(40));
    }
}
