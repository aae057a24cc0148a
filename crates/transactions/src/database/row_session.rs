//! Sessions: statements from text to result, and transactions from BEGIN to COMMIT.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlparser::ast;
use thermocline_machine::interrupt::{Cause, Interrupt};
use thermocline_procedures::Definitions;
use thermocline_statements::{CallArguments, StatementCache, StatementResult, charge_statement, fold, object};
use thermocline_syntax::Statement;
use thermocline_tables::partition::reader::{ReadRequest, read_all};
use thermocline_tables::partition::{Member, Participants};
use thermocline_tables::table::{Charge, HeapSize, Working, allocated, out_of_memory};
use thermocline_types::{Class, Error, Result, Value};

use super::load::Load;
use super::memory::{Room, make_room};
use super::row_engine::Shared;
use super::source::Source;
use super::statistics::{PartitionStatistics, Statistics};
use super::table_reader::TableReader;
use super::work::{Work, read};
use crate::engine::{Client, Interactive, Mark, Program};

/// Bytes of a text that is kept without a charge.
const SHORT_BYTES: usize = 100;
/// Bytes of parameters that are not asked for before they are in a queue.
const SMALL_BYTES: usize = 64 << 10;
/// Savepoints of a transaction at most.
const SAVEPOINTS_MAX: usize = 10_000;
/// Maximum attempts at a statement, which is prepared again if the schema has changed.
const ATTEMPTS_MAX: usize = 16;

/// Executes SQL, one statement after the other.
///
/// Without `BEGIN` each statement is a transaction of its own. `BEGIN` joins the following ones to a single transaction
/// until `COMMIT` or `ROLLBACK`: it holds the partitions that its statements have needed so far, and nothing else runs
/// there meanwhile. This is the slower way, for programs that need it; a procedure does the same in one step.
///
/// ```text
///           BEGIN            statement
///   Idle ----------> Begun -------------> Open -- COMMIT, ROLLBACK --> Idle
///    ^                 |  |                |
///    +-- COMMIT, ... --+  +--- an error ---+--> 25P02 until COMMIT or ROLLBACK, which both roll back, or
///                                               ROLLBACK TO a savepoint, from which it goes on
/// ```
pub struct RowSession {
    /// Time limit of a statement, including waiting; `None` for no limit.
    statement_timeout: Option<Duration>,
    /// Longest idle time in a transaction.
    idle_timeout: Duration,
    /// Interrupt of the running statement, for callers that stop it.
    running: Arc<Mutex<Option<Arc<Interrupt>>>>,
    /// Shared interrupt of statements that count as one; `None` outside of [`RowSession::as_one_statement`].
    whole: Option<Arc<Interrupt>>,
    shared: Arc<Shared>,
    client: Client<Work>,
    /// Commands by text, for the newest version.
    commands: StatementCache<Arc<Command>>,
    transaction: State,
    /// Its savepoints, the oldest first; one of a transaction that had no partitions yet is the beginning.
    savepoints: Vec<(Box<str>, Mark)>,
    /// Whether a statement has failed since the last savepoint, and the transaction goes on from one or not at all.
    has_error: bool,
    /// Whether queries run here however many rows they read.
    unbounded: bool,
}

enum State {
    Idle,
    /// With the interrupt of the statement that it is part of; `None` if it is part of none.
    Begun(Option<Arc<Interrupt>>),
    Open(Interactive<Work>),
    /// Failed before it had anything to undo.
    Failed,
}

/// A classified statement text.
enum Command {
    Begin,
    Commit,
    Rollback,
    Savepoint(Box<str>),
    Release(Box<str>),
    RollbackTo(Box<str>),
    Define,
    /// The statement and, for queries, a variant with a row limit for use outside transactions.
    Statement(Arc<Work>, Option<Arc<Work>>),
    /// With the charge for its arguments.
    Call(Arc<Work>, CallArguments, Charge),
}

impl fmt::Debug for RowSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowSession").field("commands", &self.commands.count()).finish_non_exhaustive()
    }
}

