//! One node: the machines of an engine, its log and its clients, stepped in any order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_durability::blocks::{BlockFiles, BlockWriter, BlockWrites};
use thermocline_durability::disk::SimulatedDisk;
use thermocline_durability::log::{Collector, Control, Keeper, LogEnd, LogExtent, LogSettings, Writer, start_log};
use thermocline_durability::recovery::{take_back_loads, taken_back};
use thermocline_machine::ids::{Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_machine::random::Random;
use thermocline_machine::{Clock, Machine, Step, Wait};
use thermocline_procedures::Definitions;
use thermocline_tables::partition::Member;
use thermocline_transactions::database::{Catalog, Work};
use thermocline_transactions::engine::{
    self, CommitWaiters, Fetcher, Handle, Journal, Options, Rendezvous, Tuning, WAITS_MAX, Worker, assemble,
};
use thermocline_types::{Error, Result};

use super::bug::{Bug, Planted};
use super::client::{Client, IDLE_MAX};
use super::snapshots::Snapshots;
use super::states::{Hashes, States, hashes, hashes_of};
use super::world::{Scene, World};

/// Few bytes, so that a session's transaction has several records.
const PART_BYTES: usize = 60;
/// Steps of the node between two evictions, on average.
const EVICT_EVERY: u32 = 10;
/// Requests that wait for a partition at most when it is to evict rows as well.
const QUEUED_MAX: usize = 20;
/// Steps in which everybody only waits, after which the node counts as stuck.
const STUCK_AFTER: u32 = 2000;

/// A participant that is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Partition(usize),
    Keeper,
    Fetcher,
    BlockWriter,
    Snapshots,
    Client(usize),
}

/// Schedule of a participant.
struct Turn {
    who: Who,
    /// Event that it waits for; `None` if it can go on.
    wait: Option<Wait>,
    is_over: bool,
    /// How often its turn comes, relative to others.
    weight: u64,
}

/// Progress of shutting down a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Open,
    /// Partitions run their queues to the end.
    Engine,
    /// The log writes its waiting records.
    Log,
}

/// A running node.
pub struct Node {
    pub world: World,
    disk: SimulatedDisk,
    commit_waiters: Arc<CommitWaiters<<Work as engine::Program>::Outcome>>,
    workers: Vec<Worker<Work>>,
    keeper: Keeper,
    fetcher: Fetcher<Work>,
    block_writer: BlockWriter,
    writes: Arc<BlockWrites>,
    pub snapshots: Snapshots,
    clients: Vec<Client>,
    turns: Vec<Turn>,
    states: States,
    /// Last record of any participant when each partition last ran a transaction over several.
    read: Vec<Sequence>,
    schema_version: u64,
    /// Rendezvous in the order in which each partition came to them.
    all_rendezvous: Vec<Vec<Arc<Rendezvous>>>,
    /// Steps since any participant made progress.
    idle_steps: u32,
    closing: Closing,
    bug: Option<Bug>,
    /// Records of transactions given to the log.
    pub commits: u64,
    /// Transactions of sessions with several records.
    pub commits_in_parts: u64,
    /// Definitions given to the log.
    pub definitions: u64,
    /// Loads that recovery found unfinished.
    pub loads_cut_short: u64,
    /// Rows that went to blocks.
    evicted: Arc<AtomicU64>,
}

/// Initial state of a node.
pub struct Start {
    pub disk: SimulatedDisk,
    pub identity: Identity,
    pub members: Vec<Member>,
    /// Blocks of evicted rows on their way to the disk.
    pub writes: Arc<BlockWrites>,
    pub files: Arc<BlockFiles>,
    pub definitions: Definitions,
    /// Its earlier states.
    pub states: States,
    pub end: LogEnd,
    pub transaction: TransactionId,
    pub timestamp: Micros,
    pub settings: LogSettings,
    pub queue_length: usize,
    pub results_bytes_max: usize,
    pub clients: usize,
    pub bug: Option<Bug>,
}

