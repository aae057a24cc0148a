//! The machine that runs the requests of one partition.

use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use thermocline_durability::log::Appended;
use thermocline_machine::ids::{Micros, PartitionId, Sequence};
use thermocline_machine::{Machine, Step, Wait, caught};
use thermocline_tables::partition::{FetchedRow, Head, Member, Wanted, WantedId, WantedRow};
use thermocline_tables::table::{Charge, Working};
use thermocline_types::{Error, Result};

use super::commit_waiters::unknown;
use super::executor::{self, Executor, Ran};
use super::fetches::{Fetch, Fetched, Followers, Reading, Waiting, next_wait, rest_of};
use super::mailbox::{Delivery, Mailbox};
use super::program::Program;
use super::queue::Popped;
use super::rendezvous::{Arrival, Rendezvous};
use super::request::Request;
use super::shared::{Item, Job, JobPlace, Shared};

/// Bytes of records or results after which a partition hands them over.
const BATCH_BYTES: usize = 1 << 20;
/// Rows that a partition moves together between two batches of requests, and when it has nothing else to do: a few
/// microseconds each, so that nobody waits for more than a few hundred.
const COMPACT_ROWS_BUSY: usize = 16;
const COMPACT_ROWS_IDLE: usize = 256;
/// How often a partition looks for sparse blocks while it finds none.
const RELOCATE_EVERY: Duration = Duration::from_millis(10);
/// Longest time that a partition spends on that while requests wait.
const RELIEVE_MAX: Duration = Duration::from_millis(1);
/// Transactions that need evicted rows whose reads begin together, if a batch of requests has so many: the first read
/// wakes the disk's reader, which finds the others then. Few enough that the first does not wait for long.
const FETCHES_MAX: usize = 16;
/// How long partitions that have met stay together before requests for a single one have their turn.
const JOIN_MAX: Duration = Duration::from_millis(1);

/// Owner of one partition, which runs the requests in its queue.
///
/// ```text
///              items                        none left
///   Take --------------> Run <-----------+------------------> Append: records to the log
///    ^                    | |            |                       |
///    |     one, visit     | | meet       |                     Hold: results to where they wait for it
///    |     +--------------+ |            |                       |
///    |     +-> Run          +-> Append,  |                     Rest: while too many wait
///    |                         Hold, Rest|                       |
///    |                           |       +-----------------------+
///    |                         Meet --- last ---> Log: the record of all
///    |                           |                 |
///    |                           +----- Leave <----+ ---> Append, Hold, Rest
///    +--- nothing left to run
/// ```
///
/// Invariants:
/// - records go to the log before the partition meets others, and results are held behind the record that they
///   depend on
/// - it runs no transaction while a snapshot of its rows
///   [falls behind](thermocline_tables::partition::Partition::held_up)
/// - requests for this partition alone may run before a rendezvous that was requested earlier, as long as the turn of
///   some other partition of the rendezvous has not come, and requests for several may run before their turn while
///   their partitions are together anyway: no client has been told an order of waiting requests. All others run in the
///   order of the queue
/// - after an error the partition has no rows, and answers queued requests with the reason why nothing runs any more
pub struct Worker<P: Program + ?Sized> {
    shared: Arc<Shared<P>>,
    id: PartitionId,
    executor: Executor,
    /// Sequence that must be durable before any contents of this partition may be told.
    last: Sequence,
    replies: Vec<Delivery<P::Outcome>>,
    /// Charge for the replies.
    results: Charge,
    /// Items taken from the queue.
    items: VecDeque<Item<P>>,
    /// When they were taken.
    now: Micros,
    /// Rendezvous that it is on the way to, or in; its waiters must not wait for ever.
    rendezvous: Option<Arc<Rendezvous>>,
    /// When it arrived there.
    arrived: Micros,
    /// Job of that rendezvous and the bytes that it points to, while the partition waits for the turn of the others and
    /// runs later requests.
    ahead: Option<(JobPlace<P::Outcome>, usize)>,
    batch_items: usize,
    /// Rows to be read for transactions, which has not begun.
    unread: Vec<Reading<P>>,
    /// Transactions that wait for rows which are read for others.
    followers: Followers<P>,
    /// When it looks next for sparse blocks.
    relocate_at: Micros,
    state: State<P>,
}

