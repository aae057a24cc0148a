//! One session over both engines.

mod column_names;
mod copy;
mod copy_statement;
mod create_table_as;
mod describe;
mod explain;
mod headings;
mod insert;
mod open;
mod prepared;
mod route;
mod scanner;
mod script;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod session;
mod sort_keys;
mod statement;
mod token;

pub use copy::Streams;
pub use headings::Headings;
pub use open::OpenOptions;
pub use scanner::{Completeness, Scanner};
pub use script::{Part, Script};
pub use session::{Session, sqlstate};
pub use statement::Statement;
