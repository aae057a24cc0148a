//! Entry point to both engines: a process opens a [`Database`], and each connection uses a [`Session`].
//!
//! ```text
//!              +-- row tables only, and the row engine does it --> thermocline-transactions
//! statement ---+
//!              +-- all else ----> thermocline-compute ----> external tables
//!                                                    +----> row tables, as of one moment
//! ```
//!
//! ```no_run
//! # async fn example() -> thermocline_database::Result<()> {
//! use thermocline_database::Database;
//!
//! let session = Database::in_memory().await?.session();
//! session.run("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)").await?;
//! session.run("INSERT INTO t VALUES (1, 'one')").await?;
//! let result = session.run("SELECT v, count(*) OVER () FROM t").await?;
//! assert_eq!(result.rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Left out: rows and partitions (`thermocline-tables`), the log (`thermocline-durability`), external tables
//! (`thermocline-catalog`), and network listeners.

mod arrow;
mod bridge;
mod copy;
mod error;
mod maintenance;
mod rows;
mod session;
mod settings;
mod statement;
mod system;

pub use error::{Action, Error, Position, Result};
pub use maintenance::{check, restore, restore_state};
pub use session::{Database, Description, Listing, OpenOptions, QueryStream, Session, Streams};
pub use settings::{SettingRow, Source, Values, check_setting};
pub use statement::{Completeness, Headings, Part, Scanner, Script, Statement, Variables};
pub use thermocline_compute::{CachePolicy, QueryResult, cache_policy_names};
pub use thermocline_syntax::nearest;
