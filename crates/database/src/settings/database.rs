//! A database's values of settings: those that sessions share, and initial ones of new sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_compute::{AnalyticEngine, CachePolicy};
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
    /// Reads the settings in the directory; `given` overrides them. A cache policy in the directory whose trace cannot be
    /// used is a warning, and the cache follows the default one: the file may have been moved, or be another machine's.
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
        let mut traces = vec![];
        for (name, value) in kept.iter().filter(|(name, _)| !by_name.contains_key(*name)) {
            let name = Name::find(name)?;
            values.note(&name, Source::Database);
            match name.file_of(value) {
                Some(path) => traces.push((name, value, path)),
                None => values.set(&name, value).map_err(|error| error.context("settings.sql"))?,
            }
        }
        // After all others: one of them says which files are allowed.
        for (name, value, path) in traces {
            let allowed = values.session.query().allowed_locations;
            if let Err(error) = name.check_file(value, &allowed).and_then(|()| values.set(&name, value)) {
                values.engine.cache_policy = CachePolicy::without_trace(path);
                tracing::warn!(
                    "settings.sql: {} is {value}, which cannot be used: {}; the cache follows {} instead, until the \
                     database is opened with that file again, or ALTER DATABASE SET {} changes it",
                    name.plain(),
                    error.strip_backtrace(),
                    values.engine.cache_policy.name(),
                    name.plain()
                );
            }
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
            Some(value) => next.insert(name.plain().to_owned(), name.kept(value)),
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

#[cfg(test)]
mod tests {
    use std::fs;

    use thermocline_compute::default_config;

    use super::*;

    /// A trace of a lookup that needs nothing.
    const TRACE: &str = concat!(
        "{\"version\":1,\"workload\":\"ssb\",\"scale\":1.0,\"format\":\"parquet\"}\n",
        "{\"query\":0,\"name\":\"Q1.1\",\"partitions\":[]}\n"
    );

    #[test]
    fn a_kept_policy_whose_trace_cannot_be_used_opens_with_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, elsewhere) = (folder.path().join("db"), folder.path().join("elsewhere"));
        fs::create_dir_all(&elsewhere).unwrap();
        let trace = elsewhere.join("ssb.trace");
        let policy = format!("belady:{}", trace.display());
        let kept = [("cache_policy", policy.as_str()), ("cache_size", "2GiB")];
        let kept = BTreeMap::from(kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
        SettingsFile::open(&directory).unwrap().write(&kept).unwrap();
        let name = Name::find("cache_policy").unwrap();
        let open = |given: &[(String, String)]| {
            let file = SettingsFile::open(&directory).unwrap();
            DatabaseSettings::open(Values::new(default_config(None)), Some(file), given).unwrap()
        };
        let followed = |given: &[(String, String)]| {
            let values = open(given).values();
            assert_eq!((values.get(&name), values.source(&name)), (Some(policy.clone()), Source::Database));
            assert_eq!(values.engine.cache_size, 2 << 30, "others are as they are");
            values.engine.cache_policy.name()
        };
        let allowed = |place: &std::path::Path| [("allowed_locations".to_owned(), place.display().to_string())];
        assert_eq!(followed(&[]), "lfu", "it is gone");
        fs::write(&trace, TRACE).unwrap();
        assert_eq!(followed(&[]), "belady");
        assert_eq!(followed(&allowed(&elsewhere)), "belady");
        assert_eq!(followed(&allowed(&directory)), "lfu", "it is not allowed");
        fs::write(&trace, TRACE.lines().next().unwrap()).unwrap();
        assert_eq!(followed(&[]), "lfu", "it has no lookups");
        fs::write(&trace, "x").unwrap();
        assert_eq!(followed(&[]), "lfu", "it is damaged");

        // It stays in the file when another one changes, until it is reset.
        let settings = open(&[]);
        settings.alter(&Change::Set("footer_cache_size".to_owned(), "1GiB".to_owned())).unwrap();
        assert_eq!(settings.values().get(&name), Some(policy.clone()));
        fs::write(&trace, TRACE).unwrap();
        assert_eq!(followed(&[]), "belady");
        settings.alter(&Change::Reset("cache_policy".to_owned())).unwrap();
        assert_eq!(open(&[]).values().get(&name).as_deref(), Some("lfu"));
        // A value given for this opening is not taken for another one.
        let given = [("cache_policy".to_owned(), format!("belady:{}", elsewhere.join("gone").display()))];
        let file = SettingsFile::open(&directory).unwrap();
        assert!(DatabaseSettings::open(Values::new(default_config(None)), Some(file), &given).is_err());
    }
}
