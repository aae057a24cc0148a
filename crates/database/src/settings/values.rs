//! Values of all settings with their sources, and checks of new ones.

use std::collections::BTreeMap;

use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use thermocline_compute::{EngineSettings, QuerySettings, default_config};
use thermocline_types::Class;

use super::name::Name;
use super::session::SessionSettings;
use crate::bridge::external;
use crate::error::Error;
use crate::rows::RowSettings;

/// Origin of a setting's value.
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

/// Values of all settings, of a database or as seen by a session.
#[derive(Debug, Clone)]
pub struct Values {
    /// Settings of the analytic engine.
    pub engine: EngineSettings,
    /// Settings of the row engine.
    pub rows: RowSettings,
    /// Settings of the session; in a database, the initial ones of new sessions.
    pub session: SessionSettings,
    /// Origins of the database's values, unless built in.
    sources: BTreeMap<String, Source>,
}

impl Values {
    /// Built-in values, with this configuration of queries.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            engine: EngineSettings::default(),
            rows: RowSettings::default(),
            session: SessionSettings::new(config),
            sources: BTreeMap::new(),
        }
    }

    /// These values with the settings of a session.
    #[must_use]
    pub fn seen_by(&self, session: SessionSettings) -> Self {
        Self { session, ..self.clone() }
    }

    /// A value as text; `None` if DataFusion has no such option.
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
    /// 22023 for an invalid value, 42704 if DataFusion has no such option; then nothing changes.
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

    /// Records the origin of a value of the database.
    pub(super) fn note(&mut self, name: &Name, source: Source) {
        self.sources.insert(name.plain().to_owned(), source);
    }

    /// The origin of a value.
    pub fn source(&self, name: &Name) -> Source {
        if self.session.own.contains(name.plain()) {
            return Source::Session;
        }
        self.sources.get(name.plain()).copied().unwrap_or(Source::Default)
    }
}

/// Checks name and value of a setting, as far as possible without a database.
///
/// # Errors
/// 42704, 22023.
pub fn check_setting(name: &str, value: &str) -> Result<(), Error> {
    Ok(Values::new(default_config(None)).set(&Name::find(name)?, value)?)
}
