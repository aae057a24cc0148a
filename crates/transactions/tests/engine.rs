//! Engines with threads: concurrent clients, transactions over all partitions, sessions, a full queue,
//! a log that lags or fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::disk::{Disk, Faults, SimulatedDisk};
use thermocline_transactions::engine::{CommitWaiters, Executors, Journal, NoJournal, Options, Program, WAITS_MAX};
use thermocline_transactions::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_transactions::log::{
    Appended, Batch, Collector, Head as LogHead, LogEnd, LogSettings, LogThread, Writer,
};
use thermocline_transactions::partition::{Member, Participants, Partition, Scope};
use thermocline_transactions::schema::{Change, IndexId, Schema, TableDefinition, TableId};
use thermocline_transactions::sql::define;
use thermocline_transactions::table::Budget;
use thermocline_transactions::types::{PartitionHash, Value, ValueRef};
use thermocline_transactions::{Class, Error, Result};

const TABLE: TableId = TableId(0);

/// Accounts: procedures on (id, balance).
#[derive(Debug)]
enum Bank {
    /// (id, amount): returns the new balance.
    Add,
    /// (from, to, amount): declares only the first one's partition.
    Transfer,
    /// (from, to, amount): declares all partitions that it needs.
    Between,
    /// (one, two, three, payer): gives one to each of three; declares the partitions of the first two.
    More,
    /// (): the sum of all.
    Sum,
    /// (id, amount): adds, then fails.
    Fail,
    /// (gate): waits for the gate.
    Wait(Arc<gate::Gate>),
    /// (id): the transaction's time.
    Time,
}

/// A gate that a test opens.
mod gate {
    use std::sync::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub struct Gate(Mutex<bool>, Condvar);

    impl Gate {
        pub fn open(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }

        pub fn wait(&self) {
            drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
        }
    }
}

fn int(value: &Value) -> i64 {
    let Value::Int(number) = value else { panic!("{value:?}") };
    *number
}

fn add(scope: &mut Scope<'_>, id: i64, amount: i64) -> Result<i64> {
    let (partition, transaction) = scope.one(PartitionHash::of(ValueRef::Int(id)))?;
    let found = partition.table(TABLE)?.find(IndexId::PRIMARY, &(id ^ i64::MIN).to_be_bytes())?;
    let Some(tuple) = found else {
        partition.insert(TABLE, &[ValueRef::Int(id), ValueRef::Int(amount)], transaction)?;
        return Ok(amount);
    };
    let ValueRef::Int(balance) = partition.table(TABLE)?.row(tuple)?.value(1) else { panic!("a balance") };
    partition.update(TABLE, tuple, &[(1, ValueRef::Int(balance + amount))], transaction)?;
    Ok(balance + amount)
}

impl Program for Bank {
    type Outcome = i64;

    fn participants(&self, arguments: &[Value]) -> Result<Participants> {
        Ok(match self {
            Self::Sum => Participants::All,
            Self::Wait(_) => Participants::Any,
            Self::Between | Self::More => {
                Participants::to(&[0, 1].map(|place| PartitionHash::of(arguments[place].as_ref())))
            }
            _ => Participants::One(PartitionHash::of(arguments[0].as_ref())),
        })
    }

    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<i64> {
        match self {
            Self::Add => add(scope, int(&arguments[0]), int(&arguments[1])),
            Self::Fail => {
                add(scope, int(&arguments[0]), int(&arguments[1]))?;
                Err(Class::Raised.error("on purpose"))
            }
            Self::More => {
                for id in &arguments[..3] {
                    add(scope, int(id), 1)?;
                }
                add(scope, int(&arguments[3]), -3)
            }
            Self::Transfer | Self::Between => {
                add(scope, int(&arguments[0]), -int(&arguments[2]))?;
                add(scope, int(&arguments[1]), int(&arguments[2]))
            }
            Self::Sum => {
                let mut sum = 0;
                for (partition, _) in scope.all()? {
                    let table = partition.table(TABLE)?;
                    for id in table.scan() {
                        let ValueRef::Int(balance) = table.row(id)?.value(1) else { panic!("a balance") };
                        sum += balance;
                    }
                }
                Ok(sum)
            }
            Self::Wait(gate) => {
                gate.wait();
                Ok(0)
            }
            Self::Time => Ok(scope.head().timestamp.0),
        }
    }

