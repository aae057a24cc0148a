//! Routes of a partition in a query, and the session's limits on them.

use std::fmt;
use std::str::FromStr;

/// Route of one partition in one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// Every needed segment is cached: no byte moves.
    Local,
    /// The cache has what the fragment's answer was: no byte moves, and nothing is computed.
    Answered,
    /// Missing segments are fetched, admitted to the cache, and processed locally.
    Load,
    /// The fragment runs at the storage node; its result moves.
    Pushdown,
    /// Cached columns are used here and the others at the storage node; a selection bitmap says to
    /// one side which rows the other selects (Enhancing Computation Pushdown section 4.2).
    Bitmap,
    /// The stored bytes of the needed columns move, are processed locally and not admitted.
    Pullup,
}

impl Route {
    /// All routes, in the order in which reports list them.
    pub const ALL: [Route; 6] =
        [Route::Local, Route::Answered, Route::Load, Route::Pushdown, Route::Bitmap, Route::Pullup];

    /// Lower-case name, as `EXPLAIN` and the system tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Route::Local => "local",
            Route::Answered => "answered",
            Route::Load => "load",
            Route::Pushdown => "pushdown",
            Route::Bitmap => "bitmap",
            Route::Pullup => "pullup",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit on routes, chosen per session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Every partition takes the route that the runtime model expects to be done soonest, and what is loaded on the way
    /// pays for itself.
    #[default]
    Auto,
    /// Cached partitions run locally, admitted ones are loaded, the rest is pushed down where that pays
    /// (FlexPushdownDB section 4.4).
    Hybrid,
    /// Never pushes down; what the cache does not admit is pulled up.
    Caching,
    /// Never caches; what cannot be pushed down is pulled up.
    Pushdown,
    /// Neither caches nor pushes.
    Pullup,
}

impl Mode {
    /// All modes, in the order in which reports list them.
    pub const ALL: [Mode; 5] = [Mode::Pullup, Mode::Pushdown, Mode::Caching, Mode::Hybrid, Mode::Auto];

    /// The setting's value.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Hybrid => "hybrid",
            Mode::Caching => "caching",
            Mode::Pushdown => "pushdown",
            Mode::Pullup => "pullup",
        }
    }

    /// Whether the mode reads and fills the segment cache.
    pub fn caches(self) -> bool {
        matches!(self, Mode::Auto | Mode::Hybrid | Mode::Caching)
    }

    /// Whether the mode may run fragments at storage.
    pub fn pushes(self) -> bool {
        matches!(self, Mode::Auto | Mode::Hybrid | Mode::Pushdown)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
            let names: Vec<_> = Mode::ALL.iter().map(|mode| mode.name()).collect();
            format!("unknown mode '{text}': expected one of {}", names.join(", "))
        })
    }
}
