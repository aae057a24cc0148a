//! TPC-C on other databases: the tables, rows, terminals and conditions of `thermocline bench tpcc`, over stored
//! procedures that do the same in the server's language.
//!
//! ```text
//! rows of crates/workloads --load--> tables <--Caller, one call a transaction-- Terminal
//!                                       ^------ check: conditions 1 to 10 and 12, after the run
//! ```
//!
//! A transaction that the server ends for a deadlock runs again until it commits; its latency has all of its runs.

mod check;
mod lines;
mod load;
mod mariadb;
mod peer;
mod postgresql;
mod run;

pub use peer::TpccPeer;
pub use run::run;
