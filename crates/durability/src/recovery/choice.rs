//! Recovery decision table.

/// The newest snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// There is none.
    None,
    /// There is one with a whole manifest.
    Whole,
    /// Its manifest is damaged.
    Damaged,
}

/// The log compared with the newest snapshot, or with sequence 0 without one. If several variants apply, the first
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// A segment's header, a group of the last segment, or the directory's control file is damaged.
    Damaged,
    /// A segment is missing between two others.
    Gap,
    /// The directory's control file names a segment with a record, but neither it nor a later one exists; or says that
    /// it has ended, but its end is missing.
    Missing,
    /// There is no record and never was.
    Absent,
    /// It begins after the first record that the snapshot does not cover.
    Late,
    /// It ends before the snapshot.
    Early,
    /// It ends in an incomplete group; otherwise as `Whole`.
    Torn,
    /// It continues from the snapshot and ends with a whole group.
    Whole,
}

/// Action of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Begin a new database.
    Create,
    /// Recover the state of the files.
    Recover {
        /// Load the snapshot.
        load: bool,
        /// Replay the log.
        replay: bool,
        /// Leave out the last group, which nobody was told of.
        cut: bool,
    },
    /// Show the state before the damage, read-only, change nothing and say why. Without a snapshot or a record before
    /// the damage there is nothing to show, and this is the same as `Refuse`.
    Show {
        /// Load the snapshot.
        load: bool,
        /// The problem.
        why: &'static str,
    },
    /// Change nothing and say why.
    Refuse(&'static str),
}

const LOAD: Choice = Choice::Recover { load: true, replay: false, cut: false };
const REPLAY: Choice = Choice::Recover { load: false, replay: true, cut: false };
const REPLAY_CUT: Choice = Choice::Recover { load: false, replay: true, cut: true };
const BOTH: Choice = Choice::Recover { load: true, replay: true, cut: false };
const BOTH_CUT: Choice = Choice::Recover { load: true, replay: true, cut: true };
const SNAPSHOT: Choice = Choice::Refuse("the newest snapshot is damaged");
const DAMAGED: &str = "the log is damaged";
const GAP: &str = "a segment of the log is missing";
const LATE: &str = "the beginning of the log is missing";
const MISSING: &str = "the end of the log is missing";
const EARLY: &str = "the end of the log is missing: it was durable up to the snapshot";

/// Show the records from the first on, as far as they go.
const fn records(why: &'static str) -> Choice {
    Choice::Show { load: false, why }
}

/// Show the snapshot and the following records, as far as they go.
const fn all(why: &'static str) -> Choice {
    Choice::Show { load: true, why }
}

/// Log by snapshot: none, whole, damaged.
///
/// An older snapshot cannot replace a damaged one: when the newer was complete, the log before it was removed. A
/// snapshot without any log is a backup.
///
/// Acknowledged data that is damaged or missing is never skipped silently. The state before it is only shown: nobody
/// can write after it, and every attempt reports the reason. A record that changes other rows than in its first run, or
/// is damaged in a segment before the last, is found only during replay and treated in the same way.
#[rustfmt::skip]
const CHOICES: [(LogState, [Choice; 3]); 8] = [
    (LogState::Damaged, [records(DAMAGED),      all(DAMAGED), SNAPSHOT]),
    (LogState::Gap,     [records(GAP),          all(GAP),     SNAPSHOT]),
    (LogState::Missing, [records(MISSING),      all(MISSING), SNAPSHOT]),
    (LogState::Absent,  [Choice::Create,        LOAD,         SNAPSHOT]),
    (LogState::Late,    [Choice::Refuse(LATE),  all(LATE),    SNAPSHOT]),
    (LogState::Early,   [Choice::Refuse(EARLY), all(EARLY),   SNAPSHOT]),
    (LogState::Torn,    [REPLAY_CUT,            BOTH_CUT,     SNAPSHOT]),
    (LogState::Whole,   [REPLAY,                BOTH,         SNAPSHOT]),
];

/// The choice for this combination.
pub fn choose(snapshot: SnapshotState, log: LogState) -> Choice {
    let column = match snapshot {
        SnapshotState::None => 0,
        SnapshotState::Whole => 1,
        SnapshotState::Damaged => 2,
    };
    let row = CHOICES.iter().find(|(state, _)| *state == log);
    row.and_then(|(_, choices)| choices.get(column)).copied().unwrap_or(SNAPSHOT)
}
