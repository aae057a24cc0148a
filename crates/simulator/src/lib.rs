//! The engine's machines under a simulated disk, clock and scheduler.
//!
//! ```text
//!  seed --> plans of clients, scheduler, clock, disk
//!              |
//!              v            crash at an I/O, at any step, or none
//!            Node: Worker, Keeper, Begin, Commit, Exclusive, Definition, Copier ...
//!              |                                                        |
//!              | what clients see                                       v
//!              v                                         recovery: Plan, Rebuild, Replayer
//!           history: strictly serializable? <-- rows -- state, hash, schema
//! ```
//!
//! All of it is the code that threads of [`RowEngine`](thermocline_transactions::database::RowEngine) drive:
//! [machines](thermocline_machine) over queues, rendezvous and results that wait for the log. Here a scheduler steps
//! any machine that can go on, in an order decided by the seed. A waiting machine can go on once its event has
//! advanced, so a forgotten wake-up leaves it waiting for ever. Clients run statements, procedures in Rust and Lua,
//! transactions of sessions and definitions, within limits that stop some of them, and load rows that must stay
//! invisible until all of them are there.
//!
//! After each step, no result that is not durable has been told, unless the seed chose commits that do not wait for
//! the log. At the end of a round every request has been answered, and all partitions came to their shared rendezvous
//! in the same order. After each recovery:
//! - everything that clients were told is there, including what they only read, with the same exception
//! - the state is that of some place in the log: schema, rows and tuple ids by hash, including rows of unfinished
//!   loads, which are removed before anything else runs
//! - every index has its rows, and every row is in its partition
//!
//! At the end, the history of clients and recoveries must be strictly serializable ([`checker`]).
//!
//! One seed is one run. [`Bug`] plants known errors, to check that the simulation finds them.
//!
//! Left out: the threads that drive machines, which the tests of engine and database run; the parsing of statements by
//! sessions; and the schedule of snapshots ([`thermocline_transactions::database`]).

// See Cargo.toml.
use arrayvec as _;
use digest as _;
use subtle as _;

mod bug;
pub mod checker;
mod client;
mod counts;
pub mod fuzz;
mod history;
mod load;
mod node;
mod procedure;
mod run;
mod session;
mod snapshots;
mod states;
mod workload;
mod world;

pub use bug::Bug;
pub use counts::Counts;
pub use history::{Outcome, Step, Transaction};
pub use run::{Failure, Simulation};

#[cfg(test)]
mod tests;
