//! One seed: rounds of work, crash and recovery.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::node::{Committed, Hashes, Node, Start};
use super::workload::{Call, Calls, Model, TABLES};
use crate::check::check;
use crate::disk::{Crash, FaultCounts, Faults, SimulatedDisk};
use crate::ids::{DatabaseId, Identity, Micros, Sequence, TransactionId};
use crate::log::{LogEnd, LogSettings};
use crate::partition::Member;
use crate::random::Random;
use crate::recovery::{Halt, Plan, Rebuild, Recovered};
use crate::schema::Schema;
use crate::table::Budget;
use crate::{Error, Result};

/// An error put in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Clients are told before the log is synced.
    ReleasedBeforeSync,
    /// Clients are told what they read before that is durable.
    ReadsDoNotWait,
    /// A torn tail stays when the log goes on behind it.
    TornTailNotCut,
    /// What recovery could read is taken for durable.
    CacheTrusted,
    /// A snapshot has rows as they are when it comes to them.
    NoPreImages,
    /// What a procedure writes depends on what is not logged.
    NotDeterministic,
}

impl Bug {
    /// All of them, and how they are called.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::ReleasedBeforeSync, "released-before-sync"),
        (Self::ReadsDoNotWait, "reads-do-not-wait"),
        (Self::TornTailNotCut, "torn-tail-not-cut"),
        (Self::CacheTrusted, "cache-trusted"),
        (Self::NoPreImages, "no-pre-images"),
        (Self::NotDeterministic, "not-deterministic"),
    ];
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(bug, _)| *bug).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no bug \"{text}\"; there are {}", names.join(", "))
        })
    }
}

/// What happened in one run or several; every field only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub seeds: u64,
    /// Transactions that changed something.
    pub commits: u64,
    /// Of those, with several records in the log.
    pub commits_in_parts: u64,
    /// Snapshots that were completed.
    pub snapshots: u64,
    /// Recoveries that ended.
    pub recoveries: u64,
    /// Of those, with a snapshot.
    pub recoveries_with_snapshot: u64,
    /// Of those, with a last group left out.
    pub tails_cut: u64,
    /// Recoveries that a crash or an error of the disk cut short.
    pub recoveries_interrupted: u64,
    /// Databases that were refused because of a changed bit.
    pub damage_found: u64,
    /// Databases of which the state before a changed bit was shown.
    pub shown_read_only: u64,
    /// What the disk did.
    pub faults: FaultCounts,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.commits += other.commits;
        self.commits_in_parts += other.commits_in_parts;
        self.snapshots += other.snapshots;
        self.recoveries += other.recoveries;
        self.recoveries_with_snapshot += other.recoveries_with_snapshot;
        self.tails_cut += other.tails_cut;
        self.recoveries_interrupted += other.recoveries_interrupted;
        self.damage_found += other.damage_found;
        self.shown_read_only += other.shown_read_only;
        self.faults.add(&other.faults);
    }
}

/// Prints one count a line.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [
            ("seeds", self.seeds),
            ("commits", self.commits),
            ("commits_in_parts", self.commits_in_parts),
            ("snapshots", self.snapshots),
            ("recoveries", self.recoveries),
            ("recoveries_with_snapshot", self.recoveries_with_snapshot),
            ("tails_cut", self.tails_cut),
            ("recoveries_interrupted", self.recoveries_interrupted),
            ("damage_found", self.damage_found),
            ("shown_read_only", self.shown_read_only),
        ] {
            writeln!(f, "{name:>26} {count}")?;
        }
        write!(f, "{}", self.faults)
    }
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The run.
    pub seed: u64,
    /// The crash and recovery, from 0.
    pub round: u32,
    /// What it is.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, round {}: {}", self.seed, self.round, self.message)
    }
}

/// Rounds of a run at most.
const ROUNDS: u32 = 4;
/// Steps of the scheduler in a round at most.
const STEPS: u64 = 400;
/// The random text of a definition that comes and goes.
const DEFINITIONS: [&str; 4] = [
    "CREATE INDEX accounts_v ON accounts (v)",
    "DROP INDEX accounts_v",
    "CREATE TABLE scratch (a BIGINT PRIMARY KEY) PARTITION BY (a)",
    "DROP TABLE scratch",
];

