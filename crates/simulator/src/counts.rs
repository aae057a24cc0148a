use std::fmt;

use thermocline_durability::disk::FaultCounts;

/// Errors that end transactions, by SQLSTATE, with the names of their counts.
pub const FAILURES: [(&str, &str); 10] = [
    ("P0001", "failed_on_purpose"),
    ("40001", "failed_retry"),
    ("57014", "failed_cancelled"),
    ("53200", "failed_memory"),
    ("40P01", "failed_deadlock"),
    ("25P03", "failed_idle"),
    ("23505", "failed_unique"),
    ("55006", "failed_in_use"),
    ("rolled back", "rolled_back"),
    ("other", "failed_otherwise"),
];

/// Counts of events in one run or several; every field only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub seeds: u64,
    /// Steps of machines.
    pub steps: u64,
    /// Records of transactions in the log.
    pub commits: u64,
    /// Transactions of sessions with several records.
    pub commits_in_parts: u64,
    /// Definitions among them.
    pub definitions: u64,
    /// Indexes among those that were filled in steps.
    pub built: u64,
    /// Bulk loads whose clients were told that all rows are there.
    pub loads: u64,
    /// Bulk loads taken back.
    pub loads_taken_back: u64,
    /// Bulk loads that a recovery found unfinished.
    pub loads_cut_short: u64,
    /// Transactions that ran again because they needed a partition that they did not have.
    pub restarts: u64,
    /// Rows that went to blocks.
    pub evicted: u64,
    /// Transactions whose clients were told that they are kept.
    pub kept: u64,
    /// Transactions that ended in an error of their own: limits, cancellations, timeouts, refusals.
    pub failed: [u64; FAILURES.len()],
    /// Transactions whose clients do not know the outcome.
    pub unknown: u64,
    /// Snapshots that were completed.
    pub snapshots: u64,
    /// Recoveries that ended.
    pub recoveries: u64,
    /// Recoveries from a snapshot.
    pub recoveries_with_snapshot: u64,
    /// Recoveries that left out a last group.
    pub tails_cut: u64,
    /// Recoveries interrupted by a crash or a disk error.
    pub recoveries_interrupted: u64,
    /// Databases refused because of a flipped bit, or with a row that cannot be read for it.
    pub damage_found: u64,
    /// Databases shown read-only in the state before a flipped bit.
    pub shown_read_only: u64,
    /// Counts of the disk's faults.
    pub faults: FaultCounts,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.commits += other.commits;
        self.commits_in_parts += other.commits_in_parts;
        self.definitions += other.definitions;
        self.built += other.built;
        self.loads += other.loads;
        self.loads_taken_back += other.loads_taken_back;
        self.loads_cut_short += other.loads_cut_short;
        self.restarts += other.restarts;
        self.evicted += other.evicted;
        self.kept += other.kept;
        self.failed.iter_mut().zip(other.failed).for_each(|(of, other)| *of += other);
        self.unknown += other.unknown;
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

/// One count per line.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [
            ("seeds", self.seeds),
            ("steps", self.steps),
            ("commits", self.commits),
            ("commits_in_parts", self.commits_in_parts),
            ("definitions", self.definitions),
            ("indexes_in_steps", self.built),
            ("loads", self.loads),
            ("loads_taken_back", self.loads_taken_back),
            ("loads_cut_short", self.loads_cut_short),
            ("restarts", self.restarts),
            ("evicted", self.evicted),
            ("kept", self.kept),
            ("unknown", self.unknown),
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
        for ((_, name), count) in FAILURES.iter().zip(self.failed) {
            writeln!(f, "{name:>26} {count}")?;
        }
        write!(f, "{}", self.faults)
    }
}