enum State<P: Program + ?Sized> {
    Take,
    Run,
    Append(Next<P>),
    Hold(Next<P>),
    Rest(Next<P>),
    Meet(JobPlace<P::Outcome>),
    /// The partitions of a rendezvous, and the transaction that ran over them.
    Log(Vec<Member>, Box<Met<P::Outcome>>),
    Leave,
}

/// Transaction that ran in a rendezvous.
struct Met<O> {
    replies: Vec<Delivery<O>>,
    /// Other rendezvous whose jobs were done in this one.
    joined: Vec<Arc<Rendezvous>>,
}

/// Next action of a worker with an item of the queue.
enum Turn<P: Program + ?Sized> {
    Run(Item<P>),
    /// Go on like this after records and results were handed over.
    Go(Next<P>),
}

/// Next state once records and results were handed over.
enum Next<P: Program + ?Sized> {
    Take,
    Run,
    Meet(JobPlace<P::Outcome>),
}

impl<P: Program + ?Sized> From<Next<P>> for State<P> {
    fn from(next: Next<P>) -> Self {
        match next {
            Next::Take => Self::Take,
            Next::Run => Self::Run,
            Next::Meet(job) => Self::Meet(job),
        }
    }
}

/// Runs requests until the queue is closed and empty, and returns the partition; `None` if a bug or the log has ended
/// it.
impl<P: Program + ?Sized> Machine for Worker<P> {
    type Output = Option<Member>;

    fn step(&mut self) -> Step<Option<Member>> {
        let id = self.id;
        match caught(format_args!("partition {}", id.0), || self.next()) {
            Ok(Ok(step)) => return step,
            Ok(Err(error)) => self.stop(error),
            Err(panic) => {
                self.lose(&panic);
                self.stop(panic);
            }
        }
        Step::Go
    }
}

impl<P: Program + ?Sized> Worker<P> {
    /// Worker of a partition before its first step. It takes up to `batch_items` requests from its queue at once, and
    /// hands their records to the log together.
    pub fn new(shared: Arc<Shared<P>>, id: PartitionId, executor: Executor, batch_items: usize) -> Self {
        let budget = executor.member.as_ref().map(|member| member.partition.budget());
        let results = budget.map(|budget| Charge::new(budget, Working::Results)).unwrap_or_default();
        Self {
            shared,
            id,
            executor,
            last: Sequence::ZERO,
            replies: Vec::new(),
            results,
            items: VecDeque::with_capacity(batch_items),
            now: Micros(0),
            rendezvous: None,
            ahead: None,
            arrived: Micros(0),
            state: State::Take,
            batch_items,
            unread: Vec::new(),
            followers: Followers::default(),
            relocate_at: Micros(0),
        }
    }

    /// The partition, unless a rendezvous has it or an error has ended it.
    pub fn member(&self) -> Option<&Member> {
        self.executor.member.as_ref()
    }

    /// The partitions whose records the next step appends to the log, if there is room; `None` if it appends none. If
    /// several have met, these are all of them, even without a record.
    pub fn appending(&self) -> Option<&[Member]> {
        match &self.state {
            State::Log(members, _) => Some(members),
            State::Append(_) if !self.executor.batch.is_empty() => self.executor.member.as_ref().map(slice::from_ref),
            _ => None,
        }
    }

    /// Tags of the results that the next step hands over.
    pub fn holding(&self) -> impl Iterator<Item = u64> {
        let replies = if matches!(self.state, State::Hold(_)) { &self.replies[..] } else { &[] };
        replies.iter().map(|(_, reply)| reply.tag)
    }

    /// The rendezvous that it is on the way to, or in.
    pub fn rendezvous(&self) -> Option<&Arc<Rendezvous>> {
        self.rendezvous.as_ref()
    }

    /// Stops the engine.
    fn stop(&mut self, error: Error) {
        if let Some(rendezvous) = self.rendezvous.take() {
            rendezvous.cancel(error.clone());
        }
        self.ahead = None;
        self.shared.stop(error);
        self.state = State::Run;
    }

    /// Fails the held results: changes here are in no log, and the results may depend on them.
    fn lose(&mut self, error: &Error) {
        self.executor.member = None;
        self.executor.batch.clear();
        Mailbox::deliver(self.replies.drain(..).map(|reply| unknown(reply, error)));
        drop(self.results.take());
    }

