//! Versions of the meaning of logged commands, named in logs and snapshots.

use std::fmt;

/// A version of the engine's semantics: of what rows a statement or a procedure leaves.
///
/// The command log holds commands, and replay runs them again with the semantics of the program that replays. So every
/// segment of the log, and the manifest of every snapshot, names the version with which it was written:
///
/// | files of a version | are |
/// |---|---|
/// | that is newer than [`CURRENT`](Self::CURRENT) | refused: this program does not know what their commands mean |
/// | of now | replayed; each record has to change the rows that it changed when it ran first |
/// | that is older | the same, and then a snapshot is taken, so that no later version has to replay them |
///
/// **When to raise [`CURRENT`](Self::CURRENT)**: in the first change since the last release after which the same
/// commands, on the same rows and with the same seed and time, could leave other rows or other errors: an operator, a
/// cast, a function, rounding, the order of rows that nothing orders, a library of Lua, the random numbers, the ids of
/// rows, or the contents of a digest. A change that only makes the engine faster does not raise it. A line is added to
/// the list below, and a database of the version before is kept in `tests/formats`.
///
/// | version | since | what is different |
/// |---|---|---|
/// | 1 | format 1 of segments and manifests, which do not name it | |
/// | 2 | format 2 | PostgreSQL's rules for numbers, casts, functions and comparisons with floats; every call of a procedure starts from nothing |
/// | 3 | | a digest is of what was written, as it was written, instead of the rows as they were in the end |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Semantics(pub u32);

impl Semantics {
    /// Version of files that do not name theirs.
    pub const FIRST: Self = Self(1);

    /// Version of this program.
    pub const CURRENT: Self = Self(3);

    /// Whether a record's digest covers the changes as they were written; earlier digests cover the final rows.
    pub(crate) fn digests_changes(self) -> bool {
        self >= Self(3)
    }
}

impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
