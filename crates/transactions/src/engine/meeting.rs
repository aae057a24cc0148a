use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::executor::abort;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Sequence};
use crate::interrupt::Interrupt;
use crate::partition::Member;

/// Where the threads of several partitions bring their rows for one transaction over all of them.
///
/// ```text
///            arrive (last)              end
/// Gathering ---------------> Ready ------------> Over(sequence)
///     |                        |  idle too long       ^
///     | stopped                +----------------------+
///     +-----------------------------------------------+
/// ```
///
/// The threads stay in [`Meeting::arrive`] until it is over, so nobody else touches the rows.
#[derive(Debug)]
pub struct Meeting {
    state: Mutex<Gathered>,
    changed: Condvar,
    expected: usize,
    /// How long a session may do nothing while it has the partitions.
    idle_max: Duration,
}

/// How often a session that waits for partitions looks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The partitions of a meeting.
#[derive(Debug)]
pub struct Gathered {
    /// Those that are here, in the order of their numbers.
    pub members: Vec<Member>,
    phase: Phase,
    /// When a session last did something.
    active: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Gathering,
    Ready,
    /// Up to where the log has to be durable before what happened here may be told.
    Over(Result<Sequence>),
}

impl Meeting {
    /// A meeting of this many partitions.
    pub fn new(expected: usize, idle_max: Duration) -> Self {
        let members = Vec::with_capacity(expected);
        let state = Gathered { members, phase: Phase::Gathering, active: Instant::now() };
        Self { state: Mutex::new(state), changed: Condvar::new(), expected, idle_max }
    }

    /// Brings a partition and gives it back when the meeting is over, with the sequence up to which the
    /// log has to be durable. The last to come calls `all`, which runs the transaction over all of them
    /// and gives that sequence, or `None` to leave that to a session.
    pub fn arrive(
        &self,
        member: Member,
        all: impl FnOnce(&mut Vec<Member>) -> Option<Result<Sequence>>,
    ) -> Result<(Member, Sequence)> {
        let id = member.partition.id();
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Over(Err(error)) => return Err(error.clone()),
            // Given up before all were here.
            Phase::Over(Ok(sequence)) => return Ok((member, *sequence)),
            Phase::Gathering | Phase::Ready => {}
        }
        let at = state.members.partition_point(|other| other.partition.id() < id);
        state.members.insert(at, member);
        if state.members.len() == self.expected {
            state.phase = all(&mut state.members).map_or(Phase::Ready, Phase::Over);
            state.active = Instant::now();
            self.changed.notify_all();
        }
        loop {
            match &state.phase {
                Phase::Over(sequence) => {
                    let sequence = sequence.clone()?;
                    return leave(&mut state.members, id).map(|member| (member, sequence));
                }
                Phase::Gathering => self.changed.wait(&mut state),
                Phase::Ready => self.wait_for_session(&mut state),
            }
        }
    }

    /// Waits while a session has the partitions; takes them away from one that does nothing.
    fn wait_for_session(&self, state: &mut MutexGuard<'_, Gathered>) {
        let left = self.idle_max.saturating_sub(state.active.elapsed());
        if !left.is_zero() {
            self.changed.wait_for(state, left);
        } else if state.phase == Phase::Ready {
            state.phase = Phase::Over(abort(&mut state.members).map(|()| Sequence::ZERO));
            self.changed.notify_all();
        }
    }

    /// The partitions, for a session; waits until all are here or it is stopped, which gives back those that
    /// are. `None` if the meeting is over because the session did nothing for too long.
    pub fn enter(&self, interrupt: Option<&Interrupt>) -> Result<Option<MutexGuard<'_, Gathered>>> {
        let mut state = self.state.lock();
        while state.phase == Phase::Gathering {
            let Some(interrupt) = interrupt else {
                self.changed.wait(&mut state);
                continue;
            };
            if let Err(stopped) = interrupt.check() {
                state.phase = Phase::Over(Ok(Sequence::ZERO));
                self.changed.notify_all();
                return Err(stopped);
            }
            self.changed.wait_for(&mut state, LOOK_EVERY);
        }
        state.active = Instant::now();
        Ok((state.phase == Phase::Ready).then_some(state))
    }

    /// Waits until it is over; `None` if what it is for was withdrawn before that.
    pub fn wait(&self, interrupt: Option<&Interrupt>) -> Result<Option<Sequence>> {
        let mut state = self.state.lock();
        loop {
            if let Phase::Over(sequence) = &state.phase {
                return sequence.clone().map(Some);
            }
            let Some(interrupt) = interrupt else {
                self.changed.wait(&mut state);
                continue;
            };
            if interrupt.withdraws_now() {
                return Ok(None);
            }
            self.changed.wait_for(&mut state, LOOK_EVERY);
        }
    }

    /// A partition cannot come: nobody waits for it any longer.
    pub fn cancel(&self, error: Error) {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Over(_)) {
            state.phase = Phase::Over(Err(error));
            self.changed.notify_all();
        }
    }

    /// The session's transaction is over.
    pub fn end(&self, mut state: MutexGuard<'_, Gathered>, sequence: Result<Sequence>) {
        state.phase = Phase::Over(sequence);
        self.changed.notify_all();
    }
}

impl Gathered {
    /// The session has just done something.
    pub fn touch(&mut self) {
        self.active = Instant::now();
    }
}

fn leave(members: &mut Vec<Member>, id: PartitionId) -> Result<Member> {
    let at = members.iter().position(|member| member.partition.id() == id);
    at.map(|at| members.swap_remove(at)).ok_or_else(|| Error::internal("a partition that left a meeting twice"))
}
