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
//! All of it is the code that [`Database`](thermocline_transactions::database::Database) has threads drive: [machines](thermocline_machine)
//! over queues, rendezvous and results that wait for the log. Here a scheduler steps whoever can go on, in an order
//! that the seed decides; whoever waits can go on once its event has advanced, so that a forgotten wake-up leaves
//! somebody waiting for ever. Clients run statements, procedures in Rust and Lua, sessions' transactions and
//! definitions, within limits that stop some of them, and load rows that nobody may see before all of them are there.
//!
//! What holds after each step: nothing is told before it is durable. At the end of a round all that was asked for is
//! answered, and all partitions came to the rendezvous that they share in one order. After each recovery:
//! - what clients were told is there, also what they only read
//! - what is there is what ran up to one place in the log: schema, rows and tuple ids by hash, also of rows of loads
//!   that were not over, which are gone before anything else runs
//! - every index has its rows, every row is in its partition
//!
//! And at the end what clients and recoveries saw is strictly serializable ([`checker`]).
//!
//! One seed is one run. [`Bug`] puts known errors in, to see that the simulation finds them.
//!
//! Left out: the threads that drive machines, which the tests of engine and database run; texts of statements as
//! sessions read them, and when snapshots are taken ([`thermocline_transactions::database`]).

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

pub use bug::Bug;
pub use counts::Counts;
pub use history::{Outcome, Step, Transaction};
pub use run::{Failure, Simulation};

#[cfg(test)]
mod tests;
