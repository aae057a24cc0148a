//! The table `system.settings`.

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
    /// Value as printed by `SHOW`.
    pub value: String,
    scope: &'static str,
    unit: &'static str,
    default_value: String,
    source: &'static str,
    /// Description.
    pub description: &'static str,
}

impl SettingRow {
    /// The name without prefix.
    pub fn plain(&self) -> &str {
        self.name.strip_prefix(PREFIX).unwrap_or(&self.name)
    }

    /// One row for each of our settings.
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

/// Settings in effect for a statement, as an extension of its configuration.
#[derive(Debug, Clone)]
pub struct SettingsInUse {
    /// Settings of the database.
    pub database: Arc<DatabaseSettings>,
    /// Settings of the session.
    pub session: Arc<Mutex<SessionSettings>>,
}

impl SettingsInUse {
    /// All effective values.
    pub fn values(&self) -> Values {
        self.database.values().seen_by(self.session.lock().clone())
    }
}

/// The rows of `system.settings` for a statement with this configuration.
pub fn rows_in_use(config: &SessionConfig) -> Vec<SettingRow> {
    let in_use = config.get_extension::<SettingsInUse>();
    in_use.map(|in_use| SettingRow::all(&in_use.values())).unwrap_or_default()
}
