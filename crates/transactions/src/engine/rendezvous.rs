//! Meeting of several partitions for one transaction over their rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use thermocline_machine::ids::{Micros, PartitionId, Sequence};
use thermocline_machine::interrupt::{Interrupt, POLL_INTERVAL};
use thermocline_machine::{Clock, EventCount, Step, Wait};
use thermocline_tables::partition::Member;
use thermocline_types::{Error, Result};

use super::executor::abort;

/// A place where several partitions bring their rows for one transaction over all of them.
///
/// ```text
///            arrive (last)          ready                  end
/// Gathering --------------> Taken -------> Ready          +-----> Over(sequence)
///     |                       |              | enter      |          ^
///     |                       |              +---> Taken -+ put_back |
///     |                       +--------------------- end ------------+
///     |                                      | idle too long         |
///     | stopped                              +-----------------------+
///     +--------------------------------------------------------------+
/// ```
///
/// The thread that took the rows has exclusive access; a partition that brought its own waits until it can [take them
/// along](Rendezvous::leave). Without a session, the last partition to arrive does the work and ends the rendezvous.
#[derive(Debug)]
pub struct Rendezvous {
    state: Mutex<State>,
    changed: Arc<EventCount>,
    /// The partitions that meet.
    partitions: Box<[u32]>,
    /// Number of partitions whose turn has come, whether or not they have brought their rows.
    announced: AtomicUsize,
    purpose: Purpose,
    clock: Clock,
}

/// Purpose of a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of clients. Several may run before the partitions leave.
    Request,
    /// Work of the engine itself at one point of the log.
    Exclusive,
    /// A session's transaction, which may be idle for this long while it has the partitions.
    RowSession(Duration),
}

#[derive(Debug)]
struct State {
    /// Partitions that are here and not taken, in order.
    members: Vec<Member>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Gathering,
    /// A thread works on the rows.
    Taken,
    /// A session has the partitions and has been idle since then.
    Ready(Micros),
    /// The log must be durable up to this sequence before results of the work may be told.
    Over(Result<Sequence>),
}

/// Role of a partition that arrives.
#[derive(Debug)]
pub enum Arrival {
    /// Wait for the others.
    First,
    /// Do the work, with all partitions.
    Last(Vec<Member>),
    /// Go on with its rows: the rendezvous was given up before all had arrived.
    GivenUp(Box<Member>),
}

impl Rendezvous {
    /// A rendezvous of these partitions.
    pub fn new(partitions: &[u32], purpose: Purpose, clock: Clock) -> Self {
        let members = Vec::with_capacity(partitions.len());
        Self {
            state: Mutex::new(State { members, phase: Phase::Gathering }),
            changed: EventCount::new(),
            partitions: partitions.into(),
            announced: AtomicUsize::new(0),
            purpose,
            clock,
        }
    }

    /// The partitions that meet.
    pub const fn partitions(&self) -> &[u32] {
        &self.partitions
    }

    /// Notes, once for each partition, that its turn has come; returns whether it is the last. Until then the others
    /// [need not wait](Rendezvous::is_awaited): they may bring their rows later.
    pub fn announce(&self) -> bool {
        self.announced.fetch_add(1, Ordering::SeqCst) + 1 == self.partitions.len()
    }

    /// Whether the turn of some partition has not come yet, and the rendezvous is not over.
    pub fn is_awaited(&self) -> bool {
        self.announced.load(Ordering::SeqCst) < self.partitions.len()
    }

    /// Whether a session gets the partitions when all are here.
    pub const fn is_of_session(&self) -> bool {
        matches!(self.purpose, Purpose::RowSession(_))
    }

    /// Whether this request may run together with another request that has the same partitions.
    pub fn can_join(&self, other: &Self) -> bool {
        let are_requests = self.purpose == Purpose::Request && other.purpose == Purpose::Request;
        are_requests && self.partitions == other.partitions
    }

    /// Whether its work was done in [another rendezvous](Rendezvous::can_join).
    pub fn is_joined(&self) -> bool {
        self.purpose == Purpose::Request && matches!(self.state.lock().phase, Phase::Over(Ok(_)))
    }

    const fn idle_max(&self) -> Option<Duration> {
        match self.purpose {
            Purpose::RowSession(idle_max) => Some(idle_max),
            Purpose::Request | Purpose::Exclusive => None,
        }
    }

