//! Replay into partitions.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_statements::{define, split};
use thermocline_tables::partition::{Digest, Head, Member, NeededRows, Partition, Scope};
use thermocline_tables::schema::{Schema, TableId};
use thermocline_tables::table::{Budget, TableLoad, TupleId};
use thermocline_types::{Error, Result, Value};

use super::filling::fill;
use super::{Described, Replay, SnapshotRows, verify_digest};
use crate::Semantics;
use crate::blocks::{BlockFiles, BlockStore, BlockStoreSettings, BlockWrites};
use crate::log::{self, Batch, Body, Effect, Effects, Images, LoadOutcome, Record};

/// Executes the commands of records as in their first run.
pub trait Execute {
    /// Runs a procedure.
    fn call(&mut self, scope: &mut Scope<'_>, procedure: &str, version: u32, arguments: &[Value]) -> Result<()>;

    /// Runs a statement.
    fn statement(&mut self, scope: &mut Scope<'_>, sql: &str, parameters: &[Value]) -> Result<()>;

    /// Runs a command before its turn, only to find evicted rows that it is likely to need then: its changes are
    /// undone, and its outcome does not matter. Does nothing where that might not end, or take long.
    fn look_ahead(&mut self, scope: &mut Scope<'_>, body: &Body<'_>) -> Result<()>;

    /// Called when the schema has changed.
    fn defined(&mut self, schema: &Schema);
}

/// The partitions of a database that is being recovered.
///
/// One thread per partition, up to the number of processors, loads the rows of a snapshot. A single thread replays the
/// log: what it saves over the first run (queues, waiting, the log) is more than replaying several partitions in
/// parallel would gain, and order between partitions costs nothing.
#[derive(Debug)]
pub struct Rebuild<X> {
    members: Vec<Member>,
    /// Threads that load rows.
    threads: usize,
    schema: Schema,
    execute: X,
    /// Rows of a transaction whose last record has not come yet; `None` between two transactions.
    parts: Option<Parts>,
    /// The last record that was [looked at](Self::look) before its turn. Rows that came back stay until it is replayed.
    looked_until: Sequence,
}

/// Times that a record is looked at before its turn: what it needs first may say what it needs next.
const LOOKS_MAX: u32 = 4;

/// Keys of lost rows that an error names.
const LOST_NAMED_MAX: usize = 16;

/// Rows of all of a transaction's records but the last.
#[derive(Debug)]
struct Parts {
    transaction: TransactionId,
    /// Each with the range of its image in `images`; `None` for a removed row.
    rows: Vec<(PartitionId, TableId, TupleId, Option<Range<usize>>)>,
    images: Vec<u8>,
}

impl Parts {
    fn new(transaction: TransactionId) -> Self {
        Self { transaction, rows: Vec::new(), images: Vec::new() }
    }

    fn add(&mut self, effects: &Effects<'_>) -> Result<()> {
        effects.each(|Effect { partition, table, tuple, image }| {
            let start = self.images.len();
            self.images.extend_from_slice(image.unwrap_or_default());
            self.rows.push((partition, table, tuple, image.map(|_| start..self.images.len())));
            Ok(())
        })
    }

    fn effects(&self) -> impl Iterator<Item = Effect<'_>> {
        self.rows.iter().map(|(partition, table, tuple, image)| Effect {
            partition: *partition,
            table: *table,
            tuple: *tuple,
            image: image.clone().and_then(|place| self.images.get(place)),
        })
    }
}

impl<X: Execute> Rebuild<X> {
    /// Empty partitions, as many as the database has. The budget should refuse nothing: [`Budget::unlimited`] if all
    /// that was committed fits into memory, [`Budget::lenient`] where rows [are evicted](Self::with_blocks).
    pub fn new(identity: Identity, budget: &Arc<Budget>, undo_bytes_max: usize, seed: u64, execute: X) -> Self {
        let count = u32::from(identity.partitions);
        let members = (0..identity.partitions)
            .map(|id| Member::new(Partition::new(PartitionId(id), count, Arc::clone(budget), seed), undo_bytes_max))
            .collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { members, threads, schema: Schema::default(), execute, parts: None, looked_until: Sequence::ZERO }
    }