    fn record(&self, batch: &mut Batch, head: &LogHead<'_>, arguments: &[Value]) -> Result<()> {
        let name = match self {
            Self::Add => "add",
            Self::Transfer => "transfer",
            _ => "other",
        };
        batch.call(head, name, 1, arguments)
    }
}

fn arguments(numbers: &[i64]) -> Box<[Value]> {
    numbers.iter().map(|number| Value::Int(*number)).collect()
}

fn members(count: u16) -> (Vec<Member>, Schema) {
    let create = "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL) PARTITION BY (id)";
    let (schema, change) = define(&Schema::default(), create).unwrap();
    let members = (0..count).map(|id| {
        let mut partition = Partition::new(PartitionId(id), count.into(), Arc::new(Budget::new(1 << 30)), 1);
        partition.define(&change).unwrap();
        Member::new(partition, 1 << 20)
    });
    (members.collect(), schema)
}

fn options(queue_length: usize) -> Options {
    Options {
        queue_length,
        results_bytes_max: 1 << 20,
        idle_max: Duration::from_millis(50),
        first_transaction: TransactionId(1),
        seed: 1,
        waits_max: WAITS_MAX,
        clock: Box::new(|| Micros(1)),
    }
}

/// An engine with a log on a simulated disk.
fn engine(partitions: u16, faults: Faults) -> (Executors<Bank>, LogThread, Arc<dyn Disk>, Schema) {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1, faults));
    let settings = LogSettings::default();
    let writer = Writer::new(
        Arc::clone(&disk),
        Identity { database: DatabaseId(1), partitions },
        settings.segment_bytes,
        LogEnd::empty(),
    );
    let commit_waiters = CommitWaiters::new(partitions.into());
    let told = Arc::clone(&commit_waiters);
    let told = Box::new(move |released| told.released(released));
    let log =
        LogThread::start(Collector::new(settings, Sequence(1)), writer, Arc::new(Budget::unlimited()), told).unwrap();
    let (members, schema) = members(partitions);
    let engine = Executors::start(options(1000), members, Arc::new(log.handle()), commit_waiters).unwrap();
    (engine, log, disk, schema)
}

/// A log that is durable when the test says so.
#[derive(Default)]
struct Manual(AtomicU64);

/// The same with slow appends.
#[derive(Default)]
struct Slow(Manual);

impl Journal for Slow {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        if !batch.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.0.append(batch)
    }
}

/// The most bytes that it was given at once.
#[derive(Default)]
struct Largest(AtomicU64);

impl Journal for Largest {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        self.0.fetch_max(batch.bytes() as u64, Ordering::SeqCst);
        batch.clear();
        Ok(Appended::At(Sequence::ZERO))
    }
}

impl Journal for Manual {
    fn append(&self, batch: &mut Batch) -> Result<Appended> {
        let records = u64::from(batch.records());
        batch.clear();
        Ok(Appended::At(Sequence(self.0.fetch_add(records, Ordering::SeqCst) + records)))
    }
}

#[test]
fn concurrent_transfers_leave_the_sum_and_every_order_is_one() {
    let (engine, _log, _disk, _schema) = engine(3, Faults::default());
    let mut client = engine.client();
    for id in 0..30 {
        assert_eq!(client.call(Arc::new(Bank::Add), arguments(&[id, 100])), Ok(100));
    }
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let mut client = engine.client();
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed);
                for _ in 0..100 {
                    let mut sums = BTreeMap::new();
                    for tag in 0..10 {
                        let [from, to] = [0, 1].map(|_| rng.random_range(0..30));
                        let (program, values) = match tag {
                            0 => (Bank::Sum, vec![]),
                            1 => (Bank::Fail, vec![from, 7]),
                            _ => (Bank::Transfer, vec![from, to, rng.random_range(1..20)]),
                        };
                        client.submit(Arc::new(program), arguments(&values), tag).unwrap();
                    }
                    client.send();
                    while sums.len() < 10 {
                        sums.extend(client.receive().into_iter().map(|reply| (reply.tag, reply.result)));
                    }
                    assert_eq!(sums[&0], Ok(3000));
                    assert_eq!(sums[&1].as_ref().unwrap_err().sqlstate(), "P0001");
                    assert!(sums.values().skip(2).all(|result| result.is_ok()), "{sums:?}");
                }
            });
        }
    });
    let rows = [0, 1, 2]
        .map(|id| engine.handle().visit(PartitionId(id), |member| member.partition.table(TABLE).unwrap().rows()));
    assert_eq!(rows.into_iter().map(Result::unwrap).sum::<usize>(), 30);
    let members = engine.stop();
    assert_eq!(members.len(), 3);
    for member in members {
        member.partition.check().unwrap();
    }
}

