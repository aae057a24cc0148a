//! Statements: splitting of scripts, parsing, and properties that follow from the text.

mod column_names;
mod copy_statement;
mod headings;
mod names;
mod parsed;
mod printed;
mod scanner;
mod script;
mod setting_statement;
mod sort_keys;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod statement;
mod tables;
mod templates;
mod token;
mod variables;
mod windows;

pub use column_names::check_view;
pub use headings::Headings;
pub use names::simple;
pub use parsed::Parsed;
pub use scanner::{Completeness, Scanner};
pub use script::{Part, Script};
pub use setting_statement::{Change, SettingStatement};
pub use statement::{Statement, Written};
pub use tables::tables_of;
pub use templates::{derived, plain_query, plain_statement};
pub use variables::Variables;
