use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use thermocline_compute::{Columns, default_config};

use super::database::DatabaseSettings;
use super::name::{Name, PREFIX};
use super::session::SessionSettings;
use super::values::Values;

/// A row of `system.settings`.
pub struct SettingRow {
    name: String,
    /// As `SHOW` prints it.
    pub value: String,
    scope: &'static str,
    unit: &'static str,
    default_value: String,
    source: &'static str,
    /// Purpose.
    pub description: &'static str,
}

impl SettingRow {
    /// The name without prefix.
    pub fn plain(&self) -> &str {
        self.name.strip_prefix(PREFIX).unwrap_or(&self.name)
    }

    /// One for each setting of ours.
    pub fn all(values: &Values) -> Vec<Self> {
        let default = Values::new(default_config(None));
        let row = |name: Name| Self {
            name: format!("{PREFIX}{}", name.plain()),
            value: values.get(&name).unwrap_or_default(),
            scope: name.scope().name(),
            unit: name.unit(),
            default_value: default.get(&name).unwrap_or_default(),
            source: values.source(&name).name(),
            description: name.description(),
        };
        let mut rows: Vec<_> = Name::all().into_iter().map(row).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }
}

/// Columns of `system.settings`.
pub fn columns() -> Columns<SettingRow> {
    Columns::default()
        .text("name", |row: &SettingRow| &row.name)
        .text("value", |row| &row.value)
        .text("scope", |row| row.scope)
        .text("unit", |row| row.unit)
        .text("default_value", |row| &row.default_value)
        .text("source", |row| row.source)
        .text("description", |row| row.description)
}

/// The settings that a statement runs under, as an extension of its configuration.
#[derive(Debug, Clone)]
pub struct SettingsInUse {
    /// The database's.
    pub database: Arc<DatabaseSettings>,
    /// The session's.
    pub session: Arc<Mutex<SessionSettings>>,
}

impl SettingsInUse {
    /// All values.
    pub fn values(&self) -> Values {
        self.database.values().seen_by(self.session.lock().clone())
    }
}

/// The rows for a statement with this configuration.
pub fn rows_in_use(config: &SessionConfig) -> Vec<SettingRow> {
    let in_use = config.get_extension::<SettingsInUse>();
    in_use.map(|in_use| SettingRow::all(&in_use.values())).unwrap_or_default()
}