/// A run.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    random: Random,
    disk: SimulatedDisk,
    bug: Option<Bug>,
    /// The I/O of the first round at which the process ends; `None` for any.
    crash_at: Option<u64>,
    settings: LogSettings,
    identity: Identity,
    counts: Counts,
    /// A changed bit may be found at any later time.
    bit_flipped: bool,
    /// What a recovery must come to.
    expected: Expected,
}

/// What the next recovery may come to.
#[derive(Debug, Default)]
struct Expected {
    /// What clients were told, and what the log says is durable.
    least: Sequence,
    most: Sequence,
    base: Model,
    base_schema: Schema,
}

/// What was recovered.
struct State {
    members: Vec<Member>,
    schema: Schema,
    recovered: Recovered,
}

impl Simulation {
    /// The run of this seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new(random.next(), Faults::default());
        let settings = LogSettings {
            commit_interval_us: 1 + u32::try_from(random.below(300)).unwrap_or(0),
            commit_bytes: 200 + random.index(4000),
            buffer_bytes_max: 1 << 16,
            segment_bytes: 500 + random.below(8000),
            room_bytes: random.below(2) * random.below(6000),
            synchronous_commit: !random.one_in(8),
        };
        let partitions = 1 + u16::try_from(random.below(3)).unwrap_or(0);
        let identity = Identity { database: DatabaseId(u128::from(seed)), partitions };
        let (counts, expected) = (Counts { seeds: 1, ..Counts::default() }, Expected::default());
        let (bug, crash_at, bit_flipped) = (None, None, false);
        Self { seed, random, disk, bug, crash_at, settings, identity, counts, bit_flipped, expected }
    }

    /// With an error put in.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self.settings.synchronous_commit = true;
        self
    }

    /// With the first crash in the middle of this I/O, and no other fault before it.
    #[must_use]
    pub const fn with_crash_at(mut self, operation: u64) -> Self {
        self.crash_at = Some(operation);
        self
    }

    /// Runs to the end or the first failure.
    pub fn run(mut self) -> Result<Counts, Failure> {
        let mut state = None;
        for round in 0..ROUNDS {
            let result = self.round(state.take());
            match result {
                Ok(Some(next)) => state = Some(next),
                Ok(None) => break,
                Err(message) => return Err(Failure { seed: self.seed, round, message }),
            }
        }
        self.counts.faults.add(&self.disk.counts());
        Ok(self.counts)
    }

    /// Work, crash, recovery; `None` if that ends the run.
    fn round(&mut self, state: Option<State>) -> Result<Option<State>, String> {
        let state = match state {
            Some(state) => state,
            None => match self.recover()? {
                Some(state) => state,
                None => return Ok(None),
            },
        };
        let mut node = self.start(state)?;
        if self.crash_at.is_none() {
            let rarely = |random: &mut Random, n: u32| if random.one_in(3) { n } else { 0 };
            let (sync, full) = (rarely(&mut self.random, 60), rarely(&mut self.random, 60));
            self.disk.set_faults(Faults { sync, full, read: 0 });
        }
        let crash_at = self.crash_at.take().or_else(|| (!self.random.one_in(4)).then(|| self.random.below(120)));
        self.disk.crash_after(crash_at);
        self.work(&mut node)?;
        self.end(&node);
        let hashes = |at| node.hashes_at(at).into_iter().cloned().collect::<Vec<Hashes>>();
        let (committed, base) = (&node.committed, (self.expected.base.clone(), self.expected.base_schema.clone()));
        let Some(state) = self.recover()? else { return Ok(None) };
        let last = Sequence(state.recovered.end.next.0 - 1);
        let is_shown = state.recovered.read_only.is_some();
        // What came before this round is not kept to compare with.
        let is_known = !is_shown || hashes(last).len() == usize::from(self.identity.partitions);
        let (model, schema) = replayed(base, committed, last);
        if is_known {
            self.verify(&state, &model, &schema, &hashes(last))?;
        }
        if is_shown {
            self.counts.shown_read_only += u64::from(is_known);
            return Ok(None);
        }
        (self.expected.base, self.expected.base_schema) = (model, schema);
        Ok(Some(state))
    }

    fn start(&mut self, state: State) -> Result<Node, String> {
        let State { members, schema, recovered } = state;
        let now = recovered.timestamp.max(Micros(0));
        let defined = TABLES.map(|sql| schema.define(sql).is_err());
        let start = Start {
            disk: self.disk.clone(),
            identity: self.identity,
            members,
            schema,
            end: recovered.end,
            transaction: recovered.transaction,
            now,
            model: self.expected.base.clone(),
            seed: self.random.next(),
            settings: LogSettings {
                synchronous_commit: self.settings.synchronous_commit && self.bug != Some(Bug::ReleasedBeforeSync),
                ..self.settings.clone()
            },
            bug: self.bug,
        };
        let mut node = Node::start(start).map_err(|error| error.to_string())?;
        for (sql, _) in TABLES.into_iter().zip(defined).filter(|(_, defined)| !defined) {
            node.define(sql);
        }
        // Nothing may run before its tables are there.
        for number in 0..node.partitions() {
            node.work(number, TABLES.len(), true).map_err(|error| error.to_string())?;
        }
        for number in 0..node.partitions() {
            node.work(number, TABLES.len(), true).map_err(|error| error.to_string())?;
        }
        Ok(node)
    }

    /// Steps in any order until something ends the process.
    fn work(&mut self, node: &mut Node) -> Result<(), String> {
        let steps = self.random.below(STEPS);
        for _ in 0..steps {
            if let Err(error) = self.step(node) {
                return match error {
                    Error::Io(_) | Error::DiskFull(_) => Ok(()),
                    other => Err(other.to_string()),
                };
            }
            // Not every step needs what it asks of the disk, such as room ahead in the log.
            if self.disk.crashed() {
                return Ok(());
            }
        }
        if self.random.one_in(3) {
            return match node.close() {
                Ok(()) | Err(Error::Io(_) | Error::DiskFull(_)) => Ok(()),
                Err(other) => Err(other.to_string()),
            };
        }
        Ok(())
    }

    fn step(&mut self, node: &mut Node) -> Result<()> {
        let number = self.random.index(node.partitions());
        match self.random.below(24) {
            0 if node.waiting() < 40 && self.random.one_in(2) => {
                let count = 1 + self.random.index(6);
                node.session((0..count).map(|_| Call::random_in_session(&mut self.random)).collect());
                Ok(())
            }
            0..6 if node.waiting() < 40 => {
                let mut call = Call::random(&mut self.random);
                if self.bug == Some(Bug::NotDeterministic) && self.random.one_in(10) {
                    call.noise = 1;
                }
                node.submit(call)
            }
            0..13 => {
                let (items, flush) = (1 + self.random.index(4), !self.random.one_in(3));
                node.work(number, items, flush)
            }
            13..19 => node.log(),
            19 | 20 => {
                let rows = 1 + u32::try_from(self.random.below(8)).unwrap_or(0);
                node.snapshot(number, rows)
            }
            21 if self.random.one_in(4) => {
                node.begin_snapshot();
                Ok(())
            }
            22 if self.random.one_in(8) => {
                let sql = self.random.pick(&DEFINITIONS).copied().unwrap_or_default();
                node.define(sql);
                Ok(())
            }
            23 if self.random.one_in(4) => node.check(),
            _ => {
                node.now = Micros(node.now.0 + self.random.below(200).cast_signed());
                Ok(())
            }
        }
    }

    /// The process ends, and with it everything in memory.
    fn end(&mut self, node: &Node) {
        self.counts.commits += node.commits;
        self.counts.commits_in_parts += node.commits_in_parts;
        self.counts.snapshots += node.snapshots;
        let durable = node.collector.durable();
        self.expected.most = node.collector.appended();
        self.expected.least = if self.settings.synchronous_commit { durable.max(node.told) } else { durable };
        self.restart();
        if self.random.one_in(20) && self.bug.is_none() && self.disk.flip_bit().is_some() {
            self.bit_flipped = true;
        }
    }

    fn restart(&mut self) {
        self.disk.restart(if self.random.one_in(3) { Crash::Process } else { Crash::Power });
        self.disk.set_faults(Faults::default());
    }

    /// Recovers, perhaps after attempts that are cut short; `None` if the database is refused because of
    /// a changed bit.
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

    /// What recovery leaves has no damage and nothing unfinished.
    fn check(&self) -> Result<(), String> {
        if self.bit_flipped || self.bug.is_some() || !self.random.clone().one_in(8) {
            return Ok(());
        }
        self.disk.set_faults(Faults::default());
        let rebuild = |identity| Rebuild::new(identity, &Arc::new(Budget::unlimited()), 1 << 20, 0, Calls);
        let report = check(&self.disk, rebuild, &mut |_| {}).map_err(|error| error.to_string())?;
        if report.is_sound() && report.notes.is_empty() { Ok(()) } else { Err(format!("after recovery: {report}")) }
    }

    fn attempt(&mut self) -> Result<State> {
        let disk = &self.disk;
        let plan = Plan::make(disk)?;
        let budget = Arc::new(Budget::unlimited());
        let identity = plan.identity().unwrap_or(self.identity);
        let mut rebuild = Rebuild::new(identity, &budget, 1 << 20, self.random.next(), Calls);
        let recovered = plan.replay(disk, &mut rebuild, &mut |_| {}).map_err(Halt::into_error)?;
        let end = match recovered.read_only {
            Some(_) => recovered.end.clone(),
            None => self.repair(&plan)?,
        };
        let (members, schema, _) = rebuild.into_parts();
        let timestamp = recovered.timestamp.max(Micros(0));
        let transaction = recovered.transaction.max(TransactionId(1));
        Ok(State { members, schema, recovered: Recovered { end, timestamp, transaction, ..recovered } })
    }

    fn repair(&self, plan: &Plan) -> Result<LogEnd> {
        let torn = matches!(plan.choice(), crate::recovery::Choice::Recover { cut: true, .. });
        let skip = match self.bug {
            Some(Bug::TornTailNotCut) => torn,
            Some(Bug::CacheTrusted) => !torn,
            _ => false,
        };
        if skip { Ok(plan.log_end()) } else { plan.repair(&self.disk) }
    }

    fn verify(&self, state: &State, model: &Model, schema: &Schema, hashes: &[Hashes]) -> Result<(), String> {
        let last = Sequence(state.recovered.end.next.0 - 1);
        let Expected { least, most, .. } = self.expected;
        if last < least && state.recovered.read_only.is_none() {
            return Err(format!("clients were told up to {least}, or it was durable, and {last} is the last record"));
        }
        if last > most {
            return Err(format!("{last} is the last record, and {most} was the last that ran"));
        }
        let partitions = || state.members.iter().map(|member| &member.partition);
        let found = Model::of(partitions())?;
        if found != *model {
            return Err(format!("the rows at {last} are {found:?}, and {model:?} in the model"));
        }
        if state.schema.to_sql() != schema.to_sql() {
            return Err(format!("the schema at {last} is {}, not {}", state.schema.to_sql(), schema.to_sql()));
        }
        for (partition, expected) in partitions().zip(hashes) {
            partition.check().map_err(|error| error.to_string())?;
            let found = partition.state_hashes().map_err(|error| error.to_string())?;
            if found != *expected {
                return Err(format!("partition {} at {last} has another state hash than it had", partition.id().0));
            }
        }
        Ok(())
    }
}

/// Rows and schema after all that ran up to a place in the log.
fn replayed(base: (Model, Schema), committed: &[(Sequence, Committed)], last: Sequence) -> (Model, Schema) {
    let (mut model, mut schema) = base;
    for (_, committed) in committed.iter().filter(|(sequence, _)| *sequence <= last) {
        match committed {
            Committed::Call(call, head) => {
                model.run(call, *head);
            }
            Committed::Session(calls, head) => {
                model.run_together(calls, *head);
            }
            Committed::Schema(after) => schema = (**after).clone(),
        }
    }
    (model, schema)
}