    fn next(&mut self) -> Result<Step<Option<Member>>> {
        match std::mem::replace(&mut self.state, State::Run) {
            State::Take => return Ok(self.take()),
            State::Run => match self.held_up() {
                // First the records and results of earlier requests.
                Some(_) if self.has_more_to_hand_over() => self.state = State::Append(Next::Run),
                Some(wait) => return Ok(Step::Wait(wait)),
                None => match self.turn() {
                    Turn::Run(item) => self.run(item)?,
                    Turn::Go(next) => self.state = State::Append(next),
                },
            },
            State::Append(next) => {
                self.begin_reads();
                if !self.executor.batch.is_empty() {
                    match self.shared.journal.append(&mut self.executor.batch) {
                        Ok(Appended::At(sequence)) => self.last = sequence,
                        Ok(Appended::Full(wait)) => {
                            self.state = State::Append(next);
                            return Ok(Step::Wait(wait));
                        }
                        Err(error) => {
                            self.lose(&error);
                            return Err(error);
                        }
                    }
                }
                self.state = State::Hold(next);
            }
            State::Hold(next) => {
                let results = self.results.take();
                self.state = if self.replies.is_empty() {
                    next.into()
                } else {
                    let number = usize::from(self.id.0);
                    self.shared.commit_waiters.hold(number, self.last, &mut self.replies, results);
                    State::Rest(next)
                };
            }
            State::Rest(next) => {
                if let Some(wait) = self.shared.commit_waiters.rest(self.id.0.into(), self.shared.results_bytes_max) {
                    self.state = State::Rest(next);
                    return Ok(Step::Wait(wait));
                }
                self.state = next.into();
            }
            State::Meet(job) => self.meet(&job)?,
            State::Log(members, met) => return self.log(members, met),
            State::Leave => return self.leave(),
        }
        Ok(Step::Go)
    }

    /// Whether something has to be handed over before this partition waits.
    fn has_more_to_hand_over(&self) -> bool {
        !self.executor.batch.is_empty() || !self.replies.is_empty() || !self.unread.is_empty()
    }

    /// Reads rows for a transaction, together with those of others.
    fn read_later(&mut self, fetch: Fetch<P>) {
        self.unread.push(Reading::Rows(fetch));
        if self.unread.len() >= FETCHES_MAX {
            self.begin_reads();
        }
    }

    /// Begins the reads for transactions that wait.
    fn begin_reads(&mut self) {
        self.unread.drain(..).for_each(|reading| self.shared.fetch(reading));
    }

    fn take(&mut self) -> Step<Option<Member>> {
        let Some(queue) = self.shared.queues.get(usize::from(self.id.0)) else {
            return Step::Over(self.executor.member.take());
        };
        let kept_bytes = self.ahead.as_ref().map_or(0, |(_, heap_bytes)| *heap_bytes);
        match queue.pop(&mut self.items, self.batch_items, kept_bytes) {
            Popped::Some => {
                self.now = (self.shared.timestamps)();
                self.relieve(COMPACT_ROWS_BUSY);
                Step::Go
            }
            Popped::Nothing(_) if self.ahead.is_none() && self.relieve(COMPACT_ROWS_IDLE) => {
                self.state = State::Take;
                Step::Go
            }
            // Checked after the queue, whose event the last partition of the rendezvous advances.
            Popped::Nothing(wait) if self.ahead.is_none() || self.is_early() => {
                self.state = State::Take;
                Step::Wait(wait)
            }
            Popped::Closed if self.ahead.is_none() => {
                self.followers.take().for_each(|waiting| waiting.request.ticket.refuse(self.shared.refusal()));
                Step::Over(self.executor.member.take())
            }
            Popped::Nothing(_) | Popped::Closed => {
                if let Some((job, _)) = self.ahead.take() {
                    self.state = State::Meet(job);
                }
                Step::Go
            }
        }
    }