    /// Brings a partition.
    pub fn arrive(&self, member: Member) -> Result<Arrival> {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Over(Err(error)) => return Err(error.clone()),
            Phase::Over(Ok(_)) => return Ok(Arrival::GivenUp(Box::new(member))),
            Phase::Gathering | Phase::Taken | Phase::Ready(_) => {}
        }
        let id = member.partition.id();
        let at = state.members.partition_point(|other| other.partition.id() < id);
        state.members.insert(at, member);
        if state.members.len() < self.partitions.len() {
            return Ok(Arrival::First);
        }
        state.phase = Phase::Taken;
        Ok(Arrival::Last(std::mem::take(&mut state.members)))
    }

    /// Returns the partition when the rendezvous is over, with the sequence up to which the log has to be durable.
    /// Takes the partitions away from a session that is idle for too long.
    pub fn leave(&self, id: PartitionId) -> Step<Result<(Member, Sequence)>> {
        let seen = self.changed.seen();
        let mut state = self.state.lock();
        let wait = Wait::new(&self.changed, seen);
        match &state.phase {
            Phase::Over(Ok(sequence)) => {
                let sequence = *sequence;
                Step::Over(take(&mut state.members, id).map(|member| (member, sequence)))
            }
            Phase::Over(Err(error)) => Step::Over(Err(error.clone())),
            Phase::Gathering => Step::Wait(wait.short()),
            // A session's use of the partitions advances no event: a worker that checks too early checks again.
            Phase::Taken => Step::Wait(match self.idle_max() {
                Some(idle_max) => wait.until(self.clock.after(idle_max)),
                None => wait.short(),
            }),
            Phase::Ready(since) => {
                let until = since.after(self.idle_max().unwrap_or(Duration::MAX));
                if self.clock.now() < until {
                    return Step::Wait(wait.until(until));
                }
                let aborted = abort(&mut state.members);
                self.over(state, aborted.map(|()| Sequence::ZERO));
                Step::Go
            }
        }
    }

    /// Hands the work to a session, after the last arrival.
    pub fn ready(&self, members: Vec<Member>) {
        self.put_back(members);
        self.changed.advance();
    }

    /// Takes the partitions for a session, once all are here; an interrupt gives them up. `None` if the rendezvous is
    /// over because the session was idle for too long, an error if it was cancelled.
    pub fn enter(&self, interrupt: Option<&Interrupt>) -> Step<Result<Option<Vec<Member>>>> {
        let seen = self.changed.seen();
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Ready(_) => {
                state.phase = Phase::Taken;
                Step::Over(Ok(Some(std::mem::take(&mut state.members))))
            }
            Phase::Over(Ok(_)) => Step::Over(Ok(None)),
            Phase::Over(Err(error)) => Step::Over(Err(error.clone())),
            Phase::Gathering | Phase::Taken => {
                let wait = Wait::new(&self.changed, seen);
                let Some(interrupt) = interrupt else { return Step::Wait(wait) };
                match interrupt.check() {
                    Err(stopped) if matches!(state.phase, Phase::Gathering) => {
                        self.over(state, Ok(Sequence::ZERO));
                        Step::Over(Err(stopped))
                    }
                    _ => Step::Wait(wait.until(self.clock.after(POLL_INTERVAL))),
                }
            }
        }
    }

    /// Puts the partitions back between two statements of the session, which keeps them.
    pub fn put_back(&self, members: Vec<Member>) {
        let mut state = self.state.lock();
        state.members = members;
        if matches!(state.phase, Phase::Taken) {
            state.phase = Phase::Ready(self.clock.now());
        }
    }

    /// Ends a rendezvous whose work was done in another one, so that no partition need come.
    pub fn joined(&self, sequence: Sequence) {
        self.over(self.state.lock(), Ok(sequence));
    }

    /// Ends the rendezvous and returns the partitions.
    pub fn end(&self, members: Vec<Member>, sequence: Result<Sequence>) {
        let mut state = self.state.lock();
        state.members = members;
        self.over(state, sequence);
    }

    /// Whether it is over; `None` if its request was withdrawn before.
    pub fn result(&self, interrupt: Option<&Interrupt>) -> Step<Result<Option<Sequence>>> {
        let seen = self.changed.seen();
        if let Phase::Over(sequence) = &self.state.lock().phase {
            return Step::Over(sequence.clone().map(Some));
        }
        let wait = Wait::new(&self.changed, seen);
        match interrupt {
            None => Step::Wait(wait),
            Some(interrupt) if interrupt.withdraws_now() => Step::Over(Ok(None)),
            Some(_) => Step::Wait(wait.until(self.clock.after(POLL_INTERVAL))),
        }
    }

    /// Gives up the partitions for a session that has not taken them.
    pub fn give_up(&self) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Gathering | Phase::Ready(_)) {
            let aborted = abort(&mut state.members);
            self.over(state, aborted.map(|()| Sequence::ZERO));
        }
    }

    /// Cancels the rendezvous because a partition cannot come.
    pub fn cancel(&self, error: Error) {
        let state = self.state.lock();
        if !matches!(state.phase, Phase::Over(_)) {
            self.over(state, Err(error));
        }
    }

    fn over(&self, mut state: MutexGuard<'_, State>, sequence: Result<Sequence>) {
        state.phase = Phase::Over(sequence);
        // No turn is awaited any more.
        self.announced.store(self.partitions.len(), Ordering::SeqCst);
        // Unlocks before the wake-up, because a woken thread takes the lock at once.
        drop(state);
        self.changed.advance();
    }
}

fn take(members: &mut Vec<Member>, id: PartitionId) -> Result<Member> {
    let at = members.iter().position(|member| member.partition.id() == id);
    at.map(|at| members.swap_remove(at)).ok_or_else(|| Error::internal("a partition that left a rendezvous twice"))
}
