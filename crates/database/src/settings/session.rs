//! Values of settings that a session has for itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use datafusion::common::config::ConfigOptions;
use datafusion::prelude::SessionConfig;
use thermocline_compute::QuerySettings;
use thermocline_pushdown::units::{format_duration, parse_duration};
use thermocline_types::{Scope, Setting, Zone};

use super::name::Name;

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// [`QuerySettings`], and DataFusion's options.
    pub config: SessionConfig,
    /// Time limit of a statement; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// Names of settings that the session has set itself.
    pub(super) own: BTreeSet<String>,
}

impl SessionSettings {
    /// Settings of a session that has set nothing.
    pub fn new(config: SessionConfig) -> Self {
        Self { config, statement_timeout: None, own: BTreeSet::new() }
    }

    /// Query settings.
    pub fn query(&self) -> QuerySettings {
        self.config.options().extensions.get::<QuerySettings>().cloned().unwrap_or_default()
    }

    /// Records whether the session has set a value itself.
    pub fn note(&mut self, name: &Name, is_own: bool) {
        let name = name.plain();
        if is_own {
            self.own.insert(name.to_owned());
        } else {
            self.own.remove(name);
        }
    }

    /// Names of settings that the session has set itself.
    pub fn own_names(&self) -> Vec<String> {
        self.own.iter().cloned().collect()
    }

    /// DataFusion's options.
    pub(super) fn options(&self) -> &ConfigOptions {
        self.config.options()
    }

    /// Deadline of a statement that begins now; `None` for no limit.
    pub fn deadline(&self) -> Option<Instant> {
        // A deadline beyond the range of the clock is no limit.
        self.statement_timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }
}

/// Session settings that concern both engines.
pub const SESSION_SETTINGS: &[Setting<SessionSettings>] = &[
    Setting {
        name: "statement_timeout",
        scope: Scope::Session,
        unit: "time",
        description: "longest that a statement may take, such as 5min; 0 for no limit",
        get: |s| format_duration(s.statement_timeout.unwrap_or_default()),
        set: |s, text| parse_duration(text).map(|time| s.statement_timeout = (!time.is_zero()).then_some(time)),
    },
    Setting {
        name: "timezone",
        scope: Scope::Session,
        unit: "text",
        description: "time zone of timestamps without one of their own, such as UTC or Europe/Berlin",
        get: |s| s.options().execution.time_zone.clone().unwrap_or_default(),
        set: |s, text| {
            Zone::named(text).map_err(|error| error.to_string())?;
            s.config.options_mut().execution.time_zone = Some(text.to_owned());
            Ok(())
        },
    },
];