#[test]
fn nothing_is_told_before_it_is_durable_not_even_what_was_read() {
    let (members, _) = members(2);
    let commit_waiters = CommitWaiters::new(2);
    let log = Arc::new(Manual::default());
    let engine = Executors::start(options(10), members, Arc::clone(&log) as _, Arc::clone(&commit_waiters)).unwrap();
    let (mut writer, mut reader, mut other) = (engine.client(), engine.client(), engine.client());
    writer.submit(Arc::new(Bank::Add), arguments(&[1, 5]), 0).unwrap();
    writer.send();
    // In a batch of its own, which is released first.
    while log.0.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let sum = scope.spawn(|| other.call(Arc::new(Bank::Sum), arguments(&[])));
        let read = scope.spawn(|| reader.call(Arc::new(Bank::Add), arguments(&[1, 0])));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sum.is_finished() && !read.is_finished(), "told before it is durable");
        commit_waiters.released(Ok(Sequence(1)));
        assert_eq!(writer.receive().pop_front().unwrap().result, Ok(5));
        commit_waiters.released(Ok(Sequence(2)));
        assert_eq!(read.join().unwrap(), Ok(5));
        assert_eq!(sum.join().unwrap(), Ok(5));
    });
}

#[test]
fn a_definition_is_told_when_its_own_record_is_durable() {
    let (members, schema) = members(2);
    let commit_waiters = CommitWaiters::new(2);
    let engine =
        Executors::<Bank>::start(options(10), members, Arc::new(Slow::default()), Arc::clone(&commit_waiters)).unwrap();
    let handle = engine.handle();
    std::thread::scope(|scope| {
        let sql = "CREATE INDEX balances ON account (balance)";
        let (_, change) = define(&schema, sql).unwrap();
        let defined = scope.spawn(move || handle.define(sql, change, schema, None, || {}));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!defined.is_finished(), "told before it is durable");
        commit_waiters.released(Ok(Sequence(1)));
        defined.join().unwrap().unwrap();
    });
}

#[test]
fn the_log_is_given_no_more_than_it_can_take_at_once() {
    let (members, _) = members(1);
    let (largest, commit_waiters) = (Arc::new(Largest::default()), CommitWaiters::new(1));
    let engine = Executors::start(options(100), members, Arc::clone(&largest) as _, commit_waiters).unwrap();
    let gate = Arc::new(gate::Gate::default());
    let mut client = engine.client();
    client.submit(Arc::new(Bank::Wait(Arc::clone(&gate))), arguments(&[]), 0).unwrap();
    client.send();
    // All in one batch; the text after the numbers only makes the log larger.
    for tag in 1..50 {
        let mut values = arguments(&[1, 1]).into_vec();
        values.push(Value::Text("x".repeat(300_000).into()));
        client.submit(Arc::new(Bank::Add), values.into(), tag).unwrap();
    }
    client.send();
    gate.open();
    let mut results = 0;
    while results < 50 {
        results += client.receive().into_iter().inspect(|reply| assert!(reply.result.is_ok(), "{reply:?}")).count();
    }
    let bytes = largest.0.load(Ordering::SeqCst);
    assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn what_is_submitted_goes_out_by_itself_once_it_is_much() {
    const SUBMITTED: usize = 30_000;
    let (members, _) = members(1);
    let options = Options { results_bytes_max: 64 << 20, ..options(50) };
    let engine = Executors::start(options, members, Arc::new(Largest::default()), CommitWaiters::new(1)).unwrap();
    let gate = Arc::new(gate::Gate::default());
    let mut client = engine.client();
    client.submit(Arc::new(Bank::Wait(Arc::clone(&gate))), arguments(&[]), 0).unwrap();
    for tag in 1..SUBMITTED {
        client.submit(Arc::new(Bank::Add), arguments(&[1, 1]), tag as u64).unwrap();
    }
    let start = Instant::now();
    while engine.queued(PartitionId(0)) < 50 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was sent");
        std::thread::yield_now();
    }
    // The queue is full, so the others are refused as by `send`.
    let mut replies: Vec<_> = client.receive().into();
    assert!((SUBMITTED / 2..SUBMITTED).contains(&replies.len()), "{} have been sent", replies.len());
    assert!(replies.iter().all(|reply| reply.result.as_ref().is_err_and(|error| error.sqlstate() == "40001")));
    gate.open();
    client.send();
    while replies.len() < SUBMITTED {
        replies.extend(client.receive());
    }
    let done = replies.iter().filter(|reply| reply.result.is_ok()).count();
    assert!((50..SUBMITTED / 2).contains(&done), "{done}");
    let tags: BTreeSet<_> = replies.iter().map(|reply| reply.tag).collect();
    assert_eq!(tags.len(), SUBMITTED, "each is answered once");
}

