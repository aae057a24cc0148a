//! State that the clients of a simulation share: the node as they see it, their plans, and their history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_durability::log::LogHandle;
use thermocline_machine::Clock;
use thermocline_machine::ids::Sequence;
use thermocline_machine::random::Random;
use thermocline_tables::table::Budget;
use thermocline_transactions::database::{Catalog, Work};
use thermocline_transactions::engine::{Handle, Shared};
use thermocline_types::Result;

use super::history::Transaction;
use super::workload::{Plans, Text};

/// SQLSTATE for a session that was idle for too long.
pub const IDLE_TIMEOUT: &str = "25P03";
/// SQLSTATE for a deadlock between sessions.
pub const DEADLOCK: &str = "40P01";
/// Tags of calls are larger than those that bulk loads give to their batches.
const FIRST_TAG: u64 = 1 << 32;

/// The node as clients see it.
pub struct World {
    pub catalog: Arc<Catalog>,
    pub budget: Arc<Budget>,
    pub shared: Arc<Shared<Work>>,
    pub handle: Handle<Work>,
    pub log: LogHandle,
    pub clock: Clock,
    pub synchronous: bool,
    /// Prepared statements and procedures, shared by all clients.
    pub prepared: Mutex<BTreeMap<Text, Arc<Work>>>,
}

impl World {
    /// Prepares a statement or procedure for the current schema.
    pub fn work(&self, text: Text) -> Result<Arc<Work>> {
        let mut prepared = self.prepared.lock();
        if let Some(work) = prepared.get(&text).filter(|work| !work.is_outdated()) {
            return Ok(Arc::clone(work));
        }
        let definitions = self.catalog.current();
        let work = Arc::new(match text {
            Text::Statement(sql) => Work::new(&self.catalog, definitions, sql, &self.budget)?,
            Text::Procedure(name) => Work::procedure(&self.catalog, definitions, name)?,
        });
        prepared.insert(text, Arc::clone(&work));
        Ok(work)
    }
}

/// State that all clients of a simulation share.
pub struct Scene {
    pub random: Random,
    pub plans: Plans,
    pub history: Vec<Transaction>,
    /// Number of the simulation's current step.
    pub now: u64,
    /// Whether clients begin nothing more.
    pub stopping: bool,
    /// Definitions that come before everything else.
    pub first: VecDeque<&'static str>,
    /// By tag of a call, the sequence that must be durable before its result may be told.
    pub needs: BTreeMap<u64, Sequence>,
    pub tag_next: u64,
    /// The last record that changed each partition.
    pub last: Vec<Sequence>,
    /// Largest sequence that a client was told of.
    pub told: Sequence,
    /// Indexes filled in steps.
    pub built: u64,
    /// Bulk loads kept.
    pub loaded: u64,
    /// Bulk loads taken back.
    pub taken_back: u64,
    /// Number of transactions by their SQLSTATE at the end; "00000" for kept ones.
    pub ended: BTreeMap<String, u64>,
}

impl Scene {
    pub fn new(random: Random) -> Self {
        Self {
            random,
            plans: Plans::new(),
            history: Vec::new(),
            now: 0,
            stopping: false,
            first: VecDeque::new(),
            needs: BTreeMap::new(),
            tag_next: FIRST_TAG,
            last: Vec::new(),
            told: Sequence::ZERO,
            built: 0,
            loaded: 0,
            taken_back: 0,
            ended: BTreeMap::new(),
        }
    }

    /// Checks that clients may be told of the log up to `needs`, and notes that they were.
    pub fn tell(&mut self, world: &World, needs: Sequence) -> Result<(), String> {
        self.told = self.told.max(needs);
        let durable = world.log.durable();
        if world.synchronous && durable < needs {
            return Err(format!("a client was told of record {needs}, and the log is durable up to {durable}"));
        }
        Ok(())
    }
}
