//! A transaction on its way to its partition.

use std::sync::Arc;

use thermocline_machine::interrupt::Interrupt;
use thermocline_tables::table::HeapSize;
use thermocline_types::Value;

use super::mailbox::Ticket;
use super::program::Program;

/// A transaction requested by a client.
pub struct Request<P: Program + ?Sized> {
    pub program: Arc<P>,
    pub arguments: Box<[Value]>,
    pub ticket: Ticket<P::Outcome>,
    /// Its interrupt; `None` if it cannot be stopped.
    pub interrupt: Option<Arc<Interrupt>>,
}

impl<P: Program + ?Sized> HeapSize for Request<P> {
    fn heap_bytes(&self) -> usize {
        self.arguments.iter().map(|value| size_of::<Value>() + value.heap_bytes()).sum()
    }
}