#[test]
fn a_partition_rests_while_too_many_results_wait_for_the_log() {
    let (members, _) = members(1);
    let commit_waiters = CommitWaiters::new(1);
    let options = Options { results_bytes_max: 4000, ..options(100) };
    let engine = Executors::start(options, members, Arc::new(Manual::default()), Arc::clone(&commit_waiters)).unwrap();
    let mut client = engine.client();
    let mut results = Vec::new();
    let mut rests = false;
    for tag in 0..1000 {
        match client.submit(Arc::new(Bank::Add), arguments(&[1, 1]), tag) {
            Ok(()) => client.send(),
            // This many refusals have not been received.
            Err(error) => results.push(Err(error)),
        }
        // It accepts requests until it pauses.
        let sent = Instant::now();
        while !rests && engine.queued(PartitionId(0)) > 0 {
            rests = sent.elapsed() > Duration::from_secs(1);
            std::thread::yield_now();
        }
    }
    assert!(!results.is_empty());
    assert_eq!(engine.queued(PartitionId(0)), 100, "the partition rests, and its queue is full");
    commit_waiters.released(Ok(Sequence(u64::MAX)));
    while results.len() < 1000 {
        results.extend(client.receive().into_iter().map(|reply| reply.result));
    }
    let done = results.iter().filter(|result| result.is_ok()).count() as i64;
    assert!((100..700).contains(&done), "{done}");
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!(error.sqlstate(), "40001", "{error}");
    }
    assert_eq!(client.call(Arc::new(Bank::Add), arguments(&[1, 0])), Ok(done), "what was refused was not done");
}

#[test]
fn a_full_queue_refuses_and_a_stopped_engine_answers() {
    let (engine, _log, _disk, _schema) = engine(1, Faults::default());
    let gate = Arc::new(gate::Gate::default());
    let mut client = engine.client();
    for tag in 0..3000 {
        let program = if tag == 0 { Bank::Wait(Arc::clone(&gate)) } else { Bank::Add };
        client.submit(Arc::new(program), arguments(&[1, 1]), tag).unwrap();
        client.send();
    }
    gate.open();
    let mut refused = 0;
    let mut results = Vec::new();
    while results.len() < 3000 {
        results.extend(client.receive().into_iter().map(|reply| reply.result));
    }
    for result in &results {
        if let Err(error) = result {
            assert_eq!(error.sqlstate(), "40001");
            refused += 1;
        }
    }
    assert!((1000..3000).contains(&refused), "{refused}");
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(results.len() as i64 - refused - 1));
    engine.stop();
    assert!(client.call(Arc::new(Bank::Sum), arguments(&[])).is_err());
    assert!(client.call(Arc::new(Bank::Add), arguments(&[1, 1])).is_err());
}

#[test]
fn sessions_hold_their_partitions() {
    let (engine, _log, _disk, _schema) = engine(2, Faults::default());
    let mut client = engine.client();
    client.call(Arc::new(Bank::Add), arguments(&[1, 10])).unwrap();

    let mut session = engine.begin(&Participants::All, None).unwrap();
    assert_eq!(session.run(&Bank::Transfer, &arguments(&[1, 2, 4]), None), Ok(4));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| engine.client().call(Arc::new(Bank::Sum), arguments(&[])));
        std::thread::sleep(Duration::from_millis(10));
        assert!(!blocked.is_finished(), "a session has the partitions");
        session.commit().unwrap();
        assert_eq!(blocked.join().unwrap(), Ok(10));
    });
    assert_eq!(client.call(Arc::new(Bank::Add), arguments(&[1, 0])), Ok(6));

    let mut session = engine.begin(&Participants::All, None).unwrap();
    session.run(&Bank::Add, &arguments(&[2, 100]), None).unwrap();
    session.rollback();
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(10));

    // A failed statement ends the transaction, which then accepts only ROLLBACK.
    let mut session = engine.begin(&Participants::One(PartitionHash::of(ValueRef::Int(1))), None).unwrap();
    session.run(&Bank::Add, &arguments(&[1, 100]), None).unwrap();
    assert_eq!(session.run(&Bank::Fail, &arguments(&[1, 100]), None).unwrap_err().sqlstate(), "P0001");
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(10));
    assert_eq!(session.run(&Bank::Add, &arguments(&[1, 1]), None).unwrap_err().sqlstate(), "25P02");
    assert_eq!(session.commit().unwrap_err().sqlstate(), "25P02");

    // An idle session loses its partitions.
    let mut session = engine.begin(&Participants::All, None).unwrap();
    session.run(&Bank::Add, &arguments(&[1, 100]), None).unwrap();
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(10));
    assert_eq!(session.run(&Bank::Add, &arguments(&[1, 1]), None).unwrap_err().sqlstate(), "25P03");
    assert_eq!(engine.stop().len(), 2);
}

