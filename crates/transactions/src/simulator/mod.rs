//! The engine's state machines under a simulated disk, clock and scheduler.
//!
//! ```text
//!  seed --> clients, scheduler, clock, disk
//!              |
//!              v            crash at an I/O, or in between
//!            Node: queues, Executors, Held, Collector, Writer, Copiers, SnapshotWriter
//!              |                                                        |
//!              | every result                                           v
//!              v                                         recovery: Plan, Rebuild
//!            Model  <---------------- compared with ----------- state, hash, schema
//! ```
//!
//! Everything but queues and meetings is the code that the threads of [`crate::engine`] and
//! [`crate::log`] drive. What holds after each recovery:
//! - what clients were told is there, also what they only read
//! - what is there is what ran up to one place in the log: no transaction in part, none without those
//!   before it
//! - rows, tuple ids and schema are those of that place, by the model and by state hash
//! - every index has its rows, every row is in its partition, replicated tables are alike
//!
//! One seed is one run. [`Bug`] puts known errors in, to see that the simulation finds them.
//!
//! Left out: threads and their locks, which the engine's own tests run.

mod node;
mod run;
mod workload;

pub use run::{Bug, Counts, Failure, Simulation};

#[cfg(test)]
mod tests;
