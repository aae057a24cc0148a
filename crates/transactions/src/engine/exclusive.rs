//! Work over all partitions at one point in the transaction order, as a machine.

use std::sync::{Arc, mpsc};

use thermocline_durability::log::Batch;
use thermocline_machine::ids::Sequence;
use thermocline_machine::interrupt::Interrupt;
use thermocline_machine::{Machine, Step};
use thermocline_tables::partition::{Head, Member};
use thermocline_types::{Error, Result};

use super::program::Program;
use super::rendezvous::Rendezvous;
use super::shared::{Admission, Job, Shared};

/// Work that runs at one point in the transaction order, with all partitions held.
///
/// ```text
///  new ----> waits for the end of the rendezvous ----> waits until that is durable ----> the result
///                        | withdrawn: an error
/// ```
pub struct Exclusive<P: Program + ?Sized, T> {
    shared: Arc<Shared<P>>,
    rendezvous: Arc<Rendezvous>,
    result: mpsc::Receiver<Result<T>>,
    interrupt: Option<Arc<Interrupt>>,
    /// The result and the sequence that must be durable before it may be told; `None` before the end of the rendezvous.
    done: Option<(T, Sequence)>,
}

impl<P: Program + ?Sized, T: Send + 'static> Exclusive<P, T> {
    /// Work for all partitions, which can be interrupted before it begins. An outer error of `work` is a bug that stops
    /// the engine.
    pub(super) fn new(
        shared: &Arc<Shared<P>>,
        interrupt: Option<&Arc<Interrupt>>,
        work: impl FnOnce(&mut [Member], Head, &mut Batch) -> Result<Result<T>> + Send + 'static,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let started = interrupt.map(Arc::clone);
        let job: Job<P::Outcome> = Box::new(move |members, head, batch, _| {
            let result = match started.map_or(Ok(()), |interrupt| interrupt.start()) {
                Ok(()) => work(members, head, batch)?,
                Err(stopped) => Err(stopped),
            };
            if result.is_err() {
                batch.clear();
            }
            // The caller may have stopped waiting.
            let _ = sender.send(result);
            Ok(None)
        });
        let rendezvous = shared.over(&shared.all(), job, 0, Admission::Own).ok_or_else(|| shared.refusal())?;
        let (shared, interrupt) = (Arc::clone(shared), interrupt.map(Arc::clone));
        Ok(Self { shared, rendezvous, result: receiver, interrupt, done: None })
    }

    /// Ends with the rendezvous, and not with the work, because the record goes into the log in between.
    fn over(&mut self, sequence: Option<Sequence>) -> Result<()> {
        let withdrawn = || self.interrupt.as_ref().map_or_else(|| self.shared.refusal(), |of| of.error());
        let Some(sequence) = sequence else {
            self.shared.withdraw(&self.rendezvous);
            return Err(withdrawn());
        };
        let result = self.result.try_recv().map_err(|_| self.shared.refusal())??;
        self.done = Some((result, sequence));
        Ok(())
    }
}

impl<P: Program + ?Sized, T: Send + 'static> Machine for Exclusive<P, T> {
    type Output = Result<T>;

    fn step(&mut self) -> Step<Result<T>> {
        if let Some((_, sequence)) = &self.done {
            return self.shared.commit_waiters.reach(*sequence).map(|reached| {
                let done = self.done.take().ok_or_else(|| Error::internal("a result that is told twice"));
                reached.and(done.map(|(result, _)| result))
            });
        }
        match self.rendezvous.result(self.interrupt.as_deref()) {
            Step::Go => Step::Go,
            Step::Wait(wait) => Step::Wait(wait),
            Step::Over(over) => match over.and_then(|sequence| self.over(sequence)) {
                Ok(()) => Step::Go,
                Err(error) => Step::Over(Err(error)),
            },
        }
    }
}
