//! A database: both engines behind one session.
//!
//! ```text
//!              +-- row tables only, and the row engine does it --> thermocline-transactions
//! statement ---+
//!              +-- all else ----> thermocline-compute ----> external tables
//!                                                    +----> row tables, as of one moment
//! ```
//!
//! ```no_run
//! # async fn example() -> datafusion::common::Result<()> {
//! use thermocline_database::Session;
//!
//! let session = Session::in_memory().await?;
//! session.run("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)").await?;
//! session.run("INSERT INTO t VALUES (1, 'one')").await?;
//! let result = session.run("SELECT v, count(*) OVER () FROM t").await?;
//! assert_eq!(result.rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Deliberately left out: everything about rows, partitions and the log (`thermocline-transactions`),
//! everything about external tables (`thermocline-compute`), and listening for anybody.

mod arrow;
mod bridge;
mod copy;
mod rows;
mod session;
mod system;

pub use rows::{check, restore, restore_until};
pub use session::{Completeness, Headings, OpenOptions, Part, Scanner, Script, Session, Statement, Streams, sqlstate};