/// Regression: a session's transaction had the time at which its last partition took it from the queue, and another
/// partition may have run later transactions until they met.
#[test]
fn a_sessions_time_is_not_before_that_of_what_it_sees() {
    let (members, _) = members(2);
    let time = AtomicU64::new(1);
    let clock = Box::new(move || Micros(time.fetch_add(1, Ordering::SeqCst).cast_signed()));
    let commit_waiters = CommitWaiters::new(2);
    let options = Options { clock, idle_max: Duration::from_secs(60), ..options(100) };
    let engine = Executors::start(options, members, Arc::new(NoJournal), commit_waiters).unwrap();
    let gates: [Arc<gate::Gate>; 3] = Default::default();
    let [first, other, behind] = &gates;
    let (entered, enters) = mpsc::channel();
    let wait_in = |partition: u16, gate: &Arc<gate::Gate>| {
        let (handle, gate, entered) = (engine.handle(), Arc::clone(gate), entered.clone());
        std::thread::spawn(move || {
            let wait = move |_: &mut Member| {
                entered.send(()).unwrap();
                gate.wait();
            };
            handle.visit(PartitionId(partition), wait).unwrap();
        })
    };
    let id = (1..).find(|id| PartitionHash::of(ValueRef::Int(*id)).partition(2) == 0).unwrap();
    let until_queued = |counts: [usize; 2]| {
        while [0, 1].map(|partition| engine.queued(PartitionId(partition))) != counts {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        // Both partitions are busy, the second one also with a later request.
        let visits = [wait_in(1, first), wait_in(0, other)];
        (0..2).for_each(|_| enters.recv().unwrap());
        let behind_it = wait_in(1, behind);
        until_queued([0, 1]);
        let before = scope.spawn(|| engine.client().call(Arc::new(Bank::Time), arguments(&[id])).unwrap());
        until_queued([1, 1]);
        let session = scope.spawn(|| engine.begin(&Participants::All, None).unwrap());
        until_queued([2, 2]);
        // The second partition takes the session now, the first one later.
        first.open();
        enters.recv().unwrap();
        other.open();
        let before = before.join().unwrap();
        behind.open();
        let mut session = session.join().unwrap();
        let time = session.run(&Bank::Time, &arguments(&[id]), None).unwrap();
        assert!(time > before, "{time} is not after {before}");
        visits.into_iter().chain([behind_it]).for_each(|visit| visit.join().unwrap());
    });
}

