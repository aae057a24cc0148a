//! YCSB (Cooper et al. 2010): point reads and updates of 1 KB rows, with skewed keys.
//!
//! One table with a key and ten columns of 100 bytes. A read takes all columns of a row, an update gives
//! one column another value. Keys follow a Zipf distribution, drawn by rejection-inversion, which is exact
//! for every exponent; the generator of the original is not at 1.
//!
//! ```
//! use thermocline_transactions::database::{RowEngine, Settings};
//! use thermocline_transactions::types::Value;
//! use thermocline_workloads::oltp::Language;
//! use thermocline_workloads::ycsb;
//!
//! let settings = Settings { procedures: ycsb::registrations(Language::Rust)?, ..Settings::default() };
//! let database = RowEngine::in_memory(settings)?;
//! ycsb::define(&mut database.session(), ycsb::FIELD_BYTES, Language::Rust)?;
//! ycsb::load(&database, 100, ycsb::FIELD_BYTES, 1)?;
//! let row = database.session().execute("CALL ycsb_read($1)", &[Value::Int(7)])?;
//! assert_eq!(row.rows.width(), ycsb::FIELDS);
//! # Ok::<(), thermocline_transactions::Error>(())
//! ```
//!
//! Left out: inserts, scans and read-modify-write (the original's workloads D, E and F).

mod calls;
mod keys;
mod load;
mod mix;
mod procedures;
mod schema;
mod zipf;

pub use calls::YcsbCalls;
pub use keys::{KeyChooser, Skew};
pub use load::{load, row};
pub use mix::Mix;
pub use procedures::{procedures, registrations};
pub use schema::{FIELD_BYTES, FIELDS, TABLE, define, field_bytes, row_bytes};
pub use zipf::Zipf;
