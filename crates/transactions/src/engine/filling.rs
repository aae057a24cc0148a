//! Filling of indexes and columns in all partitions, in steps between transactions.

use std::sync::Arc;

use thermocline_machine::ids::PartitionId;
use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{EventCount, Machine, Receiver, Step, Wait, slot_of};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{BlocksReader, Build, BuildStep, ReadBlock};
use thermocline_types::Result;

use super::executor;
use super::handle::Handle;
use super::program::Program;

/// Fills an index, or rows with another column, in all partitions in parallel, each in steps between its transactions.
///
/// ```text
///               a visit to the partition
///  Asks --------------------------------------> Asked
///    ^                                            |
///    +-------------- there is more ---------------+---- all rows are met ----> Filled
/// ```
///
/// Blocks of evicted rows are read between two visits, while the partition runs others.
///
/// A partition has at most one visit in its queue, and requests before the next visit run before it: a partition is
/// held for only one step at a time, whatever the size of the table.
pub struct Filling<P: Program + ?Sized> {
    handle: Handle<P>,
    table: TableId,
    rows: u32,
    build: Arc<Build>,
    interrupt: Option<Arc<Interrupt>>,
    /// Advances when a step is over.
    stepped: Arc<EventCount>,
    partitions: Vec<Part>,
}

/// Progress of one partition.
enum Part {
    /// With blocks that were read for the next step.
    Asks(Vec<ReadBlock>),
    Asked(Receiver<Result<(BuildStep, Option<BlocksReader>)>>),
    Filled,
}

impl<P: Program + ?Sized> Filling<P> {
    pub(super) fn new(
        handle: Handle<P>,
        (table, rows): (TableId, u32),
        build: &Arc<Build>,
        interrupt: Option<&Arc<Interrupt>>,
    ) -> Self {
        let partitions = (0..handle.partitions()).map(|_| Part::Asks(Vec::new())).collect();
        let (build, interrupt) = (Arc::clone(build), interrupt.map(Arc::clone));
        Self { handle, table, rows, build, interrupt, stepped: EventCount::new(), partitions }
    }

    /// Checks for the end of a step, and requests the next. Returns whether anything was done.
    fn go_on(&mut self, number: u16) -> Result<bool> {
        let Some(part) = self.partitions.get_mut(usize::from(number)) else { return Ok(false) };
        match part {
            Part::Filled => return Ok(false),
            Part::Asks(read) => {
                let read = std::mem::take(read);
                let (table, rows, build) = (self.table, self.rows, Arc::clone(&self.build));
                let place = slot_of(&self.stepped);
                let step = self.handle.start_visit_in(place, PartitionId(number), move |member| {
                    // A step that finds no memory cannot be repeated.
                    while executor::make_room(std::slice::from_mut(member))? {}
                    member.partition.build_step(table, (&build, rows), read)
                })?;
                *part = Part::Asked(step);
            }
            Part::Asked(step) => match step.receive() {
                Step::Over(Some(Ok((BuildStep::More, reads)))) => {
                    *part = Part::Asks(reads.map(|read| read()).unwrap_or_default());
                }
                Step::Over(Some(Ok((BuildStep::Done, _)))) => *part = Part::Filled,
                Step::Over(Some(Err(error))) => return Err(error),
                Step::Over(None) => return Err(self.handle.refusal()),
                Step::Go | Step::Wait(_) => return Ok(false),
            },
        }
        Ok(true)
    }
}

impl<P: Program + ?Sized> Machine for Filling<P> {
    type Output = Result<()>;

    fn step(&mut self) -> Step<Result<()>> {
        if let Some(Err(stopped)) = self.interrupt.as_ref().map(|interrupt| interrupt.check()) {
            return Step::Over(Err(stopped));
        }
        let seen = self.stepped.seen();
        let mut did = false;
        for number in 0..self.partitions.len() {
            match u16::try_from(number).map_or(Ok(false), |number| self.go_on(number)) {
                Ok(done) => did |= done,
                Err(error) => return Step::Over(Err(error)),
            }
        }
        if did {
            return Step::Go;
        }
        if self.partitions.iter().all(|part| matches!(part, Part::Filled)) {
            return Step::Over(Ok(()));
        }
        let wait = Wait::new(&self.stepped, seen);
        Step::Wait(match self.interrupt {
            Some(_) => wait.until(self.handle.clock().after(POLL_INTERVAL)),
            None => wait,
        })
    }
}
