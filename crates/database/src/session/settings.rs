//! SET, RESET, SHOW and ALTER DATABASE.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::Result;
use thermocline_compute::EngineStream;
use thermocline_types::Class;

use super::session::Session;
use crate::bridge::external;
use crate::error::Error;
use crate::settings::{Name, SettingRow, Values};
use crate::statement::{Change, SettingStatement};

/// `SET`, `RESET`, `SHOW` and `ALTER DATABASE`.
impl Session {
    pub(super) fn setting(&self, statement: &SettingStatement) -> Result<EngineStream> {
        match statement {
            SettingStatement::Session(change) => self.change(change)?,
            SettingStatement::AlterDatabase(change) => {
                if let Change::Set(written, value) = change {
                    Name::find(written)?.check_file(value, &self.settings().allowed_locations)?;
                }
                self.database().own_settings().alter(change)?;
            }
            SettingStatement::Show(written) => {
                let name = Name::find(written)?;
                let unknown = || external(Class::UndefinedObject.error(format_args!("there is no setting {written}")));
                let value = self.values().get(&name).ok_or_else(unknown)?;
                return self.texts(&[(name.plain(), vec![value])]);
            }
            SettingStatement::ShowAll => {
                let rows = SettingRow::all(&self.values());
                let column = |of: fn(&SettingRow) -> &str| rows.iter().map(|row| of(row).to_owned()).collect();
                return self.texts(&[
                    ("name", column(SettingRow::plain)),
                    ("setting", column(|row| &row.value)),
                    ("description", column(|row| row.description)),
                ]);
            }
        }
        Ok(self.engine().nothing())
    }

    /// Changes a setting, like `SET`. The prefix `thermocline.` is optional.
    ///
    /// # Errors
    /// 42704 if there is no such setting, 22023 for an invalid value, 55P02 if all sessions share it.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        Ok(self.change(&Change::Set(name.to_owned(), value.to_owned()))?)
    }

    /// The effective values of this session.
    pub fn values(&self) -> Values {
        self.settings_in_use().values()
    }

    fn change(&self, change: &Change) -> Result<()> {
        // RESET returns to the values of the database.
        let database = self.database().settings();
        let mut values = database.seen_by(self.own().lock().clone());
        match change {
            Change::Set(written, value) => {
                let name = own_name(written, value)?;
                values.set(&name, value)?;
                values.session.note(&name, true);
            }
            Change::Reset(written) => {
                let name = own_name(written, "...")?;
                values.set(&name, &database.get(&name).unwrap_or_default())?;
                values.session.note(&name, false);
            }
            Change::ResetAll => {
                for name in values.session.own_names() {
                    let name = Name::find(&name)?;
                    values.set(&name, &database.get(&name).unwrap_or_default())?;
                    values.session.note(&name, false);
                }
            }
        }
        *self.own().lock() = values.session;
        Ok(())
    }

    fn texts(&self, columns: &[(&str, Vec<String>)]) -> Result<EngineStream> {
        let arrays =
            columns.iter().map(|(name, values)| (*name, Arc::new(StringArray::from_iter_values(values)) as ArrayRef));
        let rows = RecordBatch::try_from_iter(arrays)?;
        Ok(self.engine().rows_of(rows.schema(), vec![rows]))
    }
}

/// Finds a session setting; an error for shared settings.
fn own_name(written: &str, value: &str) -> Result<Name> {
    let name = Name::find(written)?;
    if name.is_shared() {
        let message = format!("{} is shared by all sessions of the database", name.plain());
        let error = Error::from(Class::CannotChangeSetting.error(message)).about(name.plain());
        return Err(error
            .with_hint(format!("ALTER DATABASE SET {} = '{value}' changes it for all", name.plain()))
            .into());
    }
    Ok(name)
}
