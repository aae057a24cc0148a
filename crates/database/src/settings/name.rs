//! Look-up of settings of all groups by name: ours, with or without prefix, and DataFusion's.

use datafusion::common::Result;
use thermocline_catalog::AllowedLocations;
use thermocline_compute::{CachePolicy, ENGINE_SETTINGS, EngineSettings, QUERY_SETTINGS, QuerySettings};
use thermocline_syntax::nearest;
use thermocline_types::{Class, Scope, Setting};

use super::session::{SESSION_SETTINGS, SessionSettings};
use crate::error::Error;
use crate::rows::{ROW_SETTINGS, RowSettings};

/// Optional prefix of our own settings.
pub const PREFIX: &str = "thermocline.";
/// Prefixes of DataFusion options that sessions may set.
const LIBRARY: [&str; 4] =
    ["datafusion.execution.", "datafusion.optimizer.", "datafusion.explain.", "datafusion.format."];
/// Aliases of settings.
const ALIASES: [(&str, &str); 5] = [
    ("time.zone", "timezone"),
    ("time_zone", "timezone"),
    ("datafusion.execution.time_zone", "timezone"),
    ("datafusion.runtime.memory_limit", "query_memory_limit"),
    ("datafusion.runtime.max_temp_directory_size", "temporary_files_limit"),
];

/// An existing setting.
#[derive(Debug, Clone)]
pub enum Name {
    Engine(&'static Setting<EngineSettings>),
    Rows(&'static Setting<RowSettings>),
    Query(&'static Setting<QuerySettings>),
    Session(&'static Setting<SessionSettings>),
    /// A DataFusion option, by its full name.
    Library(String),
}

impl Name {
    /// Finds a setting by name.
    ///
    /// # Errors
    /// 42704, with a similar name as a hint.
    pub fn find(written: &str) -> Result<Self> {
        let lower = written.trim().to_ascii_lowercase();
        let plain = lower.strip_prefix(PREFIX).unwrap_or(&lower);
        let plain = ALIASES.iter().find(|(alias, _)| *alias == plain).map_or(plain, |(_, name)| *name);
        if let Some(found) = Self::all().into_iter().find(|name| name.plain() == plain) {
            return Ok(found);
        }
        if LIBRARY.iter().any(|prefix| plain.starts_with(prefix)) {
            return Ok(Self::Library(plain.to_owned()));
        }
        let all = Self::all();
        let mend = match nearest(plain, all.iter().map(Self::plain)) {
            Some(near) => format!("did you mean {near}?"),
            None => "SHOW ALL lists all".to_owned(),
        };
        let error = Error::from(Class::UndefinedObject.error(format_args!("there is no setting {written}")));
        Err(error.about(written).with_hint(mend).into())
    }

    /// All settings except DataFusion's.
    pub fn all() -> Vec<Self> {
        let engine = ENGINE_SETTINGS.iter().map(Self::Engine);
        let rows = ROW_SETTINGS.iter().map(Self::Rows);
        let query = QUERY_SETTINGS.iter().map(Self::Query);
        engine.chain(rows).chain(query).chain(SESSION_SETTINGS.iter().map(Self::Session)).collect()
    }

    /// Name, scope, unit and description.
    fn about(&self) -> (&str, Scope, &'static str, &'static str) {
        match self {
            Self::Engine(setting) => about(setting),
            Self::Rows(setting) => about(setting),
            Self::Query(setting) => about(setting),
            Self::Session(setting) => about(setting),
            Self::Library(name) => {
                (name, Scope::Session, "text", "an option of DataFusion, which plans analytic queries")
            }
        }
    }

    /// The name without prefix.
    pub fn plain(&self) -> &str {
        self.about().0
    }

    /// Scope of its value.
    pub fn scope(&self) -> Scope {
        self.about().1
    }

    /// Whether all sessions share one value.
    pub fn is_shared(&self) -> bool {
        self.scope() != Scope::Session
    }

    /// Unit of its values.
    pub fn unit(&self) -> &'static str {
        self.about().2
    }

    /// Path of the file that a value names and that is read when it is set; `None` if it names none.
    pub fn file_of<'v>(&self, value: &'v str) -> Option<&'v str> {
        (self.plain() == "cache_policy").then(|| CachePolicy::trace_in(value)).flatten()
    }

    /// The value as a database keeps it, for sessions that start in other directories.
    pub fn kept(&self, value: &str) -> String {
        self.file_of(value).map_or_else(|| value.to_owned(), |_| CachePolicy::with_absolute_path(value))
    }

    /// Refuses a value that names a file outside of the allowed locations.
    ///
    /// # Errors
    /// 42501.
    pub fn check_file(&self, value: &str, allowed: &AllowedLocations) -> Result<()> {
        let Some(path) = self.file_of(value) else { return Ok(()) };
        // Always a path, even if it looks like a URL; an empty one cannot be made absolute, and is refused as it is.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        allowed.check(&path.to_string_lossy())
    }

    /// Description; DataFusion describes its own options.
    pub fn description(&self) -> &'static str {
        self.about().3
    }
}

/// Name, scope, unit and description of a setting of any group.
const fn about<G>(setting: &Setting<G>) -> (&'static str, Scope, &'static str, &'static str) {
    (setting.name, setting.scope, setting.unit, setting.description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_prefix() {
        for written in ["mode", "Thermocline.MODE", " mode "] {
            assert_eq!(Name::find(written).unwrap().plain(), "mode");
        }
        assert_eq!(Name::find("datafusion.runtime.memory_limit").unwrap().plain(), "query_memory_limit");
        assert_eq!(Name::find("datafusion.execution.batch_size").unwrap().plain(), "datafusion.execution.batch_size");
        for (written, said) in [("cachesize", "cache_size"), ("mod", "mode"), ("nothing_like_it", "SHOW ALL")] {
            let error = Name::find(written).unwrap_err().to_string();
            assert!(error.contains(written) && error.contains(said), "{error}");
        }
        // Options that change the meaning of statements cannot be set.
        assert!(Name::find("datafusion.sql_parser.dialect").is_err());
        assert!(Name::find("datafusion.catalog.default_schema").is_err());
    }
}