impl Node {
    /// Starts the machines that threads of [`RowEngine::open`](thermocline_transactions::database::RowEngine::open)
    /// drive.
    pub fn start(start: Start, random: &mut Random) -> Result<Self> {
        let Start {
            disk,
            identity,
            mut members,
            writes,
            files,
            definitions,
            mut states,
            end,
            transaction,
            timestamp,
            settings,
            bug,
            ..
        } = start;
        if Control::read(&disk)?.is_none() {
            Control { identity, log: LogExtent::NotBegun }.write(&disk)?;
        }
        let clock = Clock::simulated(Micros(0));
        let budget = members.first().map(|member| Arc::clone(member.partition.budget()));
        let budget = budget.ok_or_else(|| Error::internal("a node without partitions"))?;
        let synchronous = settings.synchronous_commit;
        let (segment_bytes, room_bytes) = (settings.segment_bytes, settings.room_bytes);
        let collector = Collector::new(settings, end.next);
        let durable = collector.durable();
        let writer = Writer::new(Arc::new(disk.clone()), identity, segment_bytes, end).with_room(room_bytes);
        let commit_waiters = CommitWaiters::new(members.len());
        let released = Arc::clone(&commit_waiters);
        let on_released = Box::new(move |sequence| released.released(sequence));
        let (log, keeper) = start_log(collector, writer, Arc::clone(&budget), clock.clone(), on_released);
        commit_waiters.released(Ok(log.released()));
        for (number, member) in members.iter().enumerate() {
            states.add(number, durable, hashes_of(member)?);
        }
        states.add_schema(durable, definitions.schema.to_sql());
        let unfinished = take_back_loads(&mut members)?;
        let mut ended = taken_back(&unfinished, transaction, timestamp)?;
        if !ended.is_empty() {
            log.append(&mut ended)?;
            for (number, member) in members.iter().enumerate() {
                states.add_unseen(number, log.appended(), hashes_of(member)?);
            }
        }
        let time = clock.clone();
        let options = Options {
            queue_length: start.queue_length,
            results_bytes_max: start.results_bytes_max,
            idle_max: IDLE_MAX,
            first_transaction: TransactionId(transaction.0 + 1),
            seed: random.next(),
            waits_max: if random.one_in(3) { 0 } else { WAITS_MAX },
            clock: Box::new(move || Micros(timestamp.0.saturating_add(time.now().0))),
        };
        let (batch_items, build_rows) = (1 + random.index(6), if random.one_in(3) { 3 } else { 1 });
        let tuning = Tuning { clock: clock.clone(), batch_items, part_bytes: PART_BYTES, build_rows };
        let journal: Arc<dyn Journal> = Arc::new(Planted { log: log.clone(), bug });
        let (shared, workers) = assemble(options, tuning, members, journal, Arc::clone(&commit_waiters))?;
        let (schema_version, catalog) = (definitions.version, Arc::new(Catalog::new(definitions)));
        let handle = Handle::new(Arc::clone(&shared));
        let shared_of_fetcher = Arc::clone(&shared);
        let world = World { catalog, budget, shared, handle, log, clock, synchronous, prepared: Mutex::default() };
        let clients: Vec<_> = (0..start.clients).map(|number| Client::new(number, &world)).collect();
        let everybody =
            (0..workers.len()).map(Who::Partition).chain([Who::Keeper, Who::Fetcher, Who::BlockWriter, Who::Snapshots]);
        let turns = everybody.chain((0..clients.len()).map(Who::Client)).map(|who| {
            // Some participants are slow.
            let weight = if random.one_in(4) { 1 } else { 4 + random.below(12) };
            Turn { who, wait: None, is_over: false, weight }
        });
        Ok(Self {
            turns: turns.collect(),
            snapshots: Snapshots::new(disk.clone(), files, identity, bug == Some(Bug::NoPreImages)),
            all_rendezvous: workers.iter().map(|_| Vec::new()).collect(),
            read: vec![Sequence::ZERO; workers.len()],
            world,
            disk,
            commit_waiters,
            workers,
            keeper,
            fetcher: Fetcher::new(shared_of_fetcher),
            block_writer: BlockWriter::new(&writes),
            writes,
            clients,
            states,
            schema_version,
            idle_steps: 0,
            closing: Closing::Open,
            bug,
            commits: 0,
            commits_in_parts: 0,
            definitions: 0,
            loads_cut_short: unfinished.len() as u64,
            evicted: Arc::default(),
        })
    }

