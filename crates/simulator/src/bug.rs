//! Errors planted on purpose, from outside the machines that they affect.

use std::str::FromStr;

use thermocline_durability::disk::Disk;
use thermocline_durability::log::{Appended, Batch, LogHandle};
use thermocline_durability::recovery::{Choice, Halt, Plan, Recovered, Replay};
use thermocline_machine::ids::Sequence;
use thermocline_machine::random::Random;
use thermocline_transactions::database::Work;
use thermocline_transactions::engine::{Item, Journal, Shared};
use thermocline_types::Result;

/// A planted error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Clients are told before the log is synced.
    ReleasedBeforeSync,
    /// Clients are told results of reads over several partitions, or in sessions' transactions, before the changes read
    /// are durable.
    ReadsDoNotWait,
    /// One partition's queue swaps two transactions over several partitions.
    SwappedOrder,
    /// A machine misses a wake-up and sleeps on.
    LostWakeUp,
    /// A torn tail stays when the log goes on behind it.
    TornTailNotCut,
    /// Recovery takes everything that it can read for durable.
    CacheTrusted,
    /// A snapshot copies rows in their current state, without earlier images.
    NoPreImages,
    /// A procedure's writes depend on something that is not logged.
    NotDeterministic,
}

impl Bug {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::ReleasedBeforeSync, "released-before-sync"),
        (Self::ReadsDoNotWait, "reads-do-not-wait"),
        (Self::SwappedOrder, "swapped-order"),
        (Self::LostWakeUp, "lost-wake-up"),
        (Self::TornTailNotCut, "torn-tail-not-cut"),
        (Self::CacheTrusted, "cache-trusted"),
        (Self::NoPreImages, "no-pre-images"),
        (Self::NotDeterministic, "not-deterministic"),
    ];
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(bug, _)| *bug).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no bug \"{text}\"; there are {}", names.join(", "))
        })
    }
}

impl Bug {
    /// [`recover`](thermocline_durability::recovery::recover) with [`Bug::TornTailNotCut`] or [`Bug::CacheTrusted`].
    pub(super) fn recover<R: Replay>(
        self,
        disk: &dyn Disk,
        replay: impl FnOnce(&Plan) -> Result<R>,
    ) -> Result<(R, Recovered)> {
        let plan = Plan::make(disk)?;
        let mut state = replay(&plan)?;
        let recovered = plan.replay(disk, &mut state, &mut |_| {}).map_err(Halt::into_error)?;
        let torn = matches!(plan.choice(), Choice::Recover { cut: true, .. });
        let is_skipped = torn == (self == Self::TornTailNotCut) && recovered.read_only.is_none();
        let end = if is_skipped { plan.log_end() } else { plan.repair(disk)? };
        Ok((state, Recovered { end, ..recovered }))
    }
}

/// The log, with or without [`Bug::ReadsDoNotWait`].
pub(super) struct Planted {
    pub log: LogHandle,
    pub bug: Option<Bug>,
}

impl Journal for Planted {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        if self.bug == Some(Bug::ReadsDoNotWait) && batch.is_empty() {
            return Ok(Appended::At(Sequence::ZERO));
        }
        Journal::append(&self.log, batch)
    }
}

/// [`Bug::SwappedOrder`]: swaps two rendezvous that wait in one queue.
pub(super) fn swap_rendezvous(shared: &Shared<Work>, random: &mut Random) {
    let Some(queue) = random.pick(&shared.queues) else { return };
    queue.rearrange(|items| {
        let all_rendezvous =
            (0..).zip(&*items).filter(|(_, item)| matches!(item, Item::Meet(..))).map(|(place, _)| place);
        if let [first, second, ..] = all_rendezvous.collect::<Vec<_>>()[..] {
            items.swap(first, second);
        }
    });
}
