//! TPC-C, revision 5.11: nine tables with exact decimals, five transactions at the standard mix.
//!
//! ```text
//! Scale --> define, load --> database --> violations (the consistency conditions)
//!             Terminal --Call--^
//! ```
//!
//! All tables are partitioned by warehouse, except the replicated ITEM. 1 % of the order lines and 15 % of the payments
//! involve a second warehouse; if that is in another partition, the transaction runs over both partitions. An order
//! with lines of several other warehouses may start with too few partitions, and then runs again with all that it
//! needs.
//!
//! ```
//! use thermocline_transactions::database::{RowEngine, Settings};
//! use thermocline_workloads::oltp::Language;
//! use thermocline_workloads::tpcc::{self, Condition, Scale};
//!
//! let settings = Settings { procedures: tpcc::registrations(Language::Rust)?, ..Settings::default() };
//! let database = RowEngine::in_memory(settings)?;
//! let scale = Scale::reduced(1);
//! tpcc::define(&mut database.session(), Language::Rust)?;
//! tpcc::load(&database, scale, 1)?;
//! assert_eq!(tpcc::violations(&mut database.session(), scale, &Condition::ALL)?, []);
//! # Ok::<(), thermocline_transactions::Error>(())
//! ```
//!
//! Departures: no terminals, and therefore no keying and think times; Delivery runs at once instead of from a queue;
//! HISTORY has the customer's number of payments as a further column, because tables need a primary key here.

mod check;
mod conditions;
mod draw;
mod load;
mod procedures;
mod rows;
mod scale;
mod schema;
mod terminal;

pub use check::{Answer, Queries, Violation, violations, violations_of};
pub use conditions::Condition;
pub use draw::last_name;
pub use load::load;
pub use procedures::registrations;
pub use rows::{Destination, items, warehouse};
pub use scale::Scale;
pub use schema::{DEFINITIONS, INDEXES, TABLES, Table, define};
pub use terminal::{Remote, Terminal, Transaction};