    /// Evicts rows to blocks in these files while the budget is exceeded, and leaves rows of the snapshot in theirs.
    #[must_use]
    pub fn with_blocks(
        mut self,
        files: &Arc<BlockFiles>,
        database: DatabaseId,
        settings: BlockStoreSettings,
        writes: &Arc<BlockWrites>,
    ) -> Self {
        for member in &mut self.members {
            let (id, to) = (member.partition.id(), (Arc::clone(writes), member.partition.budget()));
            let blocks = BlockStore::new(Arc::clone(files), database, id, settings, to);
            member.partition.set_blocks(Box::new(blocks));
            member.partition.set_victims(settings.victims, settings.chain_sampling);
        }
        self
    }

    /// Uses this many threads; with one, files are read in the same order each time.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The partitions.
    pub fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// The rebuilt partitions and schema.
    pub fn into_parts(self) -> (Vec<Member>, Schema, X) {
        (self.members, self.schema, self.execute)
    }

    fn define(&mut self, sql: &str) -> Result<()> {
        let (schema, change) = define(&self.schema, sql)?;
        self.members.iter_mut().try_for_each(|member| member.partition.define(&change))?;
        self.schema = schema;
        self.execute.defined(&self.schema);
        Ok(())
    }

    /// Writes logged rows. There is no digest to compare: it covers all changes, while these are the last images of
    /// each row, which the record's checksum covers.
    fn effects(&mut self, record: &Record<'_>, effects: &Effects<'_>, behind: &[Record<'_>]) -> Result<()> {
        let parts = self.parts.take();
        let mut rows: Vec<_> = parts.iter().flat_map(Parts::effects).collect();
        effects.each(|effect| {
            rows.push(effect);
            Ok(())
        })?;
        let mut needed = self.needed();
        for effect in &rows {
            self.add_effect(&mut needed, effect);
        }
        // Many are read side by side anyway, and need not come back to be removed.
        if needed.iter().any(|needed| !needed.is_empty()) && !self.is_fetch(&needed, &[]) {
            self.bring_back(record.sequence, needed, behind).map_err(|error| failed(record, error))?;
        }
        let partitions: BTreeSet<PartitionId> = rows.iter().map(|effect| effect.partition).collect();
        for id in partitions {
            let of = rows.iter().filter(|effect| effect.partition == id);
            let of = of.map(|effect| (effect.table, effect.tuple, effect.image));
            self.member(id)?.partition.apply(of).map_err(|error| {
                let rows = self.members.iter().map(|member| {
                    let here = rows.iter().filter(|effect| effect.partition == member.partition.id());
                    here.map(|effect| (effect.table, effect.tuple)).collect()
                });
                let rows: Vec<_> = rows.collect();
                match error {
                    Error::Corrupt(_) => self.needs_lost(record, &rows, error),
                    error => failed(record, error),
                }
            })?;
        }
        Ok(())
    }

    /// Removes the rows of unfinished loads and returns those loads. Nothing later in the log refers to them.
    pub fn take_back_loads(&mut self) -> Result<Vec<TableLoad>> {
        take_back_loads(&mut self.members)
    }

    fn member(&mut self, id: PartitionId) -> Result<&mut Member> {
        self.members
            .get_mut(usize::from(id.0))
            .ok_or_else(|| Error::corrupt(format_args!("a log record of partition {}, which there is not", id.0)))
    }

    /// Runs a body over its partitions, again when it has needed evicted rows; compares digests and keeps the changes.
    fn execute(
        &mut self,
        (record, semantics): (&Record<'_>, Semantics),
        behind: &[Record<'_>],
        mut run: impl FnMut(&mut X, &mut Scope<'_>) -> Result<()>,
    ) -> Result<()> {
        for partition in record.partitions.iter() {
            self.member(partition)?;
        }
        while let Err(error) = run(&mut self.execute, &mut Scope::new(begun(&mut self.members, record))) {
            if error != Error::Evicted {
                return Err(failed(record, error));
            }
            abort(members_of(&mut self.members, record))?;
            let mut needed = self.needed();
            needed.iter_mut().for_each(NeededRows::require);
            let rows: Vec<_> = needed.iter().map(|needed| needed.rows().to_vec()).collect();
            let back = self.bring_back(record.sequence, needed, behind);
            back.map_err(|error| self.needs_lost(record, &rows, error))?;
        }
        let members = members_of(&mut self.members, record);
        let digest =
            if semantics.digests_changes() { Member::digest(members) } else { Member::digest_at_the_end(members)? };
        verify_digest(record, digest.bits())?;
        for member in members {
            let (partition, transaction) = member.split();
            partition.commit(transaction);
            // Records whose look-ahead found nothing bring back rows as well.
            if self.looked_until <= record.sequence || partition.has_many_pinned() {
                partition.unpin();
            }
            partition.keep_limit()?;
        }
        if self.members.first().is_some_and(|member| member.partition.budget().pressure() > 0) {
            // Others may have rows to evict.
            self.keep_limit()?;
        }
        Ok(())
    }

    /// The error of a record that needs these rows of each partition, if some of them are lost: names it, and their keys.
    #[cold]
    fn needs_lost(&self, record: &Record<'_>, rows: &[Vec<(TableId, TupleId)>], error: Error) -> Error {
        let Error::Corrupt(why) = error else { return error };
        let of_partitions = self.members.iter().zip(rows);
        let keys = of_partitions.flat_map(|(member, rows)| member.partition.lost_keys(rows, LOST_NAMED_MAX));
        // Copies of a replicated row have one key.
        let keys: BTreeSet<String> = keys.collect();
        let keys: Vec<String> = keys.into_iter().take(LOST_NAMED_MAX).collect();
        if keys.is_empty() {
            return failed(record, Error::Corrupt(why));
        }
        Error::corrupt(format_args!(
            "{} needs rows that are lost, with the keys {}: {why}",
            Described(record),
            keys.join(", ")
        ))
    }

    /// The evicted rows that the last command has needed in each partition.
    fn needed(&mut self) -> Vec<NeededRows> {
        let taken = self.members.iter_mut().map(|member| {
            let mut needed = NeededRows::default();
            member.partition.take_needed(&mut needed);
            needed
        });
        taken.collect()
    }

    /// Whether rows are as many as are read at once in some partition, beside rows of these numbers and bytes.
    fn is_fetch(&self, needed: &[NeededRows], beside: &[(usize, usize)]) -> bool {
        let beside = beside.iter().copied().chain(std::iter::repeat((0, 0)));
        self.members.iter().zip(needed).zip(beside).any(|((member, needed), (rows, bytes))| {
            let size = needed.size();
            member.partition.is_fetch((size.0 + rows, size.1 + bytes))
        })
    }

    /// Brings back rows that a record needs, and with them those that records behind it are found to need: each of them
    /// would wait for its own otherwise. They stay until all of these records are replayed. What is found has no effect
    /// on what any of them does.
    fn bring_back(&mut self, sequence: Sequence, mut needed: Vec<NeededRows>, behind: &[Record<'_>]) -> Result<()> {
        self.looked_until = self.looked_until.max(sequence);
        let is_new = |record: &&Record<'_>| record.sequence > self.looked_until;
        // Behind a definition, commands may mean something else.
        let records = behind.iter().take_while(|record| !matches!(record.body, Body::Definition(_)));
        let mut records: Vec<&Record<'_>> = records.filter(is_new).collect();
        let mut beside = vec![(0, 0); self.members.len()];
        for _ in 0..LOOKS_MAX {
            let mut again = Vec::new();
            for record in records {
                if self.is_fetch(&needed, &beside) {
                    break;
                }
                self.looked_until = self.looked_until.max(record.sequence);
                if self.look(record, &mut needed)? {
                    again.push(record);
                }
            }
            records = again;
            for ((member, needed), (rows, bytes)) in self.members.iter_mut().zip(&needed).zip(&mut beside) {
                let size = needed.size();
                (*rows, *bytes) = (*rows + size.0, *bytes + size.1);
                member.partition.bring_back_needed(needed)?;
                member.partition.keep_limit()?;
            }
            if records.is_empty() {
                break;
            }
            needed = self.needed();
        }
        Ok(())
    }

    /// Adds the evicted rows that a record is likely to need; says whether it should be looked at again when they are
    /// back.
    fn look(&mut self, record: &Record<'_>, needed: &mut [NeededRows]) -> Result<bool> {
        match &record.body {
            Body::Effects(effects) | Body::Part(effects) => {
                effects.each(|effect| {
                    self.add_effect(needed, &effect);
                    Ok(())
                })?;
                Ok(false)
            }
            Body::Call { .. } | Body::Statement { .. } => {
                // Whatever is wrong with it shows in its turn.
                let _found = self.execute.look_ahead(&mut Scope::new(begun(&mut self.members, record)), &record.body);
                abort(members_of(&mut self.members, record))?;
                let members = self.members.iter_mut().zip(needed);
                Ok(members.fold(false, |any, (member, needed)| member.partition.take_needed(needed) || any))
            }
            Body::Definition(_) | Body::Load(..) | Body::TakeBack(..) | Body::LoadEnd(..) => Ok(false),
        }
    }

    /// Adds the row of an effect, if it is evicted.
    fn add_effect(&self, needed: &mut [NeededRows], effect: &Effect<'_>) {
        let place = usize::from(effect.partition.0);
        if let (Some(member), Some(needed)) = (self.members.get(place), needed.get_mut(place)) {
            member.partition.add_needed(needed, effect.table, effect.tuple);
        }
    }

    /// Lets rows go again that came back for records up to this one.
    fn replayed(&mut self, sequence: Sequence) {
        if self.looked_until <= sequence {
            self.members.iter_mut().for_each(|member| member.partition.unpin());
        }
    }

    fn keep_limit(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.partition.keep_limit())
    }
}

/// The partitions of a record. A command that ran over several uses no others, so it may have all of them.
fn members_of<'m>(members: &'m mut [Member], record: &Record<'_>) -> &'m mut [Member] {
    match record.partitions.single() {
        Some(PartitionId(id)) => members.get_mut(usize::from(id)..=usize::from(id)).unwrap_or_default(),
        None => members,
    }
}

/// [`members_of`] with the record's transaction begun.
fn begun<'m>(members: &'m mut [Member], record: &Record<'_>) -> &'m mut [Member] {
    let head = Head { id: record.transaction, timestamp: record.timestamp, seed: record.seed };
    let members = members_of(members, record);
    members.iter_mut().for_each(|member| member.begin(head));
    members
}

fn abort(members: &mut [Member]) -> Result<()> {
    members.iter_mut().map(Member::split).try_for_each(|(partition, transaction)| partition.abort(transaction))
}

/// [`Rebuild::take_back_loads`] for the partitions of a rebuilt database.
pub fn take_back_loads(members: &mut [Member]) -> Result<Vec<TableLoad>> {
    let loads: BTreeSet<_> = members.iter().flat_map(|member| member.partition.loads()).collect();
    loads.iter().try_for_each(|load| end_load(members, *load, LoadOutcome::TakenBack))?;
    Ok(loads.into_iter().collect())
}

/// Records for the loads that recovery has taken back. They precede everything else, because later rows get the ids of
/// the removed rows.
pub fn taken_back(loads: &[TableLoad], transaction: TransactionId, timestamp: Micros) -> Result<Batch> {
    let mut batch = Batch::default();
    let head = log::Head { transaction, timestamp, seed: 0, digest: Digest::EMPTY.bits(), partitions: &[] };
    loads.iter().try_for_each(|load| batch.load_end(&head, *load, LoadOutcome::TakenBack))?;
    Ok(batch)
}

fn end_load(members: &mut [Member], load: TableLoad, outcome: LoadOutcome) -> Result<()> {
    members.iter_mut().try_for_each(|member| {
        if outcome == LoadOutcome::TakenBack {
            member.partition.take_back(load, u32::MAX)?;
        }
        member.partition.end_load(load)
    })
}

/// Adds the rows of a load to each partition of a scope.
pub fn insert_hidden(scope: &mut Scope<'_>, load: TableLoad, images: Images<'_>) -> Result<()> {
    scope.each().try_for_each(|(partition, transaction)| {
        images.each(|image| partition.insert_hidden(load, image, transaction).map(drop))
    })
}

/// Cannot happen: all records of a transaction are in one group.
fn unfinished(transaction: TransactionId) -> Error {
    Error::corrupt(format_args!("the log has not all records of transaction {}", transaction.0))
}

#[cold]
fn failed(record: &Record<'_>, error: Error) -> Error {
    match error {
        // Not an error of the record: a disk that fails now may do its work at the next start.
        error if matches!(error.root(), Error::CannotOpen(_) | Error::Io(_) | Error::DiskFull(_)) => error,
        error => Error::corrupt(format_args!("{} fails, and did not when it ran first: {error}", Described(record))),
    }
}

impl<X: Execute> Replay for Rebuild<X> {
    fn definitions(&mut self, identity: Identity, sql: &str) -> Result<()> {
        if usize::from(identity.partitions) != self.members.len() {
            return Err(Error::internal("the snapshot has another number of partitions than its database"));
        }
        for statement in split(sql)? {
            self.define(statement)?;
        }
        Ok(())
    }

    fn rows(&mut self, rows: &SnapshotRows<'_>, loaded: &mut dyn FnMut(u64)) -> Result<()> {
        let replicated =
            self.schema.tables().filter(|table| table.partition_by.is_none()).map(|table| table.id).collect();
        fill(self.members.iter_mut().map(|member| &mut member.partition), self.threads, rows, &replicated, loaded)
    }

    fn record(&mut self, record: &Record<'_>, semantics: Semantics, behind: &[Record<'_>]) -> Result<()> {
        if let Some(parts) = &self.parts
            && (parts.transaction != record.transaction || !matches!(record.body, Body::Part(_) | Body::Effects(_)))
        {
            return Err(unfinished(parts.transaction));
        }
        match record.body {
            Body::Call { procedure, version, arguments } => {
                let arguments = arguments.to_vec()?;
                self.execute((record, semantics), behind, |execute, scope| {
                    execute.call(scope, procedure, version, &arguments)
                })
            }
            Body::Statement { sql, parameters } => {
                let parameters = parameters.to_vec()?;
                self.execute((record, semantics), behind, |execute, scope| execute.statement(scope, sql, &parameters))
            }
            Body::Effects(effects) => {
                self.effects(record, &effects, behind)?;
                self.keep_limit()
            }
            Body::Part(effects) => self.parts.get_or_insert_with(|| Parts::new(record.transaction)).add(&effects),
            Body::Definition(sql) => {
                self.define(sql).map_err(|error| failed(record, error))?;
                self.keep_limit()
            }
            Body::Load(load, images) => {
                self.execute((record, semantics), behind, |_, scope| insert_hidden(scope, load, images))
            }
            Body::TakeBack(load, rows) => {
                let taken = self.members.iter_mut().try_for_each(|member| {
                    let taken = member.partition.take_back(load, rows);
                    taken.map(drop)
                });
                taken.map_err(|error| failed(record, error))
            }
            Body::LoadEnd(load, outcome) => {
                end_load(&mut self.members, load, outcome).map_err(|error| failed(record, error))
            }
        }?;
        self.replayed(record.sequence);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.parts.as_ref().map_or(Ok(()), |parts| Err(unfinished(parts.transaction)))
    }
}
