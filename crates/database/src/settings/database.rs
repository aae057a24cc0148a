//! A database's values of settings: those that sessions share, and initial ones of new sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_compute::AnalyticEngine;
use thermocline_types::{Class, Scope};

use super::file::SettingsFile;
use super::name::Name;
use super::session::SessionSettings;
use super::values::{Source, Values};
use crate::bridge::external;
use crate::rows::RowStore;
use crate::statement::Change;

/// Settings of a database: values shared by its sessions, and initial values of new sessions.
#[derive(Debug)]
pub struct DatabaseSettings {
    values: Mutex<Values>,
    /// Built-in values.
    built_in: Values,
    /// `None` for a database without a directory.
    file: Option<SettingsFile>,
    /// Values in the file, by name.
    kept: Mutex<BTreeMap<String, String>>,
    /// Values given at opening, by name.
    given: BTreeMap<String, String>,
    /// Engines to notify of changes.
    engines: OnceLock<(Arc<AnalyticEngine>, Arc<RowStore>)>,
}

impl DatabaseSettings {
    /// Reads the settings in the directory; `given` overrides them.
    ///
    /// # Errors
    /// If the file cannot be read, or a value is invalid.
    pub fn open(built_in: Values, file: Option<SettingsFile>, given: &[(String, String)]) -> Result<Self> {
        let kept = file.as_ref().map_or_else(|| Ok(BTreeMap::new()), SettingsFile::read)?;
        let mut values = built_in.clone();
        let mut by_name = BTreeMap::new();
        for (written, value) in given {
            let name = Name::find(written)?;
            values.set(&name, value)?;
            values.note(&name, Source::Given);
            by_name.insert(name.plain().to_owned(), value.clone());
        }
        for (name, value) in kept.iter().filter(|(name, _)| !by_name.contains_key(*name)) {
            let name = Name::find(name)?;
            values.set(&name, value).map_err(|error| error.context("settings.sql"))?;
            values.note(&name, Source::Database);
        }
        let (values, kept) = (Mutex::new(values), Mutex::new(kept));
        Ok(Self { values, built_in, file, kept, given: by_name, engines: OnceLock::new() })
    }

    /// Notifies the engines of changes from now on.
    pub fn follow(&self, engine: Arc<AnalyticEngine>, rows: Arc<RowStore>) {
        // Called once per database.
        let _ = self.engines.set((engine, rows));
    }

    /// The current values.
    pub fn values(&self) -> Values {
        let mut values = self.values.lock().clone();
        if let Some((_, rows)) = self.engines.get() {
            // An existing database has its own number of partitions.
            values.rows = rows.settings();
        }
        values
    }

    /// Initial settings of a new session.
    pub fn session(&self) -> SessionSettings {
        self.values.lock().session.clone()
    }

    /// Changes a value for this process, as if given at opening; the directory is not changed.
    ///
    /// # Errors
    /// 42704, 22023, or 55P02 if it is fixed at opening.
    pub fn set(&self, written: &str, value: &str) -> Result<()> {
        self.change(&Name::find(written)?, value, Source::Given)
    }

    /// Runs `ALTER DATABASE`: changes values and stores them in the directory.
    ///
    /// # Errors
    /// As [`DatabaseSettings::set`], and if the directory cannot be written; then nothing changes.
    pub fn alter(&self, change: &Change) -> Result<()> {
        match change {
            Change::Set(written, value) => self.alter_one(&Name::find(written)?, Some(value)),
            Change::Reset(written) => self.alter_one(&Name::find(written)?, None),
            Change::ResetAll => {
                let names: Vec<_> = self.kept.lock().keys().cloned().collect();
                names.iter().try_for_each(|name| self.alter_one(&Name::find(name)?, None))
            }
        }
    }

    fn alter_one(&self, name: &Name, value: Option<&str>) -> Result<()> {
        let mut kept = self.kept.lock();
        let mut next = kept.clone();
        match value {
            Some(value) => next.insert(name.plain().to_owned(), value.to_owned()),
            None => next.remove(name.plain()),
        };
        let (value, source) = match (value, self.given.get(name.plain())) {
            (Some(value), _) => (value.to_owned(), Source::Database),
            (None, Some(given)) => (given.clone(), Source::Given),
            (None, None) => (self.built_in.get(name).unwrap_or_default(), Source::Default),
        };
        let before = self.values.lock().clone();
        match self.change(name, &value, source) {
            // The value takes effect at the next opening.
            Err(error) if self.file.is_some() && is_decided_at_opening(name) => {
                before.clone().set(name, &value)?;
                tracing::warn!("{}: {}", name.plain(), error.strip_backtrace());
            }
            changed => changed?,
        }
        if let Some(file) = &self.file
            && let Err(error) = file.write(&next)
        {
            let _ = self.tell(&before);
            *self.values.lock() = before;
            return Err(error);
        }
        *kept = next;
        Ok(())
    }

    fn change(&self, name: &Name, value: &str, source: Source) -> Result<()> {
        let mut values = self.values.lock();
        let mut next = values.clone();
        if let Some((_, rows)) = self.engines.get() {
            next.rows = rows.settings();
        }
        next.set(name, value)?;
        next.note(name, source);
        match name {
            Name::Engine(setting) if setting.scope == Scope::Opening => return Err(too_late(name)),
            Name::Engine(_) | Name::Rows(_) => self.tell(&next)?,
            Name::Query(_) | Name::Session(_) | Name::Library(_) => {}
        }
        *values = next;
        Ok(())
    }

    /// Notifies the engines of values.
    fn tell(&self, values: &Values) -> Result<()> {
        let Some((engine, rows)) = self.engines.get() else { return Ok(()) };
        rows.change(&values.rows).map_err(|why| external(Class::CannotChangeSetting.error(why)))?;
        engine.apply(values.engine.clone())
    }
}

fn is_decided_at_opening(name: &Name) -> bool {
    name.scope() == Scope::Opening
}

fn too_late(name: &Name) -> datafusion::common::DataFusionError {
    let name = name.plain();
    let message = format!(
        "{name} is decided when the database is opened: give it with --set, or ALTER DATABASE SET {name} for the next time"
    );
    external(Class::CannotChangeSetting.error(message))
}
