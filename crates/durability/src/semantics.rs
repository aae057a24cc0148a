use std::fmt;

/// A version of the engine's semantics: of what rows a statement or a procedure leaves.
///
/// The command log holds commands, and replay runs them again with the semantics of the program that replays. So
/// every segment of the log, and the manifest of every snapshot, names the version that it was written with:
///
/// | files of a version | are |
/// |---|---|
/// | that is newer than [`CURRENT`](Self::CURRENT) | refused: this program does not know what their commands mean |
/// | of now | replayed; each record has to change the rows that it changed when it ran first |
/// | that is older | the same, and then a snapshot is taken, so that no later version has to replay them |
///
/// **When to raise [`CURRENT`](Self::CURRENT)**: in the first change since the last release after which the same
/// commands, on the same rows and with the same seed and time, could leave other rows or other errors: an operator,
/// a cast, a function, rounding, the order of rows that nothing orders, a library of Lua, the random numbers, which
/// ids rows get, or what a digest is made of. What is faster and gives the same does not raise it. A line is added
/// to the list below, and a database of the version before is kept in `tests/formats`.
///
/// | version | since | what is different |
/// |---|---|---|
/// | 1 | format 1 of segments and manifests, which do not name it | |
/// | 2 | format 2 | PostgreSQL's rules for numbers, casts, functions and comparisons with floats; every call of a procedure starts from nothing |
/// | 3 | | a digest is of what was written, as it was written, instead of the rows as they were in the end |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Semantics(pub u32);

impl Semantics {
    /// That of files which do not name theirs.
    pub const FIRST: Self = Self(1);

    /// That of this program.
    pub const CURRENT: Self = Self(3);

    /// Whether a record's digest is of what was written; before, it was of the rows as they were in the end.
    pub(crate) fn digests_changes(self) -> bool {
        self >= Self(3)
    }
}

impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
