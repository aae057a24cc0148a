//! Settings: one registry, to which each engine contributes.
//!
//! ```text
//! ENGINE_SETTINGS, ROW_SETTINGS      scope database: one value, ALTER DATABASE SET
//! QUERY_SETTINGS, SESSION_SETTINGS   scope session: SET, and ALTER DATABASE SET for new sessions
//! datafusion.*                       scope session: options of the library that plans analytic queries
//!
//! built-in < DB/settings.sql < given when the database is opened < the session's own
//! ```

mod database;
mod file;
mod name;
mod session;
mod table;
mod values;

pub use database::DatabaseSettings;
pub use file::SettingsFile;
pub use name::Name;
pub use session::SessionSettings;
pub use table::{SettingRow, SettingsInUse, columns, rows_in_use};
pub use values::{Source, Values, check_setting};
