//! One seed: rounds of work, crash and recovery.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use thermocline_durability::blocks::{
    BlockFiles, BlockStoreSettings, BlockWrites, FillFactor, Merge, SamplingRate, Victims,
};
use thermocline_durability::check::check;
use thermocline_durability::disk::{Crash, Disk, Faults, SimulatedDisk};
use thermocline_durability::log::LogSettings;
use thermocline_durability::recovery::{Plan, ReadOnly, Rebuild, Recovered, recover};
use thermocline_machine::ids::{DatabaseId, Identity, LoadId, Micros, Sequence, TransactionId};
use thermocline_machine::random::Random;
use thermocline_procedures::{Definitions, Limits};
use thermocline_statements::define;
use thermocline_tables::partition::{self, Member};
use thermocline_tables::schema::Schema;
use thermocline_tables::table::Budget;
use thermocline_transactions::database::{Replayer, RowEngine};
use thermocline_types::{Error, Result, ValueRef};

use super::bug::Bug;
use super::checker;
use super::counts::{Counts, FAILURES};
use super::history::{Outcome, Step, Transaction};
use super::node::{Node, Start};
use super::procedure::registrations;
use super::states::{States, hashes};
use super::workload::{DEFINITIONS, LOADED, Loaded, list};
use super::world::Scene;

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the crash and recovery, from 0.
    pub round: u32,
    /// The violation, in words.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, round {}: {}", self.seed, self.round, self.message)
    }
}

/// Maximum rounds of a run.
const ROUNDS: u32 = 4;
/// Maximum steps of the scheduler in a round, before clients begin nothing more.
const STEPS: u64 = 900;
/// Steps after the log has failed, before clients begin nothing more.
const STEPS_FAILED: u64 = 100;
/// Maximum steps until every request is answered.
const STEPS_TO_END: u64 = 60_000;
/// Limits of a transaction: low enough to stop some.
const LIMITS: Limits = Limits { rows_max: 120, instructions_max: 20_000, lua_bytes_max: 1 << 20 };

/// A run.
pub struct Simulation {
    seed: u64,
    random: Random,
    disk: SimulatedDisk,
    bug: Option<Bug>,
    /// Value that a procedure writes with [`Bug::NotDeterministic`].
    noise: Arc<AtomicI64>,
    /// I/O of the first round's work at which the process ends; `None` for a random one, or none.
    crash_at: Option<u64>,
    settings: LogSettings,
    identity: Identity,
    scene: Scene,
    /// States of the database up to the last recovery.
    states: States,
    counts: Counts,
    /// Whether a bit was flipped, which may be found at any later time.
    bit_flipped: bool,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("seed", &self.seed).field("bug", &self.bug).finish_non_exhaustive()
    }
}

/// Result of a recovery.
struct State {
    members: Vec<Member>,
    writes: Arc<BlockWrites>,
    files: Arc<BlockFiles>,
    definitions: Definitions,
    recovered: Recovered,
}

impl State {
    /// Its last record.
    const fn last(&self) -> Sequence {
        Sequence(self.recovered.end.next.0 - 1)
    }
}

/// Expectation of the next recovery.
struct Expected {
    /// Highest sequence that the log reports durable or, if commits wait for that, that clients were told of.
    least: Sequence,
    most: Sequence,
    states: States,
}