#[test]
fn a_transaction_over_some_partitions_holds_only_these() {
    let (engine, log, _disk, _schema) = engine(4, Faults::default());
    let partition = |id: i64| PartitionHash::of(ValueRef::Int(id)).partition(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| (1..).find(|id| partition(*id) == number).unwrap());
    let same = (c + 1..).find(|id| partition(*id) == 2).unwrap();
    let mut client = engine.client();
    let mut session = engine.begin(&Participants::One(PartitionHash::of(ValueRef::Int(a))), None).unwrap();
    session.run(&Bank::Add, &arguments(&[a, 10]), None).unwrap();
    // Two others, one of them twice, and both in either order.
    for (from, to) in [(b, c), (c, b), (c, same), (b, b)] {
        client.call(Arc::new(Bank::Between), arguments(&[from, to, 5])).unwrap();
    }
    assert_eq!(engine.restarts(), 0);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| engine.client().call(Arc::new(Bank::Between), arguments(&[a, b, 1])));
        std::thread::sleep(Duration::from_millis(10));
        assert!(!blocked.is_finished(), "a session has one of the partitions");
        session.commit().unwrap();
        assert_eq!(blocked.join().unwrap(), Ok(1));
    });
    // A transaction that needs more than it declared runs again with that as well, beside a session that has another
    // partition.
    let mut session = engine.begin(&Participants::One(PartitionHash::of(ValueRef::Int(d))), None).unwrap();
    assert_eq!(client.call(Arc::new(Bank::More), arguments(&[a, b, c, same])), Ok(2));
    assert_eq!(engine.restarts(), 1);
    assert_eq!(client.call(Arc::new(Bank::Transfer), arguments(&[a, c, 1])), Ok(-3));
    assert_eq!(engine.restarts(), 2);
    session.run(&Bank::Add, &arguments(&[d, 1]), None).unwrap();
    session.rollback();
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(10));

    // Pairs from many threads, in every order: none waits for ever, and nothing is lost.
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let mut client = engine.client();
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..300 {
                    let [from, to] = [0, 0].map(|_| random.random_range(0..20));
                    client.call(Arc::new(Bank::Between), arguments(&[from, to, 1])).unwrap();
                }
            });
        }
    });
    assert_eq!(client.call(Arc::new(Bank::Sum), arguments(&[])), Ok(10));
    assert_eq!(engine.stop().len(), 4);
    log.close().unwrap();
}

#[test]
fn a_log_that_fails_stops_everything_and_everybody_is_told() {
    for sync in [1, 2, 5] {
        let (engine, log, _disk, _schema) = engine(2, Faults { sync, ..Faults::default() });
        let mut failed = 0;
        std::thread::scope(|scope| {
            let clients = [0, 1, 2].map(|seed| {
                let mut client = engine.client();
                scope.spawn(move || {
                    (0..200_i64)
                        .map(|number| match (number + seed) % 5 {
                            0 => client.call(Arc::new(Bank::Transfer), arguments(&[number, number + 1, 1])),
                            1 => client.call(Arc::new(Bank::Sum), arguments(&[])),
                            _ => client.call(Arc::new(Bank::Add), arguments(&[number, 1])),
                        })
                        .filter(Result::is_err)
                        .count()
                })
            });
            failed += clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>();
        });
        assert!(failed > 300, "{failed}");
        assert!(engine.begin(&Participants::All, None).is_err());
        assert!(matches!(log.close(), Err(Error::Io(_))));
        engine.stop();
    }
}

#[test]
fn a_definition_is_made_everywhere_or_nowhere() {
    let (engine, _log, _disk, schema) = engine(3, Faults::default());
    let mut client = engine.client();
    // Equal balances in the last partition only, so that the others have made the index when it fails.
    for id in 0..30 {
        let last = PartitionHash::of(ValueRef::Int(id)).partition(3) == 2;
        client.call(Arc::new(Bank::Add), arguments(&[id, if last { 5 } else { id + 100 }])).unwrap();
    }
    let sql = "CREATE INDEX balances ON account (balance)";
    let (_, Change::CreateIndex { table, index }) = define(&schema, sql).unwrap() else { panic!("an index") };
    let mut table = TableDefinition::clone(&table);
    table.indexes.last_mut().unwrap().unique = true;
    let change = Change::CreateIndex { table: Arc::new(table), index };
    let error = engine.handle().define(sql, change, schema.clone(), None, || panic!("not defined")).unwrap_err();
    assert_eq!(error.sqlstate(), "23505");
    let sql = "CREATE INDEX balances ON account (balance)";
    let (after, change) = define(&schema, sql).unwrap();
    engine.handle().define(sql, change, schema, None, || {}).unwrap();
    let sql = "ALTER TABLE account ADD COLUMN note TEXT DEFAULT 'none'";
    let (_, change) = define(&after, sql).unwrap();
    engine.handle().define(sql, change, after, None, || {}).unwrap();
    for member in engine.stop() {
        let table = member.partition.table(TABLE).unwrap();
        assert_eq!(table.definition().indexes.len(), 2);
        assert_eq!(table.layout().columns(), 3);
        assert!(matches!(table.definition().columns.last().unwrap(), column if &*column.name == "note"));
        let hash: Vec<_> = table.scan().map(|id| table.row(id).unwrap().value(2).to_value()).collect();
        assert!(hash.iter().all(|note| *note == Value::Text("none".into())));
        let indexed = table.memory().indexes;
        assert_eq!(indexed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [IndexId(0), IndexId(1)]);
        member.partition.check().unwrap();
    }
}
