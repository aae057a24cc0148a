use std::collections::BTreeMap;

use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use thermocline_compute::{EngineSettings, QuerySettings, default_config};
use thermocline_pushdown::external;
use thermocline_types::Class;

use super::name::Name;
use super::session::SessionSettings;
use crate::error::Error;
use crate::rows::RowSettings;

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The built-in value.
    Default,
    /// The database's directory: `ALTER DATABASE SET`.
    Database,
    /// The opening of the database: `--set`.
    Given,
    /// The session: `SET`.
    Session,
}

impl Source {
    /// The name in `system.settings`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Database => "database",
            Self::Given => "command line",
            Self::Session => "session",
        }
    }
}

/// The values of all settings: a database's, or those that one session sees.
#[derive(Debug, Clone)]
pub struct Values {
    /// Settings that queries share.
    pub engine: EngineSettings,
    /// The row engine's.
    pub rows: RowSettings,
    /// A session's; a database has those of new sessions.
    pub session: SessionSettings,
    /// Where the database's come from, if not built in.
    sources: BTreeMap<String, Source>,
}

impl Values {
    /// The built-in ones, with these settings of queries.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            engine: EngineSettings::default(),
            rows: RowSettings::default(),
            session: SessionSettings::new(config),
            sources: BTreeMap::new(),
        }
    }

    /// The same as a session sees them.
    #[must_use]
    pub fn seen_by(&self, session: SessionSettings) -> Self {
        Self { session, ..self.clone() }
    }

    /// A value as text; `None` if the library has no such option.
    pub fn get(&self, name: &Name) -> Option<String> {
        Some(match name {
            Name::Engine(setting) => (setting.get)(&self.engine),
            Name::Rows(setting) => (setting.get)(&self.rows),
            Name::Query(setting) => (setting.get)(&self.session.query()),
            Name::Session(setting) => (setting.get)(&self.session),
            Name::Library(name) => {
                let entry = self.session.options().entries().into_iter().find(|entry| entry.key == *name);
                entry?.value.unwrap_or_default()
            }
        })
    }

    /// Changes a value.
    ///
    /// # Errors
    /// 22023 if the value does not fit, 42704 if the library has no such option; nothing has changed then.
    pub fn set(&mut self, name: &Name, text: &str) -> Result<()> {
        let invalid = |why: String| external(Class::InvalidParameter.error(format_args!("{}: {why}", name.plain())));
        match name {
            Name::Engine(setting) => (setting.set)(&mut self.engine, text).map_err(invalid),
            Name::Rows(setting) => (setting.set)(&mut self.rows, text).map_err(invalid),
            Name::Session(setting) => (setting.set)(&mut self.session, text).map_err(invalid),
            Name::Query(setting) => {
                let options = self.session.config.options_mut();
                match options.extensions.get_mut::<QuerySettings>() {
                    Some(settings) => (setting.set)(settings, text).map_err(invalid),
                    None => Err(invalid("there are no settings of queries".to_owned())),
                }
            }
            Name::Library(key) => {
                if self.get(name).is_none() {
                    let error = Class::UndefinedObject.error(format_args!("there is no setting {key}"));
                    return Err(external(error));
                }
                let why =
                    |error: DataFusionError| invalid(format!("'{text}' does not fit: {}", error.strip_backtrace()));
                self.session.config.options_mut().set(key, text).map_err(why)
            }
        }
    }

    /// Notes where a value of the database comes from.
    pub(super) fn note(&mut self, name: &Name, source: Source) {
        self.sources.insert(name.plain().to_owned(), source);
    }

    /// Where a value comes from.
    pub fn source(&self, name: &Name) -> Source {
        if self.session.own.contains(name.plain()) {
            return Source::Session;
        }
        self.sources.get(name.plain()).copied().unwrap_or(Source::Default)
    }
}

/// Checks that there is a setting of this name, and that a value fits it, as far as that is known without a database.
///
/// # Errors
/// 42704, 22023.
pub fn check_setting(name: &str, value: &str) -> Result<(), Error> {
    Ok(Values::new(default_config(None)).set(&Name::find(name)?, value)?)
}