impl Simulation {
    /// The run of this seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new(random.next(), Faults::default());
        let settings = LogSettings {
            commit_interval_us: 1 + u32::try_from(random.below(300)).unwrap_or(0),
            commit_bytes: 200 + random.index(4000),
            buffer_bytes_max: if random.one_in(3) { 600 } else { 1 << 16 },
            segment_bytes: 500 + random.below(8000),
            room_bytes: random.below(2) * random.below(6000),
            synchronous_commit: !random.one_in(8),
        };
        let partitions = 1 + u16::try_from(random.below(3)).unwrap_or(0);
        let identity = Identity { database: DatabaseId(u128::from(seed)), partitions };
        let (counts, scene) = (Counts { seeds: 1, ..Counts::default() }, Scene::new(random.fork()));
        let (bug, crash_at, bit_flipped, noise) = (None, None, false, Arc::default());
        let states = States::new(partitions);
        Self { seed, random, disk, bug, noise, crash_at, settings, identity, scene, states, counts, bit_flipped }
    }

    /// Plants an error.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self.settings.synchronous_commit = true;
        self
    }

    /// Places the crash of the first round's work in the middle of this I/O, without other faults during it.
    #[must_use]
    pub const fn with_crash_at(mut self, operation: u64) -> Self {
        self.crash_at = Some(operation);
        self
    }

    /// Runs to the end or the first failure.
    pub fn run(mut self) -> Result<Counts, Failure> {
        let mut state = None;
        for round in 0..ROUNDS {
            let mut result = self.round(state.take());
            if round + 1 == ROUNDS || matches!(result, Ok(None)) {
                result = result.and_then(|state| self.check_history().map(|()| state));
            }
            match result {
                Ok(Some(next)) => state = Some(next),
                Ok(None) => break,
                Err(message) => return Err(Failure { seed: self.seed, round, message }),
            }
        }
        self.count_ends();
        self.counts.faults.add(&self.disk.counts());
        Ok(self.counts)
    }

    /// Runs work, crash and recovery; `None` if the run ends.
    fn round(&mut self, state: Option<State>) -> Result<Option<State>, String> {
        let state = match state {
            Some(state) => state,
            None => match self.recover()? {
                Some(state) => state,
                None => return Ok(None),
            },
        };
        let crash_at = self.crash_at.take();
        let node = self.start(state).map_err(|error| error.to_string())?;
        if crash_at.is_none() {
            let rarely = |random: &mut Random, n: u32| if random.one_in(3) { n } else { 0 };
            let (sync, full) = (rarely(&mut self.random, 60), rarely(&mut self.random, 60));
            self.disk.set_faults(Faults { sync, full, read: 0 });
        }
        let crash_at = crash_at.or_else(|| (!self.random.one_in(4)).then(|| self.random.below(160)));
        self.disk.crash_after(crash_at);
        let expected = self.work(node)?;
        let Some(state) = self.recover()? else { return Ok(None) };
        if self.bit_flipped && has_damaged_block(&state)? {
            self.counts.damage_found += 1;
            return Ok(None);
        }
        Self::verify(&state, &expected)?;
        if state.recovered.read_only.is_some() {
            return self.restore(&state, &expected.states).map(|()| None);
        }
        self.states = expected.states.up_to(state.last());
        self.read(&state)?;
        Ok(Some(state))
    }

    fn start(&mut self, state: State) -> Result<Node> {
        let State { mut members, writes, files, definitions, recovered } = state;
        let random = &mut self.random;
        for member in &mut members {
            let budget = Arc::clone(member.partition.budget());
            let undo_bytes_max = if random.one_in(3) { 4000 } else { 1 << 20 };
            member.transaction = partition::Transaction::charged(partition::Head::default(), undo_bytes_max, budget);
        }
        if let Some(member) = members.first() {
            let budget = member.partition.budget();
            // Existing rows stay; the limit applies to new ones.
            let room = 300_000 + random.below(1 << 20);
            budget.set_limit(budget.used() + room, room / 16);
        }
        let missing = |sql: &&&str| define(&definitions.schema, sql).is_ok();
        self.scene.first = DEFINITIONS.iter().filter(missing).copied().collect();
        self.scene.stopping = false;
        let start = Start {
            disk: self.disk.clone(),
            identity: self.identity,
            members,
            writes,
            files,
            definitions,
            states: self.states.clone(),
            end: recovered.end,
            transaction: recovered.transaction,
            timestamp: recovered.timestamp,
            settings: self.settings.clone(),
            queue_length: if random.one_in(6) { 2 } else { 100 },
            results_bytes_max: if random.one_in(4) { 300 } else { 1 << 20 },
            clients: 2 + random.index(5),
            bug: self.bug,
        };
        Node::start(start, random)
    }

    /// Steps in any order until something ends the process.
    fn work(&mut self, mut node: Node) -> Result<Expected, String> {
        let mut steps = self.random.below(STEPS);
        // Sometimes the node is closed while clients wait for answers.
        let closes_busy = self.random.one_in(6);
        for step in 0..STEPS + STEPS_TO_END {
            if node.world.log.check().is_err() {
                // From here on, every request fails because nothing runs.
                steps = steps.min(step + STEPS_FAILED);
            }
            self.scene.stopping = step >= steps;
            if self.scene.stopping && (closes_busy || node.rests(&self.scene)) {
                break;
            }
            if step + 1 == STEPS + STEPS_TO_END {
                return Err("what was asked for is not answered".into());
            }
            node.step(&mut self.scene)?;
            self.counts.steps += 1;
            // Not every step needs the result of its I/O, such as making room in the log.
            if node.has_crashed() {
                break;
            }
            if self.random.one_in(200) {
                node.check()?;
            }
            // Sometimes the process is killed, but not while it is closing.
            if step < steps && self.random.one_in(2000) {
                break;
            }
        }
        if !node.has_crashed() && self.scene.stopping && (closes_busy || self.random.one_in(2)) {
            self.close(&mut node)?;
        }
        node.check_order()?;
        self.counts.commits += node.commits;
        self.counts.commits_in_parts += node.commits_in_parts;
        self.counts.definitions += node.definitions;
        self.counts.loads_cut_short += node.loads_cut_short;
        self.counts.snapshots += node.snapshots.taken;
        self.counts.restarts += node.restarts();
        self.counts.evicted += node.evicted();
        let durable = node.world.log.durable();
        let most = node.world.log.appended();
        let least = if self.settings.synchronous_commit { durable.max(self.scene.told) } else { durable };
        self.restart();
        if self.random.one_in(20) && self.bug.is_none() && self.disk.flip_bit().is_some() {
            self.bit_flipped = true;
        }
        Ok(Expected { least, most, states: node.end(&mut self.scene) })
    }

    /// Ends the engine, then its log; every request is answered.
    fn close(&mut self, node: &mut Node) -> Result<(), String> {
        self.scene.stopping = true;
        self.scene.first.clear();
        node.close();
        for _ in 0..STEPS_TO_END {
            if node.is_closed() {
                return Ok(());
            }
            node.step(&mut self.scene)?;
            self.counts.steps += 1;
            if node.has_crashed() {
                return Ok(());
            }
        }
        Err("the node does not end".into())
    }

    fn restart(&mut self) {
        self.disk.restart(if self.random.one_in(3) { Crash::Process } else { Crash::Power });
        self.disk.set_faults(Faults::default());
    }

    /// Recovers, perhaps after interrupted attempts; `None` if the database is refused because of a flipped bit.
    fn recover(&mut self) -> Result<Option<State>, String> {
        for attempt in 0.. {
            if attempt < 3 && self.random.one_in(2) {
                self.disk.crash_after(Some(self.random.below(12)));
                let read = if self.random.one_in(4) { 10 } else { 0 };
                self.disk.set_faults(Faults { read, sync: 30, full: 30 });
            }
            let result = self.attempt();
            let faults = self.disk.crashed();
            match result {
                // At the removal of a file that nobody needs.
                Ok(_) if faults => {
                    self.counts.recoveries_interrupted += 1;
                    self.restart();
                }
                Ok(State { recovered: Recovered { read_only: Some(read_only), .. }, .. })
                    if matches!(read_only.cause, Error::DiskFull(_)) =>
                {
                    self.counts.recoveries_interrupted += 1;
                    self.restart();
                }
                Ok(State { recovered: Recovered { read_only: Some(read_only), .. }, .. }) if !self.bit_flipped => {
                    return Err(format!("recovery: {read_only}"));
                }
                Ok(state) => {
                    self.check()?;
                    self.counts.recoveries += 1;
                    self.counts.recoveries_with_snapshot += u64::from(state.recovered.progress.rows_total > 0);
                    self.counts.tails_cut += u64::from(state.recovered.cut);
                    self.disk.set_faults(Faults::default());
                    self.disk.crash_after(None);
                    return Ok(Some(state));
                }
                Err(Error::Io(_) | Error::DiskFull(_)) if faults || attempt < 3 => {
                    self.counts.recoveries_interrupted += 1;
                    self.restart();
                }
                Err(Error::Corrupt(_) | Error::CannotOpen(_)) if self.bit_flipped => {
                    self.counts.damage_found += 1;
                    return Ok(None);
                }
                Err(error) => return Err(format!("recovery: {error}")),
            }
        }
        Ok(None)
    }

    /// Checks, after one of eight recoveries, that it leaves neither damage nor unfinished files.
    fn check(&self) -> Result<(), String> {
        if self.bit_flipped || self.bug.is_some() || !self.random.clone().one_in(8) {
            return Ok(());
        }
        self.disk.set_faults(Faults::default());
        let replayer = self.replayer().map_err(|error| error.to_string())?;
        let budget = Arc::new(Budget::unlimited());
        let rebuild =
            |_: &Plan, identity, _| Ok(Rebuild::new(identity, &budget, usize::MAX, 0, replayer).with_threads(1));
        let report = check(&self.disk, rebuild, &mut |_| {}).map_err(|error| error.to_string())?;
        if report.is_sound() && report.notes.is_empty() { Ok(()) } else { Err(format!("after recovery: {report}")) }
    }

    fn replayer(&self) -> Result<Replayer> {
        let noise = (self.bug == Some(Bug::NotDeterministic)).then_some(&self.noise);
        let procedures = Arc::new(registrations(noise)?.into_iter().map(Arc::new).collect());
        let budget = Arc::new(Budget::unlimited());
        Ok(Replayer::new(Definitions::new(Schema::default(), procedures, Limits::unlimited(), &budget)?))
    }

    /// As [`RowEngine::open`] does.
    fn attempt(&mut self) -> Result<State> {
        let (disk, placement) = (&self.disk, self.random.next());
        // Evicts nothing, or all it can.
        let budget = Arc::new(Budget::lenient(if self.random.one_in(2) { u64::MAX } else { 0 }, 0));
        let settings = BlockStoreSettings {
            segment_bytes: 1 << 12 << self.random.below(4),
            block_bytes: Some(1 << 8 << self.random.below(9)),
            fetching: None,
            merge: if self.random.one_in(3) { Merge::Block } else { Merge::Tuple },
            victims: if self.random.one_in(2) { Victims::Chain } else { Victims::Sampled },
            chain_sampling: if self.random.one_in(2) { SamplingRate::ALL } else { SamplingRate::default() },
            fill_factor: FillFactor::of_per_mille(100 + self.random.below(801) as u16).unwrap_or_default(),
        };
        let blocks: Arc<dyn Disk> = Arc::new(disk.clone());
        let writes = BlockWrites::with_limit(self.random.index(20_000));
        let mut files = None;
        let replay = |plan: &Plan| {
            let identity = plan.identity().unwrap_or(self.identity);
            let files = files.insert(plan.block_files(&blocks)?);
            // Faults follow the order of the disk's reads.
            let rebuild = Rebuild::new(identity, &budget, usize::MAX, placement, self.replayer()?).with_threads(1);
            Ok(rebuild.with_blocks(files, identity.database, settings, &writes))
        };
        let (rebuild, recovered) = match self.bug {
            Some(bug @ (Bug::TornTailNotCut | Bug::CacheTrusted)) => bug.recover(disk, replay)?,
            _ => recover(disk, replay, &mut |_| {})?,
        };
        let files = files.ok_or_else(|| Error::internal("a recovery without a state"))?;
        if recovered.read_only.is_none() {
            files.remove_left();
        }
        budget.set_limit(u64::MAX, 0);
        let (members, schema, replayer) = rebuild.into_parts();
        let definitions = replayer.into_definitions().with(schema, LIMITS);
        let definitions = definitions.refusing(recovered.read_only.as_ref().map(ReadOnly::refusal));
        let timestamp = recovered.timestamp.max(Micros(0));
        let transaction = recovered.transaction.max(TransactionId(1));
        Ok(State { members, writes, files, definitions, recovered: Recovered { timestamp, transaction, ..recovered } })
    }

    fn verify(state: &State, Expected { least, most, states }: &Expected) -> Result<(), String> {
        let last = state.last();
        if last < *least && state.recovered.read_only.is_none() {
            return Err(format!("clients were told up to {least}, or it was durable, and {last} is the last record"));
        }
        if last > *most {
            return Err(format!("{last} is the last record, and {most} was the last that ran"));
        }
        compare(state, states, |_| true)
    }

    /// Restores the state that a read-only database shows as a database of its own, which is writable.
    fn restore(&mut self, shown: &State, states: &States) -> Result<(), String> {
        if shown.definitions.check_writable().is_ok() {
            return Err("what is shown can be written".into());
        }
        self.counts.shown_read_only += 1;
        let into = SimulatedDisk::new(self.random.next(), Faults::default());
        let disk = Arc::new(into.clone());
        let from: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let restored = registrations(None)
            .and_then(|procedures| RowEngine::restore_until(&from, disk, procedures, shown.last(), &mut |_| {}));
        restored.map_err(|error| format!("restore --until {}: {error}", shown.last()))?;
        let disk = std::mem::replace(&mut self.disk, into);
        let state = self.attempt();
        self.disk = disk;
        let state = state.map_err(|error| format!("what was restored: {error}"))?;
        if state.last() != shown.last() || state.definitions.check_writable().is_err() {
            return Err(format!("{} is restored, and {} was shown", state.last(), shown.last()));
        }
        // A restored database does not contain unfinished loads.
        compare(&state, states, |load| load.is_none())
    }

    /// Reads everything after a recovery.
    fn read(&mut self, state: &State) -> Result<(), String> {
        let mut steps = Vec::new();
        let mut loaded = Loaded::default();
        for (number, member) in state.members.iter().enumerate() {
            for table in member.partition.tables() {
                let name = &*table.definition().name;
                for id in table.scan().filter(|_| number == 0 || table.definition().partition_by.is_some()) {
                    let visited = member.partition.visit(table.definition().id, id, &mut |row| {
                        if LOADED.contains(&name)
                            && let (ValueRef::Int(load), ValueRef::Int(total)) = (row.value(1), row.value(2))
                        {
                            loaded.add(load, total);
                        }
                        let ValueRef::Int(key) = row.value(0) else { return Ok(()) };
                        match (name, row.value(1)) {
                            ("lists", elements) => steps.push(Step::ReadList { key, list: list(elements) }),
                            ("registers" | "settings", ValueRef::Int(value)) => {
                                steps.push(Step::ReadRegister { key, value });
                            }
                            _ => {}
                        }
                        Ok(())
                    });
                    visited.map_err(|error| error.to_string())?;
                }
            }
        }
        steps.extend(self.scene.plans.seen_loads(None, loaded.steps()));
        self.scene.now += 1;
        let begin = self.scene.now;
        self.scene.now += 1;
        let end = self.scene.now;
        if self.settings.synchronous_commit {
            let client = usize::MAX;
            self.scene.history.push(Transaction { client, begin, end, outcome: Outcome::Committed, steps });
            return Ok(());
        }
        // Clients may have been told of transactions that are now lost, so a new history begins.
        self.check_history()?;
        self.scene.plans.next_era();
        Ok(())
    }

    /// Checks that the history is strictly serializable.
    fn check_history(&mut self) -> Result<(), String> {
        let history = std::mem::take(&mut self.scene.history);
        checker::check(&history).map_err(|anomaly| format!("{}", anomaly.describe(&history)))
    }

    fn count_ends(&mut self) {
        self.counts.built += self.scene.built;
        self.counts.loads += self.scene.loaded;
        self.counts.loads_taken_back += self.scene.taken_back;
        for (state, count) in &self.scene.ended {
            match state.as_str() {
                "00000" => self.counts.kept += count,
                "58030" | "53100" | "crashed" => self.counts.unknown += count,
                "defined" => {}
                state => {
                    let place = FAILURES.iter().position(|(of, _)| *of == state).unwrap_or(FAILURES.len() - 1);
                    if let Some(failed) = self.counts.failed.get_mut(place) {
                        *failed += count;
                    }
                }
            }
        }
    }
}

