//! The executors: threads around partitions, the order of transactions, and results that wait for the log.
//!
//! ```text
//! Client --submit--> queue 0 --> Worker 0: Executor --batch--> log --released--> Mailbox --> Client
//!            |                       |  Rendezvous
//!            +-----> queue 1 --> Worker 1: Executor
//! ```
//!
//! Data: a bounded queue for each partition, whose worker owns the rows; results that wait for the log in
//! [`CommitWaiters`]; delivered results in the [`Mailbox`] of the client. Everything that waits is a
//! [machine](thermocline_machine) whose steps return what they wait for: `Worker`, sessions' `Begin` and `Commit`,
//! [`Exclusive`]. Threads of the [`Executors`] drive workers, and callers' threads the other machines; a simulator
//! drives all of them.
//!
//! **One order.** A transaction over several partitions enters all their queues while all of these are locked, so any
//! two such transactions are in the same order everywhere, and no two can wait for each other. Each partition's worker
//! brings its rows to the rendezvous; the last to come runs the transaction over all of them.
//!
//! **Owners.** A session's transaction gets its partitions one after the other, and waits while it has some. The
//! `LockTable` keeps requests for its partitions out of all queues until it has ended, and detects sessions that wait
//! for each other.

mod client;
mod commit;
mod commit_queue;
mod commit_waiters;
mod exclusive;
mod executor;
mod executors;
mod fetcher;
mod fetches;
mod filling;
mod handle;
mod holds;
mod interactive;
mod lock_table;
mod mailbox;
mod program;
mod queue;
mod rendezvous;
mod request;
mod room;
mod shared;
mod worker;

pub use client::Client;
pub use commit::Commit;
pub use commit_waiters::CommitWaiters;
pub use exclusive::Exclusive;
pub use executor::{Executor, Heads, Ran};
pub use executors::{Executors, Options, Tuning, assemble};
pub use fetcher::Fetcher;
pub use fetches::WAITS_MAX;
pub(crate) use filling::Filling;
pub use handle::Handle;
pub(crate) use handle::{Made, built_for};
pub use holds::HoldTimes;
pub use interactive::{Begin, Interactive, Mark};
pub(crate) use mailbox::ROOM_TRIES;
pub use mailbox::{Mailbox, Reply, Ticket};
pub use program::{Journal, NoJournal, Program};
pub use rendezvous::Rendezvous;
pub use shared::{Item, Shared};
pub use worker::Worker;
