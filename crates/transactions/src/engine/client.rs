use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{Step, Wait, run_steps};
use thermocline_tables::table::{Budget, HeapSize};
use thermocline_types::{Error, Result, Value};

use super::executor::Target;
use super::mailbox::{Mailbox, Reply, Ticket};
use super::program::Program;
use super::shared::{Item, Request, Shared};

/// Has transactions run, many at a time: results come to its mailbox in any order.
pub struct Client<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    mailbox: Arc<Mailbox<P::Outcome>>,
    /// Requests for each partition that have not been put into its queue.
    unsent: Vec<Vec<Item<P>>>,
    /// Bytes that they take.
    unsent_bytes: usize,
    any: AtomicU32,
    /// The tag of the next call: calls that were given up may be answered later.
    call_next: u64,
}

/// Bytes of requests that wait for [`Client::send`]; with more, they go out by themselves. Nobody counts these against
/// the limit on memory, as the queues are, so there are few: some thousand small requests.
const UNSENT_BYTES_MAX: usize = 256 << 10;

impl<P: Program + ?Sized> Client<P> {
    /// A client of an engine.
    pub fn new(shared: Arc<Shared<P>>) -> Self {
        let unsent = shared.queues.iter().map(|_| Vec::new()).collect();
        let budget = shared.queues.first().map(|queue| Arc::clone(queue.budget()));
        let budget = budget.unwrap_or_else(|| Arc::new(Budget::unlimited()));
        let mailbox = Mailbox::new(Arc::clone(&shared.broken), budget);
        Self { shared, mailbox, unsent, unsent_bytes: 0, any: AtomicU32::new(0), call_next: 1 << 63 }
    }

    /// Notes a transaction, which goes out with [`Client::send`], or before that if many are noted. Its result comes
    /// with this tag. Refused with SQLSTATE 40001 while too many bytes of results wait to be received.
    pub fn submit(&mut self, program: Arc<P>, arguments: Box<[Value]>, tag: u64) -> Result<()> {
        self.submit_interruptible(program, arguments, tag, None)
    }

    /// The same for one that can be stopped. If it is stopped before it runs, its result comes when its turn
    /// would have come.
    pub fn submit_interruptible(
        &mut self,
        program: Arc<P>,
        arguments: Box<[Value]>,
        tag: u64,
        interrupt: Option<Arc<Interrupt>>,
    ) -> Result<()> {
        let (unread, most) = (self.mailbox.bytes(), self.shared.results_bytes_max);
        if unread > most {
            let message = format!("{unread} bytes of results wait to be received, and {most} may");
            return Err(Error::Retry(message.into()));
        }
        let participants = program.participants(&arguments)?;
        let ticket = Ticket::new(Arc::clone(&self.mailbox), tag);
        let request = Request { program, arguments, ticket, interrupt };
        let any = self.any.fetch_add(1, Ordering::Relaxed);
        match Target::of(&participants, self.unsent.len() as u32, any) {
            Target::Several(partitions) => self.shared.request_over(&partitions, request),
            Target::One(partition) => {
                let Some(unsent) = self.unsent.get_mut(partition as usize) else {
                    return Err(Error::internal("a transaction without participants"));
                };
                self.unsent_bytes += size_of::<Item<P>>() + request.heap_bytes();
                unsent.push(Item::One(request));
                if self.unsent_bytes > UNSENT_BYTES_MAX {
                    self.send();
                }
            }
        }
        Ok(())
    }

    /// Puts what was submitted into the queues. What finds no room comes back as an error with SQLSTATE
    /// 40001.
    pub fn send(&mut self) {
        self.unsent_bytes = 0;
        for (queue, unsent) in self.shared.queues.iter().zip(&mut self.unsent) {
            if unsent.is_empty() {
                continue;
            }
            for item in queue.push(unsent.drain(..)) {
                if let Item::One(request) = item {
                    request.ticket.refuse(self.shared.refusal());
                }
            }
        }
    }

    /// Takes the results that there are; waits for the first. For as many as were submitted, not more.
    pub fn receive(&self) -> VecDeque<Reply<P::Outcome>> {
        self.mailbox.receive()
    }

    /// The same, which gives back what to wait for instead of waiting.
    pub fn try_receive(&self) -> Result<VecDeque<Reply<P::Outcome>>, Wait> {
        self.mailbox.try_receive()
    }

    /// Runs one transaction and waits for it. Not while others that were submitted have not been received.
    pub fn call(&mut self, program: Arc<P>, arguments: Box<[Value]>) -> Result<P::Outcome> {
        let tag = self.start_call(program, arguments, None)?;
        loop {
            // Of a call that was given up, anything else.
            if let Some(reply) = self.receive().into_iter().find(|reply| reply.tag == tag) {
                return reply.result;
            }
        }
    }

    /// The same for one that can be stopped: if it has not begun by then, nobody waits for it any longer.
    /// Otherwise its result comes, an error with SQLSTATE 57014 unless it was over before.
    pub fn call_interruptible(
        &mut self,
        program: Arc<P>,
        arguments: Box<[Value]>,
        interrupt: &Arc<Interrupt>,
    ) -> Result<P::Outcome> {
        let tag = self.start_call(program, arguments, Some(Arc::clone(interrupt)))?;
        let clock = self.shared.clock.clone();
        run_steps(&clock, || self.called(tag, interrupt))
    }

    /// Looks whether a call has been answered, or has been withdrawn.
    pub fn called(&self, tag: u64, interrupt: &Interrupt) -> Step<Result<P::Outcome>> {
        match self.mailbox.try_receive() {
            // Of a call that was given up, anything else.
            Ok(replies) => match replies.into_iter().find(|reply| reply.tag == tag) {
                Some(reply) => Step::Over(reply.result),
                None => Step::Go,
            },
            Err(_) if interrupt.withdraws_now() => Step::Over(Err(interrupt.error())),
            Err(wait) => Step::Wait(wait.until(self.shared.clock.after(POLL_INTERVAL))),
        }
    }

    fn start_call(
        &mut self,
        program: Arc<P>,
        arguments: Box<[Value]>,
        interrupt: Option<Arc<Interrupt>>,
    ) -> Result<u64> {
        let tag = self.call_next;
        self.call_next += 1;
        if self.mailbox.bytes() > 0 {
            // Of calls that were given up.
            drop(self.mailbox.receive_for(Duration::ZERO));
        }
        self.submit_interruptible(program, arguments, tag, interrupt)?;
        self.send();
        Ok(tag)
    }
}
