use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::executor::target;
use super::mailbox::{Mailbox, Reply, Ticket};
use super::program::Program;
use super::worker::{Item, Request, Shared};
use crate::error::{Error, Result};
use crate::types::Value;

/// Has transactions run, many at a time: results come to its mailbox in any order.
pub struct Client<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    mailbox: Arc<Mailbox<P::Outcome>>,
    /// Requests for each partition that have not been put into its queue.
    unsent: Vec<Vec<Item<P>>>,
    any: AtomicU32,
}

impl<P: Program + ?Sized> Client<P> {
    pub(super) fn new(shared: Arc<Shared<P>>) -> Self {
        let unsent = shared.queues.iter().map(|_| Vec::new()).collect();
        Self { shared, mailbox: Mailbox::new(), unsent, any: AtomicU32::new(0) }
    }

    /// Notes a transaction, which goes out with [`Client::send`]. Its result comes with this tag.
    pub fn submit(&mut self, program: Arc<P>, arguments: Box<[Value]>, tag: u64) -> Result<()> {
        let route = program.route(&arguments)?;
        let ticket = Ticket::new(Arc::clone(&self.mailbox), tag);
        let request = Request { program, arguments, ticket };
        let any = self.any.fetch_add(1, Ordering::Relaxed);
        match target(route, self.unsent.len() as u32, any) {
            None => self.shared.request_over_all(request),
            Some(partition) => match self.unsent.get_mut(partition as usize) {
                Some(unsent) => unsent.push(Item::One(request)),
                None => return Err(Error::internal("a route to no partition")),
            },
        }
        Ok(())
    }

    /// Puts what was submitted into the queues. What finds no room comes back as an error with SQLSTATE
    /// 40001.
    pub fn send(&mut self) {
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

    /// Runs one transaction and waits for it.
    pub fn call(&mut self, program: Arc<P>, arguments: Box<[Value]>) -> Result<P::Outcome> {
        self.submit(program, arguments, 0)?;
        self.send();
        let reply = self.receive().pop_front();
        reply.map_or_else(|| Err(Error::internal("an empty mailbox")), |reply| reply.result)
    }
}
