//! Clients with many transactions in flight.

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
use super::request::Request;
use super::shared::{Item, Shared};

/// Runs many transactions at a time: results come to its mailbox in any order.
pub struct Client<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    mailbox: Arc<Mailbox<P::Outcome>>,
    /// Requests for each partition that are not in its queue yet.
    unsent: Vec<Vec<Item<P>>>,
    /// Bytes of these requests.
    unsent_bytes: usize,
    any: AtomicU32,
    /// Tag of the next call; abandoned calls may be answered later.
    call_next: u64,
}

/// Bytes of requests that wait for [`Client::send`]; beyond that they are sent automatically. Unlike queues they are
/// not charged to the budget, so the number is small: some thousand small requests.
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

    /// Submits a transaction, which is sent with [`Client::send`], or earlier if many are waiting. Its result has this
    /// tag. Refused with SQLSTATE 40001 while too many bytes of results wait to be received.
    pub fn submit(&mut self, program: Arc<P>, arguments: Box<[Value]>, tag: u64) -> Result<()> {
        self.submit_interruptible(program, arguments, tag, None)
    }

    /// [`Client::submit`] with an interrupt. If the transaction is stopped before it runs, its result comes when its
    /// turn would have come.
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

    /// Puts the submitted requests into the queues. Those that find no room are answered with SQLSTATE 40001.
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

    /// Takes the available results; waits for the first. Call it at most as often as results are outstanding.
    pub fn receive(&self) -> VecDeque<Reply<P::Outcome>> {
        self.mailbox.receive()
    }

    /// [`Client::receive`] that returns a wait instead of waiting.
    pub fn try_receive(&self) -> Result<VecDeque<Reply<P::Outcome>>, Wait> {
        self.mailbox.try_receive()
    }

    /// Runs one transaction and waits for it. All submitted transactions must have been received before.
    pub fn call(&mut self, program: Arc<P>, arguments: Box<[Value]>) -> Result<P::Outcome> {
        let tag = self.start_call(program, arguments, None)?;
        loop {
            // Other replies belong to abandoned calls.
            if let Some(reply) = self.receive().into_iter().find(|reply| reply.tag == tag) {
                return reply.result;
            }
        }
    }

    /// [`Client::call`] with an interrupt: if the transaction has not begun by then, it is abandoned. Otherwise its
    /// result is SQLSTATE 57014, unless it was over before.
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

    /// Checks whether a call has been answered or withdrawn.
    pub fn called(&self, tag: u64, interrupt: &Interrupt) -> Step<Result<P::Outcome>> {
        match self.mailbox.try_receive() {
            // Other replies belong to abandoned calls.
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
            // Drops replies of abandoned calls.
            drop(self.mailbox.receive_for(Duration::ZERO));
        }
        self.submit_interruptible(program, arguments, tag, interrupt)?;
        self.send();
        Ok(tag)
    }
}