    /// Whether every request has been answered.
    pub fn rests(&self, scene: &Scene) -> bool {
        scene.first.is_empty() && self.clients.iter().all(Client::rests) && self.snapshots.rests()
    }

    /// Ends the engine once its queues are empty, and then its log.
    pub fn close(&mut self) {
        self.closing = Closing::Engine;
        self.world.shared.stop(Error::Cancelled("the database is closed".into()));
    }

    /// Whether partitions, the log and all requests have ended.
    pub fn is_closed(&self) -> bool {
        let are_over =
            self.turns.iter().all(|turn| turn.is_over || !matches!(turn.who, Who::Partition(_) | Who::Keeper));
        are_over && self.clients.iter().all(Client::rests) && self.snapshots.rests()
    }

    fn workers_are_over(&self) -> bool {
        self.turns.iter().all(|turn| turn.is_over || !matches!(turn.who, Who::Partition(_)))
    }

    /// Steps a participant that can go on; an error is a violation.
    pub fn step(&mut self, scene: &mut Scene) -> Result<(), String> {
        scene.now += 1;
        if scene.random.one_in(4) {
            self.world.clock.advance(u32::try_from(scene.random.below(200)).unwrap_or(0));
        }
        let Some(place) = self.pick(scene)? else { return Ok(()) };
        let Some(who) = self.turns.get(place).map(|turn| turn.who) else { return Ok(()) };
        let step = match who {
            Who::Partition(number) => self.partition(number, scene)?,
            Who::Keeper => self.keeper.step(),
            Who::Fetcher => self.fetcher.step(),
            Who::BlockWriter => self.block_writer.step(),
            Who::Snapshots => self.snapshots.step(&self.world, &mut scene.random),
            Who::Client(number) => self.client(number, scene)?,
        };
        let idle = matches!(who, Who::Client(number) if self.clients.get(number).is_some_and(Client::rests));
        self.idle_steps = if matches!(step, Step::Wait(_)) && !idle { self.idle_steps + 1 } else { 0 };
        if let Some(turn) = self.turns.get_mut(place) {
            turn.is_over = matches!(step, Step::Over(_));
            turn.wait = if let Step::Wait(wait) = step { Some(wait) } else { None };
        }
        if self.closing == Closing::Engine && self.workers_are_over() {
            self.closing = Closing::Log;
            self.world.shared.fetches.close();
            self.world.log.close();
        }
        self.check_released()?;
        if scene.random.one_in(EVICT_EVERY) {
            self.evict(&mut scene.random);
        }
        if self.bug == Some(Bug::SwappedOrder) && scene.random.one_in(4) {
            super::bug::swap_rendezvous(&self.world.shared, &mut scene.random);
        }
        Ok(())
    }

    /// Evicts some rows of a partition when its turn comes, however much memory there is.
    fn evict(&self, random: &mut Random) {
        let (number, bytes) = (random.index(self.workers.len()), 1 + random.index(2000));
        let Ok(number) = u16::try_from(number) else { return };
        // A slow partition would get more of them than it has turns for.
        if self.world.shared.queued(PartitionId(number)) >= QUEUED_MAX {
            return;
        }
        let evicted = Arc::clone(&self.evicted);
        // The disk may be full, and the engine may have stopped.
        let _visit = self.world.handle.start_visit(PartitionId(number), move |member| {
            let rows = member.partition.evict(bytes, usize::MAX).unwrap_or(0);
            evicted.fetch_add(rows as u64, Ordering::Relaxed);
        });
    }