impl RowSession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let client = shared.engine.client();
        Self {
            statement_timeout: shared.statement_timeout,
            idle_timeout: shared.idle_timeout,
            running: Arc::default(),
            whole: None,
            shared,
            client,
            commands: StatementCache::default(),
            transaction: State::Idle,
            savepoints: Vec::new(),
            has_error: false,
            unbounded: false,
        }
    }

    /// Sets the time limit of a statement, including the wait for its turn; `None` for no limit. A statement that takes
    /// longer is rolled back with SQLSTATE 57014, as are a procedure and the transaction around it.
    pub fn set_statement_timeout(&mut self, timeout: Option<Duration>) {
        self.statement_timeout = timeout;
    }

    /// Sets how long transactions that begin from now on may wait for their next statement. A transaction that waits
    /// longer is rolled back, and its next statement gets SQLSTATE 25P03.
    pub fn set_idle_timeout(&mut self, timeout: Duration) {
        self.idle_timeout = timeout;
    }

    /// Cancels the session's statements from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller { running: Arc::clone(&self.running) }
    }

    /// Runs a statement, a definition, `CALL`, `BEGIN`, `COMMIT` or `ROLLBACK`, with values for `$1`, `$2`. Changes are
    /// durable when this, or `COMMIT`, returns, unless there is no log, or commits do not wait for it.
    pub fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<StatementResult> {
        self.execute_source(sql.into(), parameters)
    }

    /// [`Self::execute`] for a statement that may have been parsed already.
    pub fn execute_source(&mut self, source: Source<'_>, parameters: &[Value]) -> Result<StatementResult> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let command = self.command(source).inspect_err(|_| self.fail())?;
            let result = self.run(&command, source.text, parameters);
            let outdated = match &*command {
                Command::Statement(work, _) | Command::Call(work, ..) => work.is_outdated(),
                _ => false,
            };
            match result {
                Err(Error::Retry(_)) if outdated && attempts < ATTEMPTS_MAX => {}
                result => return result,
            }
        }
    }

    /// [`Self::execute_source`] without the limit on rows of a query: for queries that no other engine can run.
    pub fn execute_unbounded(&mut self, source: Source<'_>, parameters: &[Value]) -> Result<StatementResult> {
        self.unbounded = true;
        let result = self.execute_source(source, parameters);
        self.unbounded = false;
        result
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        !matches!(self.transaction, State::Idle)
    }

    /// Whether a failed transaction is open, which accepts only `ROLLBACK`, `ROLLBACK TO` a savepoint, and `COMMIT`, which
    /// rolls it back as well.
    pub fn has_failed(&self) -> bool {
        self.has_error || self.has_ended()
    }

    /// Whether its transaction has failed for good.
    fn has_ended(&self) -> bool {
        match &self.transaction {
            State::Open(transaction) => transaction.has_failed(),
            State::Failed => true,
            State::Begun(_) | State::Idle => false,
        }
    }

    /// Takes the transaction, with which the savepoints go.
    fn take(&mut self) -> State {
        self.savepoints.clear();
        if std::mem::take(&mut self.has_error) {
            // Undone when it is dropped.
            self.transaction = State::Failed;
        }
        std::mem::replace(&mut self.transaction, State::Idle)
    }

    /// Notes an error of a statement in a transaction that has savepoints.
    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() && !self.savepoints.is_empty() {
            self.has_error = true;
        }
        result
    }

    fn savepoint(&mut self, name: &str) -> Result<()> {
        if self.has_failed() {
            return Err(Error::failed_transaction());
        }
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            self.fail();
            return Err(Class::LimitExceeded.error(format_args!("more than {SAVEPOINTS_MAX} savepoints")));
        }
        let mark = match &mut self.transaction {
            State::Open(transaction) => {
                transaction.set_restorable(true);
                transaction.mark()?
            }
            State::Begun(_) => Mark::default(),
            State::Failed | State::Idle => return Err(no_transaction()),
        };
        self.savepoints.push((name.into(), mark));
        Ok(())
    }

    /// The place of the newest savepoint of this name.
    fn find_savepoint(&mut self, name: &str) -> Result<usize> {
        if !self.in_transaction() {
            return Err(no_transaction());
        }
        if self.has_ended() {
            return Err(Error::failed_transaction());
        }
        let found = self.savepoints.iter().rposition(|(known, _)| **known == *name);
        found.ok_or_else(|| {
            self.fail();
            Class::InvalidSavepoint.error(format_args!("savepoint \"{name}\" does not exist"))
        })
    }

    fn release(&mut self, name: &str) -> Result<()> {
        if self.has_error {
            return Err(Error::failed_transaction());
        }
        let place = self.find_savepoint(name)?;
        self.savepoints.truncate(place);
        if let (State::Open(transaction), true) = (&mut self.transaction, self.savepoints.is_empty()) {
            transaction.set_restorable(false);
        }
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let place = self.find_savepoint(name)?;
        self.savepoints.truncate(place + 1);
        if let (State::Open(transaction), Some((_, mark))) = (&mut self.transaction, self.savepoints.last()) {
            transaction.restore(mark)?;
        }
        self.has_error = false;
        Ok(())
    }

    /// Begins to read tables, all as of one moment and, inside a transaction, including its changes. Returns, for each
    /// request, a reader for each partition, or for the first one of a replicated table. Inside a transaction, this is
    /// one reader, which is done: all rows have been handed on by then. It is stopped like a statement while it waits
    /// for the partitions and, inside a transaction, while it reads.
    pub fn read_tables(&mut self, requests: Vec<ReadRequest>) -> Result<Vec<Vec<TableReader>>> {
        self.interruptible(|session, interrupt| session.read_interruptible(requests, interrupt))
    }

    fn read_interruptible(
        &mut self,
        mut requests: Vec<ReadRequest>,
        interrupt: &Arc<Interrupt>,
    ) -> Result<Vec<Vec<TableReader>>> {
        let read = match self.open(&Participants::All, interrupt)? {
            None => return self.shared.read_tables(requests, interrupt),
            Some(transaction) => transaction.visit_all(Some(interrupt), |members| {
                requests
                    .iter_mut()
                    .map(|request| {
                        members.iter().try_for_each(|member| read_all(request, &member.partition, interrupt))?;
                        Ok(vec![TableReader::done()])
                    })
                    .collect()
            }),
        };
        self.noted(read)
    }

    /// Begins to load rows into a table: values of these columns, in this order; other columns get their defaults. The
    /// load is a transaction of its own, which goes on without the session. The session's timeout stops it or, if it
    /// begins inside of [`RowSession::as_one_statement`], whatever stops that.
    ///
    /// # Errors
    /// If the table or a column does not exist, the database is read-only, or a transaction is open.
    pub fn load(&mut self, table: &str, columns: &[impl AsRef<str>]) -> Result<Load> {
        if self.in_transaction() {
            self.fail();
            return Err(Class::ActiveTransaction.error("a load is a transaction of its own"));
        }
        self.interruptible(|session, interrupt| Load::begin(&session.shared, table, columns, interrupt))
    }

    /// Contents of memory. It is stopped like a statement while it waits for the partitions.
    pub fn statistics(&mut self) -> Result<Statistics> {
        self.interruptible(Self::statistics_interruptible)
    }

    fn statistics_interruptible(&mut self, interrupt: &Arc<Interrupt>) -> Result<Statistics> {
        let shared = Arc::clone(&self.shared);
        let of = |member: &Member| {
            let (id, engine) = (member.partition.id(), &shared.engine);
            PartitionStatistics::of(member, engine.queued(id), (engine.held(id), engine.held_by_eviction(id)))
        };
        let partitions = match &mut self.transaction {
            // Waiting for a partition of another session here would be invisible to deadlock detection.
            State::Open(transaction) => {
                Some(transaction.visit_all(Some(interrupt), |members| Ok(members.iter().map(of).collect()))?)
            }
            State::Begun(_) | State::Failed | State::Idle => None,
        };
        shared.statistics(partitions, interrupt)
    }

    /// Reads and plans a statement without running it. Unlike in [`RowSession::execute`], an error does not end the
    /// transaction: a caller who gets [`Error::Unsupported`] may have another way to run it.
    pub fn prepare(&mut self, source: Source<'_>) -> Result<()> {
        self.command(source).map(|_| ())
    }

    /// Memory for requests of this session, for which its transaction's partitions and others evict rows.
    fn with_room<T>(&mut self, work: impl FnOnce(&Self, &mut Room<'_>) -> T) -> T {
        let mut transaction = std::mem::replace(&mut self.transaction, State::Idle);
        let shared = Arc::clone(&self.shared);
        let mut make = || {
            let own = match &mut transaction {
                State::Open(transaction) if shared.budget().lacks_wanted() => transaction.make_room(),
                State::Open(_) | State::Begun(_) | State::Failed | State::Idle => false,
            };
            own || make_room(&shared.handle, shared.budget())
        };
        let result = work(self, &mut Room { budget: shared.budget(), make: &mut make });
        self.transaction = transaction;
        result
    }

    fn command(&mut self, source: Source<'_>) -> Result<Arc<Command>> {
        let sql = source.text;
        if let Some(command) = self.commands.get(sql.as_bytes()) {
            match &**command {
                Command::Statement(work, _) | Command::Call(work, ..) if work.is_outdated() => {}
                _ => return Ok(Arc::clone(command)),
            }
        }
        let definitions = self.shared.catalog.current();
        let command = Arc::new(self.with_room(|session, room| session.read(definitions, source, room))?);
        let bytes = match &*command {
            Command::Statement(work, _) if work.may_be_kept() => work.bytes(),
            Command::Call(.., charge) if charge.is_of(Working::Statements) => charge.bytes(),
            // There is no memory to keep it.
            Command::Statement(..) | Command::Call(..) => return Ok(command),
            Command::Begin | Command::Commit | Command::Rollback if sql.len() < SHORT_BYTES => SHORT_BYTES,
            // Definitions run once and have long texts.
            Command::Begin
            | Command::Commit
            | Command::Rollback
            | Command::Savepoint(_)
            | Command::Release(_)
            | Command::RollbackTo(_)
            | Command::Define => return Ok(command),
        };
        self.commands.keep(sql.as_bytes(), Arc::clone(&command), bytes, Some(self.shared.budget()));
        Ok(command)
    }

    fn read(&self, definitions: Arc<Definitions>, source: Source<'_>, room: &mut Room<'_>) -> Result<Command> {
        let catalog = &self.shared.catalog;
        let (statement, charge) = read(source, room)?;
        Ok(match &*statement {
            Statement::CreateProcedure(_) | Statement::DropProcedure { .. } => Command::Define,
            Statement::Call { name, arguments } => {
                let work = Work::procedure(catalog, Arc::clone(&definitions), &object(name)?)?;
                let compiled = definitions.procedure(&object(name)?)?;
                let wanted = compiled.arguments_for(arguments.len())?;
                let arguments = CallArguments::bind(&definitions.schema, wanted, arguments)?;
                let bytes = size_of::<Work>() + arguments.heap_bytes() + allocated(source.text.len());
                let charge = charge_once(bytes, room)?;
                Command::Call(Arc::new(work), arguments, charge)
            }
            Statement::Sql(sql, _) => match &**sql {
                ast::Statement::CreateTable(_)
                | ast::Statement::CreateIndex(_)
                | ast::Statement::AlterTable(_)
                | ast::Statement::Drop { .. }
                | ast::Statement::Truncate(_) => Command::Define,
                ast::Statement::StartTransaction { .. } => Command::Begin,
                ast::Statement::Commit { chain: false, .. } => Command::Commit,
                ast::Statement::Rollback { chain: false, savepoint: None } => Command::Rollback,
                ast::Statement::Rollback { chain: false, savepoint: Some(name) } => Command::RollbackTo(fold(name)?),
                ast::Statement::Savepoint { name } => Command::Savepoint(fold(name)?),
                ast::Statement::ReleaseSavepoint { name } => Command::Release(fold(name)?),
                _ => self.statement(definitions, source.text, (&statement, charge), room)?,
            },
            Statement::Explain(_) => self.statement(definitions, source.text, (&statement, charge), room)?,
        })
    }

    fn statement(
        &self,
        definitions: Arc<Definitions>,
        sql: &str,
        read: (&Statement, Charge),
        room: &mut Room<'_>,
    ) -> Result<Command> {
        let charge = |bytes| charge_once(bytes, room);
        let work = Work::statement(&self.shared.catalog, definitions, sql, read, charge)?;
        let bounded = self.shared.query_rows_max.and_then(|rows_max| work.bounded(rows_max));
        Ok(Command::Statement(Arc::new(work), bounded.map(Arc::new)))
    }

    fn run(&mut self, command: &Command, sql: &str, parameters: &[Value]) -> Result<StatementResult> {
        match command {
            Command::Begin if self.in_transaction() => {
                Err(Class::ActiveTransaction.error("there is a transaction already"))
            }
            Command::Begin => {
                self.transaction = State::Begun(self.whole.clone());
                Ok(StatementResult::default())
            }
            Command::Commit => match self.take() {
                State::Idle => Err(no_transaction()),
                State::Begun(_) => Ok(StatementResult::default()),
                State::Open(transaction) if !transaction.has_failed() => {
                    transaction.commit().map(|()| StatementResult::default())
                }
                State::Open(_) | State::Failed => {
                    Err(Class::FailedTransaction.error("the transaction had failed; COMMIT has rolled it back"))
                }
            },
            Command::Savepoint(name) => self.savepoint(name).map(|()| StatementResult::default()),
            Command::Release(name) => self.release(name).map(|()| StatementResult::default()),
            Command::RollbackTo(name) => self.rollback_to(name).map(|()| StatementResult::default()),
            Command::Rollback => match self.take() {
                State::Idle => Err(no_transaction()),
                State::Begun(_) | State::Failed => Ok(StatementResult::default()),
                State::Open(transaction) => {
                    transaction.rollback();
                    Ok(StatementResult::default())
                }
            },
            Command::Define if self.in_transaction() => {
                self.fail();
                Err(Class::ActiveTransaction.error("a definition is a transaction of its own"))
            }
            Command::Define => self
                .interruptible(|session, interrupt| session.shared.define(sql, interrupt))
                .map(|()| StatementResult::default()),
            Command::Statement(_, Some(bounded)) if !self.unbounded && !self.in_transaction() => {
                self.work(bounded, parameters)
            }
            Command::Statement(work, _) => self.work(work, parameters),
            Command::Call(work, arguments, _) => {
                let values = arguments.evaluate(parameters, self.shared.budget());
                let values = values.inspect_err(|_| self.fail())?;
                self.work(work, &values)
            }
        }
    }

    /// Runs several statements that count as one: they share the deadline of `interrupt` instead of the session's
    /// timeout, and `interrupt` or [`Canceller::cancel`] stops the running one or the next. Changes of earlier ones
    /// stay until the transaction is rolled back.
    pub fn as_one_statement<T>(
        &mut self,
        interrupt: Arc<Interrupt>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        interrupt.check()?;
        *self.running.lock() = Some(Arc::clone(&interrupt));
        self.whole = Some(interrupt);
        let result = work(self);
        self.whole = None;
        *self.running.lock() = None;
        result
    }

    fn work(&mut self, work: &Arc<Work>, arguments: &[Value]) -> Result<StatementResult> {
        self.interruptible(|session, interrupt| session.work_interruptible(work, arguments, interrupt))
    }

    /// Runs a function that the session's timeout and its canceller can stop.
    fn interruptible<T>(&mut self, run: impl FnOnce(&mut Self, &Arc<Interrupt>) -> Result<T>) -> Result<T> {
        if let Some(whole) = self.whole.clone() {
            whole.wait_again();
            return run(self, &whole);
        }
        let interrupt = Arc::new(Interrupt::new(self.statement_timeout));
        *self.running.lock() = Some(Arc::clone(&interrupt));
        let result = run(self, &interrupt);
        *self.running.lock() = None;
        result
    }

    fn work_interruptible(
        &mut self,
        work: &Arc<Work>,
        arguments: &[Value],
        interrupt: &Arc<Interrupt>,
    ) -> Result<StatementResult> {
        let begins = matches!(self.transaction, State::Begun(_));
        let participants =
            if begins { work.participants(arguments).inspect_err(|_| self.fail())? } else { Participants::Any };
        match self.open(&participants, interrupt)? {
            // A definition came while it waited for its partitions. Nothing has run in it yet.
            Some(_) if begins && work.is_outdated() => Err(Error::Retry("the schema has changed".into())),
            Some(transaction) => {
                let ran = transaction.run(work, arguments, Some(interrupt));
                self.noted(ran)
            }
            None => {
                // The queue charges for a copy of the arguments.
                let bytes: usize = arguments.iter().map(Value::heap_bytes).sum();
                let budget = Arc::clone(self.shared.budget());
                let bytes = if bytes > SMALL_BYTES { bytes } else { 0 };
                let room = self.with_room(|_, room| room.take(|| budget.check_working(Working::Queues, bytes)));
                room.map_err(|full| out_of_memory("a statement's parameters", full))?;
                self.client.call_interruptible(Arc::clone(work), arguments.into(), interrupt)
            }
        }
    }

    /// The open transaction, if any; begins it with the participants if it has no partitions yet.
    fn open(
        &mut self,
        participants: &Participants,
        interrupt: &Arc<Interrupt>,
    ) -> Result<Option<&mut Interactive<Work>>> {
        if self.has_error {
            return Err(Error::failed_transaction());
        }
        if let State::Begun(within) = &self.transaction {
            // Statements that count as one must not fail because of the order in which they need partitions.
            let is_of_one = within.as_ref().is_some_and(|within| Arc::ptr_eq(within, interrupt));
            let participants = if is_of_one { &Participants::All } else { participants };
            let engine = &self.shared.engine;
            let mut transaction = engine.begin_with(participants, self.idle_timeout, Some(interrupt))?;
            transaction.set_restorable(!self.savepoints.is_empty());
            self.transaction = State::Open(transaction);
        }
        match &mut self.transaction {
            State::Open(transaction) => Ok(Some(transaction)),
            State::Failed => Err(Error::failed_transaction()),
            State::Begun(_) | State::Idle => Ok(None),
        }
    }

    /// Fails the open transaction, if any, as a statement's error does: for errors outside of the partitions, or of
    /// another engine's part of a statement.
    pub fn fail(&mut self) {
        match &mut self.transaction {
            State::Open(_) | State::Begun(_) if !self.savepoints.is_empty() => self.has_error = true,
            State::Open(transaction) => transaction.fail(),
            State::Begun(_) => self.transaction = State::Failed,
            State::Failed | State::Idle => {}
        }
    }
}

/// Cancels the running statement of a session; clones share it.
#[derive(Debug, Clone)]
pub struct Canceller {
    running: Arc<Mutex<Option<Arc<Interrupt>>>>,
}

impl Canceller {
    /// Cancels the running statement, which ends with SQLSTATE 57014 unless it is already over. Returns false if none
    /// runs.
    pub fn cancel(&self) -> bool {
        match &*self.running.lock() {
            Some(interrupt) => {
                interrupt.stop(Cause::User);
                true
            }
            None => false,
        }
    }
}

/// Charges a statement that a session may keep, or that runs once if prepared statements have no memory.
fn charge_once(bytes: usize, room: &mut Room<'_>) -> Result<Charge> {
    let mut charge = Charge::shared(room.budget, Working::Statements);
    if room.take(|| charge.resize_exactly(bytes)).is_ok()
        && let Ok(charge) = charge_statement(bytes, charge)
    {
        return Ok(charge);
    }
    let mut charge = Charge::shared(room.budget, Working::Queries);
    room.take(|| charge.resize_exactly(bytes)).map_err(|full| out_of_memory("a statement", full))?;
    Ok(charge)
}

fn no_transaction() -> Error {
    Class::NoActiveTransaction.error("there is no transaction")
}