    /// Takes a step towards the memory limit, if it is near, or several while it is very near; returns whether there is
    /// more to do.
    fn relieve(&mut self, rows: usize) -> bool {
        let Some(member) = &mut self.executor.member else { return false };
        let (partition, clock) = (&mut member.partition, &self.shared.clock);
        let begun = clock.now();
        if begun >= self.relocate_at && !partition.is_relocating() {
            let sparse = partition.begin_relocation();
            if sparse.is_empty() {
                self.relocate_at = clock.after(RELOCATE_EVERY);
            } else {
                self.shared.fetches.push(Reading::Sparse(self.id, sparse));
            }
        }
        loop {
            // A block that cannot be written is tried again by the next transaction that needs the memory, which tells
            // why.
            let is_over = !partition.relieve(rows).unwrap_or(false);
            let held = clock.since(begun);
            if is_over || !partition.budget().is_short() || held >= RELIEVE_MAX {
                self.shared.eviction_holds.add(self.id, begun);
                return !is_over;
            }
        }
    }

    /// Whether to hand over records and results although more could run.
    fn is_full(&self) -> bool {
        self.executor.batch.bytes().max(self.results.bytes()) >= BATCH_BYTES
    }

    /// Whether the turn of another partition of the rendezvous has not come.
    fn is_early(&self) -> bool {
        self.rendezvous.as_ref().is_some_and(|rendezvous| rendezvous.is_awaited())
    }

    /// Takes the next item. With a rendezvous ahead, this is a later request for this partition alone, even one after
    /// further rendezvous, as long as the turn of some partition has not come.
    fn turn(&mut self) -> Turn<P> {
        let Some(ahead) = self.ahead.take() else {
            return self.items.pop_front().map_or(Turn::Go(Next::Take), Turn::Run);
        };
        let place = self.items.iter().position(|item| !matches!(item, Item::Meet(..)));
        let turn = match place.map(|place| (place, self.items.get(place))) {
            _ if !self.is_early() => None,
            Some((place, Some(Item::One(_) | Item::Fetched(_)))) => self.items.remove(place).map(Turn::Run),
            Some(_) => None,
            None => (self.items.len() < self.batch_items).then_some(Turn::Go(Next::Take)),
        };
        // Earlier records of this partition precede those of work over all partitions.
        let Some(turn) = turn else { return Turn::Go(Next::Meet(ahead.0)) };
        self.ahead = Some(ahead);
        turn
    }

    /// Event that the next transaction must wait for; visits, such as steps of a snapshot, need not.
    fn held_up(&self) -> Option<Wait> {
        let is_transaction = self.ahead.is_some()
            || matches!(self.items.front(), Some(Item::One(_) | Item::Fetched(_) | Item::Meet(..)));
        self.executor.member.as_ref().filter(|_| is_transaction)?.partition.held_up()
    }

    fn run(&mut self, item: Item<P>) -> Result<()> {
        match item {
            Item::One(request) => self.one(request, 0)?,
            Item::Fetched(fetched) => self.fetched(*fetched)?,
            Item::Visit(visit) => {
                let begun = self.shared.clock.now();
                if let Some(member) = &mut self.executor.member {
                    visit(member);
                }
                self.held(begun);
            }
            Item::Meet(rendezvous, ..) if rendezvous.is_joined() => {}
            Item::Meet(rendezvous, job, heap_bytes) => {
                if rendezvous.announce() {
                    self.shared.nudge(&rendezvous);
                }
                (self.rendezvous, self.ahead) = (Some(rendezvous), Some((job, heap_bytes)));
            }
        }
        if self.is_full() {
            self.state = State::Append(Next::Run);
        }
        Ok(())
    }

    /// Runs a transaction again whose evicted rows were read.
    fn fetched(&mut self, Fetched { rows, waiting }: Fetched<P>) -> Result<()> {
        let (followers, begun) = (self.followers.fetched(&rows), self.shared.clock.now());
        let bytes = rows.iter().map(FetchedRow::bytes).sum();
        let back = self.executor.member.as_mut().map_or(Ok(()), |member| {
            member.partition.end_waits(followers.len() + usize::from(!rows.is_empty()));
            member.partition.bring_back_fetched(rows)
        });
        if let Err(error) = back {
            if let Some(member) = &mut self.executor.member {
                member.partition.unpin();
            }
            self.replies.extend(waiting.request.ticket.answer(Err(error)));
            // They may not need the row that could not be brought back.
            return followers.into_iter().try_for_each(|follower| self.one(follower.request, follower.waits));
        }
        if let Some(queue) = self.shared.queues.get(usize::from(self.id.0)) {
            queue.moved_to_tables(bytes);
        }
        self.shared.eviction_holds.add(self.id, begun);
        self.after_rows(waiting)?;
        followers.into_iter().try_for_each(|follower| self.after_rows(follower))
    }

