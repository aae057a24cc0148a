//! Threads around partitions: routing, order, and results that wait for the log.
//!
//! ```text
//! Client --submit--> queue 0 --> thread 0: Executor --batch--> log --released--> Mailbox --> Client
//!            |                       |  Meeting
//!            +-----> queue 1 --> thread 1: Executor
//! ```
//!
//! Data: a bounded queue for each partition, whose thread owns the rows; what ran and waits for the log
//! in [`Held`]; results in the [`Mailbox`] of the client that asked. Everything below the threads
//! ([`Executor`], [`run`], [`Held`]) takes time and seeds as arguments and calls nothing that waits, so
//! that a simulator can drive it.
//!
//! **One order.** A transaction over several partitions enters all their queues while all of these are
//! locked, so any two of them meet in the same order everywhere, and none can wait for one that waits
//! for it. Each partition's thread brings its rows to the meeting; the last to come runs the
//! transaction over all of them.

mod client;
#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod engine;
mod exclusive;
mod executor;
mod handle;
mod held;
mod interactive;
mod mailbox;
mod meeting;
mod program;
mod queue;
mod releases;
mod shared;
mod weigh;
mod worker;

pub use client::Client;
pub use engine::{Engine, Options};
pub use executor::{Executor, Heads, Ran, run};
pub(crate) use executor::{abort, begin, commit, log_effects};
pub use handle::Handle;
pub use held::Held;
pub use interactive::Interactive;
pub use mailbox::{Mailbox, Reply, Ticket};
pub use program::{Appended, Journal, NoJournal, Program, Route};
pub use releases::Releases;
pub use weigh::Weigh;