    /// Rows that went to blocks.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// A participant whose wait is over; moves the clock if everybody waits for time.
    fn pick(&mut self, scene: &mut Scene) -> Result<Option<usize>, String> {
        let now = self.world.clock.now();
        let mut able = Vec::new();
        for (place, turn) in self.turns.iter_mut().enumerate().filter(|(_, turn)| !turn.is_over) {
            let (rests, begins) = match turn.who {
                Who::Client(number) => {
                    let begins = if scene.first.is_empty() { !scene.stopping } else { number == 0 };
                    (self.clients.get(number).is_none_or(Client::rests), begins)
                }
                Who::Snapshots => {
                    let begins = scene.first.is_empty() && !scene.stopping && scene.random.one_in(40);
                    (self.snapshots.rests(), begins)
                }
                Who::Fetcher => (self.world.shared.fetches.is_empty(), false),
                Who::BlockWriter => (self.writes.is_empty(), false),
                Who::Partition(_) | Who::Keeper => (false, false),
            };
            if rests {
                if begins {
                    able.push((place, turn.weight));
                }
                continue;
            }
            if let Some(wait) = &mut turn.wait {
                if !wait.is_over(now) {
                    continue;
                }
                // Only events can be missed, not times.
                let event = wait.deadline().is_none_or(|deadline| deadline > now);
                if self.bug == Some(Bug::LostWakeUp) && event && scene.random.one_in(30) {
                    wait.miss();
                    continue;
                }
            }
            able.push((place, turn.weight));
        }
        let total = able.iter().map(|(_, weight)| weight).sum();
        let mut at = scene.random.below(total);
        for (place, weight) in able {
            if at < weight {
                return if self.idle_steps > STUCK_AFTER { Err(self.stuck()) } else { Ok(Some(place)) };
            }
            at -= weight;
        }
        let waits = self.turns.iter().filter(|turn| !turn.is_over).filter_map(|turn| turn.wait.as_ref());
        let Some(next) = waits.filter_map(Wait::deadline).filter(|at| *at > now).min() else {
            return Err(self.stuck());
        };
        self.world.clock.advance(u32::try_from(next.0 - now.0).unwrap_or(u32::MAX));
        Ok(None)
    }

    fn stuck(&self) -> String {
        let waiting = self.turns.iter().filter(|turn| !turn.is_over && turn.wait.is_some());
        format!("nobody can go on: {:?} wait", waiting.map(|turn| turn.who).collect::<Vec<_>>())
    }

    fn partition(&mut self, number: usize, scene: &mut Scene) -> Result<Step<()>, String> {
        let Some(worker) = self.workers.get_mut(number) else { return Ok(Step::Over(())) };
        let before = self.world.log.appended();
        let appending = worker.appending();
        let hashes = hashes(appending.unwrap_or_default())?;
        let met: Vec<_> =
            appending.unwrap_or_default().iter().map(|member| usize::from(member.partition.id().0)).collect();
        let loads: BTreeSet<_> = appending.iter().copied().flatten().flat_map(|of| of.partition.loads()).collect();
        let is_over_all = met.len() == self.all_rendezvous.len();
        if let Some(read) = self.read.get_mut(number).filter(|_| appending.is_some()) {
            *read = met.iter().map(|number| self.states.last(*number)).fold(*read, Sequence::max);
        }
        let needs = self.read.get(number).map_or(Sequence::ZERO, |read| self.states.last(number).max(*read));
        scene.needs.extend(worker.holding().map(|tag| (tag, needs)));
        let step = worker.step().map(|_| ());
        if let Some(rendezvous) = worker.rendezvous()
            && let Some(list) = self.all_rendezvous.get_mut(number)
            && !list.last().is_some_and(|last| Arc::ptr_eq(last, rendezvous))
        {
            list.push(Arc::clone(rendezvous));
        }
        let after = self.world.log.appended();
        if after > before {
            if is_over_all {
                self.clients.iter_mut().for_each(|client| client.loads_left(after, &loads));
            }
            self.appended(before, after, met.into_iter().zip(hashes));
            if self.bug == Some(Bug::ReleasedBeforeSync) {
                self.commit_waiters.released(Ok(after));
            }
        }
        Ok(step)
    }