/// Whether the block of a row is damaged, which the start does not read: whoever reads the row is told where.
fn has_damaged_block(state: &State) -> Result<bool, String> {
    for member in &state.members {
        for table in member.partition.tables() {
            for id in table.scan() {
                match member.partition.visit(table.definition().id, id, &mut |_| Ok(())) {
                    Ok(()) => {}
                    Err(Error::Corrupt(what))
                        if what.contains("blocks-") && what.contains(&*table.definition().name) =>
                    {
                        return Ok(true);
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
    }
    Ok(false)
}

/// Compares a state with the one noted for its last record; of unfinished loads, only those selected.
fn compare(state: &State, states: &States, is_compared: fn(Option<LoadId>) -> bool) -> Result<(), String> {
    let last = state.last();
    let (schema, found) = (states.schema_at(last), state.definitions.schema.to_sql());
    if schema != found {
        return Err(format!("the schema at {last} is {found}, not {schema}"));
    }
    let found = hashes(&state.members)?;
    for ((member, found), mut expected) in state.members.iter().zip(found).zip(states.hashes_at(last)) {
        expected.retain(|(_, load), _| is_compared(*load));
        let partition = &member.partition;
        partition.check().map_err(|error| error.to_string())?;
        if found != expected {
            return Err(format!("partition {} at {last} has another state hash than it had", partition.id().0));
        }
    }
    Ok(())
}
