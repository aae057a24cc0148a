//! Memory for transactions whose own partitions have none to give back.
//!
//! ```text
//!  a transaction finds no memory --> all partitions meet: one of them moves rows together, or evicts some
//!          ^                                            |
//!          +---------------- runs again ----------------+---- none can, or it has run too often: it is refused
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use thermocline_tables::partition::Member;
use thermocline_tables::table::{Budget, HeapSize};
use thermocline_types::Error;

use super::executor::{self, budget_of};
use super::program::Program;
use super::request::Request;
use super::shared::{Admission, Item, Job, Shared};

impl<P: Program + ?Sized> Shared<P> {
    /// Whether other partitions than these may have memory of tables to give back.
    pub fn may_have_room(&self, members: &[Member]) -> bool {
        members.len() < self.queues.len()
            && budget_of(members)
                .is_some_and(|budget| budget.pressure() > 0 && budget.used() != self.no_room_at.load(Ordering::Relaxed))
    }

    /// Runs a request over these partitions again once another one has given memory back; answers it with `full` if none
    /// can, or it has run again often: what it needs may not fit, and go each time for it to have room.
    pub fn request_after_room(self: &Arc<Self>, partitions: &[u32], request: Request<P>, full: Error) {
        let heap_bytes = request.heap_bytes();
        let Request { program, arguments, mut ticket, interrupt } = request;
        if !ticket.take_try() {
            return ticket.refuse(full);
        }
        // It is refused with a specific reason, so the ticket must survive the job.
        let ticket = Arc::new(Mutex::new(Some(ticket)));
        let (inner, refusal) = (Arc::clone(&ticket), full.clone());
        let (shared, over, holds) = (Arc::downgrade(self), partitions.to_vec(), Arc::clone(&self.eviction_holds));
        let evictions = self.queues.first().map(|queue| queue.budget().evictions());
        let has_room = move |budget: &Budget| Some(budget.evictions()) != evictions && budget.pressure() == 0;
        let job: Job<P::Outcome> = Box::new(move |members, _, _, _| {
            let Some(ticket) = inner.lock().take() else { return Ok(None) };
            let stopped = interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check());
            let answer = match stopped.and_then(|()| holds.hold(members, executor::make_room)) {
                Ok(made) if made || budget_of(members).is_some_and(|budget| has_room(budget)) => {
                    // A partition has made room, here or before this one's turn.
                    match shared.upgrade() {
                        Some(shared) => {
                            shared.request_in(&over, Request { program, arguments, ticket, interrupt });
                            return Ok(None);
                        }
                        None => Err(Error::internal("a transaction of an engine that is gone")),
                    }
                }
                Ok(_) => {
                    if let (Some(shared), Some(budget)) = (shared.upgrade(), budget_of(members)) {
                        shared.no_room_at.store(budget.used(), Ordering::Relaxed);
                    }
                    Err(full)
                }
                // It says why memory stays full.
                Err(error) => Err(error),
            };
            Ok(ticket.answer(answer))
        });
        if self.over(&self.all(), job, heap_bytes, Admission::Again).is_none()
            && let Some(ticket) = ticket.lock().take()
        {
            ticket.refuse(refusal);
        }
    }

    /// Puts a request that had left its queue into those of its partitions again.
    fn request_in(self: &Arc<Self>, partitions: &[u32], request: Request<P>) {
        let [only] = partitions else { return self.request_over(partitions, request) };
        let refused = match self.queues.get(*only as usize) {
            Some(queue) => queue.push_back_again(Item::One(request)),
            None => Some(Item::One(request)),
        };
        if let Some(Item::One(request)) = refused {
            request.ticket.refuse(self.refusal());
        }
    }
}
