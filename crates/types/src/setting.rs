//! Settings: values that users change by name.

use std::fmt;

/// Scope of a setting: who shares its value, and when it may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each session has its own; the database's is the value of new sessions.
    Session,
    /// All sessions of a database share one.
    Database,
    /// As [`Scope::Database`], decided when the database is opened.
    Opening,
}

impl Scope {
    /// The name in `system.settings`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Database => "database",
            Self::Opening => "opening",
        }
    }
}

/// The one of two values that has this name.
///
/// # Errors
/// A sentence, if neither has.
pub fn either<T: Copy>(text: &str, [one, other]: [T; 2], name: fn(T) -> &'static str) -> Result<T, String> {
    match text {
        text if text == name(one) => Ok(one),
        text if text == name(other) => Ok(other),
        _ => Err(format!("\"{text}\" is neither {} nor {}", name(one), name(other))),
    }
}

/// One setting of a group `G`, contributed by an engine: its name, and how its value is read and written.
pub struct Setting<G: 'static> {
    /// The name, without a prefix.
    pub name: &'static str,
    /// Scope.
    pub scope: Scope,
    /// Unit of its values: `bytes`, `time`, `switch`, `count`, `number`, `text`, or the words to choose from.
    pub unit: &'static str,
    /// Purpose, in one phrase.
    pub description: &'static str,
    /// The value as `SHOW` prints it and `SET` reads it.
    pub get: fn(&G) -> String,
    /// Reads a value; the error is a sentence that names it.
    pub set: fn(&mut G, &str) -> Result<(), String>,
}

impl<G> fmt::Debug for Setting<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setting").field("name", &self.name).field("scope", &self.scope).finish_non_exhaustive()
    }
}
