//! Snapshots of a node, in the steps of the snapshot thread.

use std::sync::Arc;
use std::time::Duration;

use thermocline_durability::blocks::BlockFiles;
use thermocline_durability::disk::SimulatedDisk;
use thermocline_durability::snapshot::{self, Barrier, Taking};
use thermocline_machine::ids::{Identity, PartitionId};
use thermocline_machine::random::Random;
use thermocline_machine::{Machine, Receiver, Step};
use thermocline_transactions::database::{Work, start_barrier};
use thermocline_transactions::engine::Exclusive;
use thermocline_types::{Error, Result};

use super::world::World;

/// Bytes of rows that may wait for the disk.
const MEMORY_BYTES: usize = 1 << 16;

/// Interval at which copied rows are written while the thread waits for a partition.
const WRITE_EVERY: Duration = Duration::from_millis(2);

/// Takes snapshots, one after the other.
pub struct Snapshots {
    disk: SimulatedDisk,
    files: Arc<BlockFiles>,
    identity: Identity,
    /// Whether snapshots copy rows without earlier images, which is a planted bug.
    no_pre_images: bool,
    state: State,
    /// Snapshots completed.
    pub taken: u64,
}

enum State {
    Idle,
    Barrier(Exclusive<Work, Barrier>),
    Copy(Taking, Option<(PartitionId, Receiver<Result<snapshot::Step>>)>),
    Durable(Taking),
}

impl Snapshots {
    pub const fn new(disk: SimulatedDisk, files: Arc<BlockFiles>, identity: Identity, no_pre_images: bool) -> Self {
        Self { disk, files, identity, no_pre_images, state: State::Idle, taken: 0 }
    }

    /// Whether no snapshot is in progress.
    pub const fn rests(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Takes a step. A failed snapshot is abandoned, and tried again some time later.
    pub fn step(&mut self, world: &World, random: &mut Random) -> Step<()> {
        match self.next(world, random) {
            Ok(step) => step,
            Err(_) => {
                if let State::Copy(taking, _) | State::Durable(taking) = std::mem::replace(&mut self.state, State::Idle)
                {
                    // Its files are useless; the next snapshot removes those that cannot be removed now.
                    drop(taking.abandon());
                }
                Step::Go
            }
        }
    }

    fn next(&mut self, world: &World, random: &mut Random) -> Result<Step<()>> {
        match &mut self.state {
            State::Idle => {
                let barrier = start_barrier(&world.handle, &world.log, &world.catalog, MEMORY_BYTES)?;
                self.state = State::Barrier(barrier);
            }
            State::Barrier(barrier) => match barrier.step() {
                Step::Over(barrier) => {
                    let disk = Arc::new(self.disk.clone());
                    let begun = barrier.and_then(|barrier| Taking::begin(disk, self.identity, barrier, &self.files));
                    self.state = State::Idle;
                    for id in (0..self.identity.partitions).map(PartitionId).filter(|_| self.no_pre_images) {
                        drop(world.handle.start_visit(id, |member| member.partition.unwatch())?);
                    }
                    if let Some(taking) = begun? {
                        self.state = State::Copy(taking, None);
                    }
                }
                Step::Wait(wait) => return Ok(Step::Wait(wait)),
                Step::Go => {}
            },
            State::Copy(taking, visit @ None) => {
                let partitions: Vec<_> = (0..self.identity.partitions)
                    .map(PartitionId)
                    .filter_map(|id| Some((id, taking.copier(id)?)))
                    .collect();
                let Some((id, copier)) = random.pick(&partitions).map(|(id, copier)| (*id, Arc::clone(copier))) else {
                    let State::Copy(taking, _) = std::mem::replace(&mut self.state, State::Idle) else {
                        return Err(Error::internal("a snapshot that is not copied"));
                    };
                    self.state = State::Durable(taking);
                    return Ok(Step::Go);
                };
                let rows = 1 + u32::try_from(random.below(8)).unwrap_or(0);
                let step =
                    move |member: &mut thermocline_tables::partition::Member| copier.step(&mut member.partition, rows);
                *visit = Some((id, world.handle.start_visit(id, step)?));
            }
            State::Copy(taking, visit) => {
                let Some((id, receiver)) = visit else { return Ok(Step::Go) };
                match receiver.receive() {
                    // The partition may have to wait until its copied rows are written, from now on as well.
                    Step::Wait(wait) => {
                        let wait = wait.until(world.handle.clock().after(WRITE_EVERY));
                        return Ok(if taking.write_all()? > 0 { Step::Go } else { Step::Wait(wait) });
                    }
                    Step::Go => {}
                    Step::Over(step) => {
                        let (id, step) = (*id, step.ok_or_else(|| Error::internal("a partition that is gone"))??);
                        *visit = None;
                        taking.write(id, Some(step))?;
                    }
                }
            }
            State::Durable(taking) => match world.log.reach_durable(taking.position()) {
                Step::Wait(wait) => return Ok(Step::Wait(wait)),
                Step::Go => {}
                Step::Over(durable) => {
                    durable?;
                    let State::Durable(taking) = std::mem::replace(&mut self.state, State::Idle) else {
                        return Err(Error::internal("a snapshot that is not durable"));
                    };
                    let manifest = taking.complete(world.log.durable())?;
                    self.taken += 1;
                    world.log.remove_covered(manifest.position)?;
                }
            },
        }
        Ok(Step::Go)
    }
}