    /// Runs a transaction whose rows are back, or reads more of them for it.
    fn after_rows(&mut self, Waiting { request, waits, rest }: Waiting<P>) -> Result<()> {
        let (Some(member), Some((_, rest))) = (&mut self.executor.member, rest.first()) else {
            return self.one(request, waits);
        };
        match member.partition.wanted_next(rest) {
            Ok(Wanted { rows, .. }) if rows.is_empty() => self.one(request, waits),
            Ok(Wanted { rows, rest, .. }) => {
                let waiting = Waiting { request, waits, rest: rest_of(self.id, rest) };
                self.read_later(Fetch { partition: self.id, rows, waiting });
                Ok(())
            }
            Err(error) => {
                self.replies.extend(request.ticket.answer(Err(error)));
                Ok(())
            }
        }
    }

    fn one(&mut self, request: Request<P>, waits: u32) -> Result<()> {
        let Request { program, arguments, ticket, interrupt } = request;
        if self.executor.member.is_none() {
            ticket.refuse(self.shared.refusal());
            return Ok(());
        }
        let results = Some(&mut self.results);
        let begun = interrupt.is_some().then(|| self.shared.clock.now());
        let may_wait = waits < self.shared.waits_max;
        let how = (interrupt.as_ref(), may_wait, Some(&*self.shared.eviction_holds));
        let ran = self.executor.run_interruptible(&*program, &arguments, self.now, how, results);
        if let (Some(begun), Some(interrupt)) = (begun, &interrupt) {
            interrupt.add_held(self.held(begun));
        }
        match ran {
            Ran::Done(Err(full @ Error::OutOfMemory(_)))
                if self.shared.may_have_room(self.executor.member.as_slice()) =>
            {
                let request = Request { program, arguments, ticket, interrupt };
                self.shared.request_after_room(&[self.id.0.into()], request, full);
            }
            Ran::Done(result) => self.replies.extend(ticket.answer(result)),
            Ran::OtherPartition(wanted) => {
                let had = self.executor.member.as_slice();
                self.shared.request_again(Request { program, arguments, ticket, interrupt }, had, &wanted);
            }
            Ran::Evicted => {
                let gone = || Err(Error::internal("a transaction on a partition that another one has"));
                let wanted = self.executor.member.as_mut().map_or_else(gone, |member| member.partition.wanted());
                let request = Request { program, arguments, ticket, interrupt };
                match wanted {
                    Ok(Wanted { rows, rest, are_all }) => {
                        let ids: Vec<WantedId> = rows.iter().map(WantedRow::wanted_id).collect();
                        let (waits, rest) = (next_wait(waits, are_all), rest_of(self.id, rest));
                        let waiting = Waiting { request, waits, rest };
                        if let Some(waiting) = self.followers.follow(&ids, waiting) {
                            self.read_later(Fetch { partition: self.id, rows, waiting });
                        }
                    }
                    Err(error) => self.replies.extend(request.ticket.answer(Err(error))),
                }
            }
            Ran::Broken(error) => {
                self.executor.member = None;
                ticket.refuse(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Records a hold of the partition since `since`, and returns its duration.
    fn held(&self, since: Micros) -> Duration {
        let held = self.shared.clock.since(since);
        if let Some(holds) = self.shared.holds.get(usize::from(self.id.0)) {
            holds.add(held);
        }
        held
    }

    fn meet(&mut self, job: &JobPlace<P::Outcome>) -> Result<()> {
        let Some(rendezvous) = &self.rendezvous else { return Err(Error::internal("a partition that meets nobody")) };
        let Some(member) = self.executor.member.take() else { return Err(self.shared.refusal()) };
        let head = self.executor.head(self.now);
        (self.arrived, self.state) = (self.shared.clock.now(), State::Leave);
        match rendezvous.arrive(member)? {
            Arrival::First => {}
            Arrival::GivenUp(member) => {
                self.executor.member = Some(*member);
                self.left();
                self.state = State::Run;
            }
            Arrival::Last(mut members) => {
                // This partition may have waited for others, which have run later transactions meanwhile.
                let head = Head { timestamp: (self.shared.timestamps)(), ..head };
                match job.lock().take() {
                    None => {
                        executor::begin(&mut members, head);
                        rendezvous.ready(members);
                    }
                    Some(job) => {
                        let mut met = Box::new(Met { replies: Vec::new(), joined: Vec::new() });
                        if let Err(error) = self.jobs(job, &mut members, head, &mut met) {
                            self.replies.append(&mut met.replies);
                            self.lose(&error);
                            return Err(error);
                        }
                        self.state = State::Log(members, met);
                    }
                }
            }
        }
        Ok(())
    }

    /// Does the work of the rendezvous, and for a while that of the next ones of the same partitions: meeting takes
    /// longer than most transactions. The other partitions will find those rendezvous over.
    fn jobs(
        &mut self,
        job: Job<P::Outcome>,
        members: &mut [Member],
        head: Head,
        met: &mut Met<P::Outcome>,
    ) -> Result<()> {
        let begun = self.shared.clock.now();
        met.replies.extend(job(members, head, &mut self.executor.batch, &mut self.results)?);
        let Some(here) = self.rendezvous.clone() else { return Ok(()) };
        let mut place = 0;
        while let Some(item) = self.items.get(place) {
            match item {
                Item::One(_) | Item::Fetched(_) => {
                    place += 1;
                    continue;
                }
                Item::Meet(rendezvous, ..) if rendezvous.can_join(&here) => {}
                Item::Meet(..) | Item::Visit(_) => break,
            }
            let is_long = self.shared.clock.since(begun) > JOIN_MAX;
            if self.is_full() || is_long || members.iter().any(|member| member.partition.held_up().is_some()) {
                break;
            }
            let Some(Item::Meet(rendezvous, job, _)) = self.items.remove(place) else { break };
            // No job: another partition of the rendezvous has done it.
            let Some(job) = job.lock().take() else { continue };
            let head = Head { timestamp: (self.shared.timestamps)(), ..self.executor.head(self.now) };
            met.joined.push(rendezvous);
            met.replies.extend(job(members, head, &mut self.executor.batch, &mut self.results)?);
        }
        Ok(())
    }

    /// Continues after its partition has left the rendezvous.
    fn left(&mut self) {
        if self.rendezvous.take().is_some_and(|rendezvous| rendezvous.is_of_session()) {
            self.shared.release(self.id);
        }
    }

    /// Logs the work of a rendezvous, after the last partition has run it.
    fn log(&mut self, members: Vec<Member>, met: Box<Met<P::Outcome>>) -> Result<Step<Option<Member>>> {
        // Results of reads also wait for every record that they may depend on.
        match self.shared.journal.append(&mut self.executor.batch) {
            Ok(Appended::At(sequence)) => {
                self.replies.extend(met.replies);
                met.joined.iter().for_each(|rendezvous| rendezvous.joined(sequence));
                if let Some(rendezvous) = &self.rendezvous {
                    rendezvous.end(members, Ok(sequence));
                }
                self.state = State::Leave;
                Ok(Step::Go)
            }
            Ok(Appended::Full(wait)) => {
                self.state = State::Log(members, met);
                Ok(Step::Wait(wait))
            }
            Err(error) => {
                Mailbox::deliver(met.replies.into_iter().map(|reply| unknown(reply, &error)));
                met.joined.iter().for_each(|rendezvous| rendezvous.cancel(error.clone()));
                self.lose(&error);
                Err(error)
            }
        }
    }

    fn leave(&mut self) -> Result<Step<Option<Member>>> {
        let Some(rendezvous) = &self.rendezvous else {
            return Err(Error::internal("a partition that leaves no rendezvous"));
        };
        let (member, sequence) = match rendezvous.leave(self.id) {
            Step::Over(left) => left?,
            Step::Go => {
                self.state = State::Leave;
                return Ok(Step::Go);
            }
            Step::Wait(wait) => {
                self.state = State::Leave;
                return Ok(Step::Wait(wait));
            }
        };
        self.executor.member = Some(member);
        self.held(self.arrived);
        self.left();
        self.last = self.last.max(sequence);
        // It may have waited for a long time.
        self.now = (self.shared.timestamps)();
        self.state = State::Append(Next::Run);
        Ok(Step::Go)
    }
}