    fn client(&mut self, number: usize, scene: &mut Scene) -> Result<Step<()>, String> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(Step::Over(())) };
        let before = self.world.log.appended();
        let appending = client.appending();
        let hashes = hashes(appending)?;
        let met: Vec<_> = appending.iter().map(|member| usize::from(member.partition.id().0)).collect();
        scene.last = (0..self.workers.len()).map(|number| self.states.last(number)).collect();
        let step = client.step(&self.world, scene)?;
        let after = self.world.log.appended();
        if after > before {
            client.needs = after;
            self.commits_in_parts += u64::from(after.0 > before.0 + 1);
            self.appended(before, after, met.into_iter().zip(hashes));
        }
        Ok(step)
    }

    /// Notes the state that records lead to.
    fn appended(&mut self, before: Sequence, after: Sequence, states: impl Iterator<Item = (usize, Hashes)>) {
        self.commits += after.0 - before.0;
        for (number, hashes) in states {
            self.states.add(number, after, hashes);
        }
        let version = self.world.catalog.version();
        if version != self.schema_version {
            self.schema_version = version;
            self.definitions += 1;
            self.states.add_schema(after, self.world.catalog.current().schema.to_sql());
            self.clients.iter_mut().for_each(|client| client.defined(after));
        }
    }

    /// Checks that nothing is released before it is durable.
    fn check_released(&self) -> Result<(), String> {
        let (released, durable) = (self.commit_waiters.sequence(), self.world.log.durable());
        if self.world.synchronous && released > durable {
            return Err(format!("results up to record {released} are told, and the log is durable up to {durable}"));
        }
        Ok(())
    }

    /// Transactions that ran again because they needed a partition that they did not have.
    pub fn restarts(&self) -> u64 {
        self.world.shared.restarts.load(Ordering::Relaxed)
    }

    /// Defects of the state in memory.
    pub fn check(&self) -> Result<(), String> {
        self.workers
            .iter()
            .filter_map(Worker::member)
            .try_for_each(|member| member.partition.check())
            .map_err(|error| error.to_string())
    }

    /// Checks that all partitions came to their shared rendezvous in the same order.
    pub fn check_order(&self) -> Result<(), String> {
        let place = |list: &[Arc<Rendezvous>], rendezvous: &Arc<Rendezvous>| {
            list.iter().position(|of| Arc::ptr_eq(of, rendezvous))
        };
        for (number, list) in self.all_rendezvous.iter().enumerate() {
            for (other_number, other) in self.all_rendezvous.iter().enumerate().skip(number + 1) {
                let shared: Vec<_> = list.iter().filter_map(|rendezvous| place(other, rendezvous)).collect();
                if !shared.is_sorted() {
                    return Err(format!("partitions {number} and {other_number} have met others in different orders"));
                }
            }
        }
        Ok(())
    }

    /// Ends the process and everything in memory; only the record of its states remains.
    pub fn end(self, scene: &mut Scene) -> States {
        for client in self.clients {
            client.vanish(scene);
        }
        scene.needs.clear();
        self.states
    }

    /// Whether the disk of the node has stopped it.
    pub fn has_crashed(&self) -> bool {
        self.disk.crashed()
    }
}
