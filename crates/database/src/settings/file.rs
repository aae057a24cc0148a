//! The file of values that ALTER DATABASE SET has changed.

use std::collections::BTreeMap;
use std::path::Path;

use datafusion::common::Result;
use thermocline_catalog::SqlFile;
use thermocline_compute::default_config;
use thermocline_pushdown::user_err;

use super::name::Name;
use super::values::Values;
use crate::statement::{Change, SettingStatement, Statement};

/// First line of the file.
const HEADER: &str =
    "-- Thermocline settings. Written by ALTER DATABASE SET; edit it only while no process has the database.\n";
/// File name.
const NAME: &str = "settings.sql";

/// `DB/settings.sql`: values set by `ALTER DATABASE SET`.
#[derive(Debug)]
pub struct SettingsFile(SqlFile);

impl SettingsFile {
    /// The file of the database or backup in `directory`.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn open(directory: &Path) -> Result<Self> {
        SqlFile::open(directory, NAME, HEADER).map(Self)
    }

    /// Values by name; empty if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or contains anything but settings.
    pub fn read(&self) -> Result<BTreeMap<String, String>> {
        let place = || self.0.path().display().to_string();
        let mut values = BTreeMap::new();
        for statement in Statement::parse(&self.0.read()?).map_err(|error| error.context(place()))? {
            let in_line = |what: &dyn std::fmt::Display| format!("{}, line {}: {what}", place(), statement.line());
            match SettingStatement::of(&statement)? {
                Some(SettingStatement::AlterDatabase(Change::Set(name, value))) => {
                    let name = Name::find(&name).map_err(|error| error.context(in_line(&statement.text)))?;
                    values.insert(name.plain().to_owned(), value);
                }
                _ => return user_err!(Syntax, "{}", in_line(&"expected ALTER DATABASE SET name = 'value'")),
            }
        }
        Ok(values)
    }

    /// Checks the values, as far as possible without a database.
    ///
    /// # Errors
    /// As [`SettingsFile::read`], and if a value is invalid. A file that a value names may be elsewhere.
    pub fn check(&self) -> Result<()> {
        let mut values = Values::new(default_config(None));
        for (name, value) in self.read()? {
            let name = Name::find(&name)?;
            if name.file_of(&value).is_none() {
                values.set(&name, &value).map_err(|error| error.context(self.0.path().display().to_string()))?;
            }
        }
        Ok(())
    }

    /// Replaces all values.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn write(&self, values: &BTreeMap<String, String>) -> Result<()> {
        let line =
            |(name, value): (&String, &String)| format!("ALTER DATABASE SET {name} = '{}';", value.replace('\'', "''"));
        self.0.write(values.iter().map(line))
    }

    /// Copies the file to another directory, if it exists.
    ///
    /// # Errors
    /// If the file cannot be read, or the other directory cannot be written.
    pub fn copy_to(&self, directory: &Path) -> Result<()> {
        self.0.copy_to(directory)
    }
}
