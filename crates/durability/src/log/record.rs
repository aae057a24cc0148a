//! Records: the command of a transaction, or its effects.

use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};
use thermocline_machine::ids::{LoadId, Micros, PartitionId, Sequence, TransactionId};
use thermocline_tables::schema::TableId;
use thermocline_tables::table::{Budget, Charge, ROW_BYTES_MAX, TableLoad, TupleId, Working, out_of_memory};
use thermocline_types::{Class, Error, Result, Value};

use super::bytes::{Bytes, Values, put_at, put_counted, put_value};
use super::segment::GROUP_BYTES_MAX;

/// Maximum bytes of a record.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Bytes of effects after which a transaction's effects continue in another record.
pub const PART_BYTES: usize = 8 << 20;
/// A part ends after the row that exceeds its size.
const _: () = assert!(PART_BYTES + ROW_BYTES_MAX + HEADER_BYTES + 2 * (1 << 16) < RECORD_BYTES_MAX);

/// Maximum bytes of the records of one transaction, all of which are in one group.
pub const TRANSACTION_BYTES_MAX: usize = 512 << 20;
const _: () = assert!(TRANSACTION_BYTES_MAX < GROUP_BYTES_MAX);

/// Bytes in front of a record's partitions and body.
///
/// ```text
/// 0      4        8        16          24        32   40     48   49   50    52
/// length checksum sequence transaction timestamp seed digest kind zero count | partitions (2 each) | body
///
/// call, statement   text of counted bytes: name or SQL | version (4, call only) | count (2) | values
/// effects, part     count (4) | partition (2), table (4), tuple (4), 1 and counted image, or 0
/// definition        SQL of counted bytes
/// load              load (8) | table (4) | count (4) | counted image; for each row
/// take back         load (8) | table (4) | rows (4)
/// load end          load (8) | table (4) | 1 if its rows stay, 0 if they are gone
/// ```
///
/// All numbers are little-endian. The length is of the whole record; the checksum is CRC-32C of all its other bytes.
/// "Counted" bytes are preceded by their number in 4 bytes. No partitions means all.
///
/// A part is an incomplete set of effects: the transaction continues in the next record, which is another part or
/// effects. A [`Batch`] goes into one group, which is there whole or not at all, so no log ends between them.
pub const HEADER_BYTES: usize = AT_COUNT + 2;

const AT_CHECKSUM: usize = 4;
const AT_SEQUENCE: usize = AT_CHECKSUM + 4;
const AT_TRANSACTION: usize = AT_SEQUENCE + 8;
const AT_TIMESTAMP: usize = AT_TRANSACTION + 8;
const AT_SEED: usize = AT_TIMESTAMP + 8;
const AT_DIGEST: usize = AT_SEED + 8;
const AT_KIND: usize = AT_DIGEST + 8;
const AT_COUNT: usize = AT_KIND + 2;
const _: () = assert!(HEADER_BYTES == 52);

mod kind {
    pub const CALL: u8 = 1;
    pub const STATEMENT: u8 = 2;
    pub const EFFECTS: u8 = 3;
    pub const DEFINITION: u8 = 4;
    pub const PART: u8 = 5;
    pub const LOAD: u8 = 6;
    pub const TAKE_BACK: u8 = 7;
    pub const LOAD_END: u8 = 8;
}

/// Fields of every record about its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Its number.
    pub transaction: TransactionId,
    /// Value of `now()`.
    pub timestamp: Micros,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Hash of its changes; executing the record again must give the same hash.
    pub digest: u64,
    /// The participating partitions, ascending; empty for all.
    pub partitions: &'a [PartitionId],
}

/// A row that a transaction wrote or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect<'a> {
    /// The partition that has the row.
    pub partition: PartitionId,
    /// Its table.
    pub table: TableId,
    /// The row.
    pub tuple: TupleId,
    /// Its image after the transaction; `None` if it was removed.
    pub image: Option<&'a [u8]>,
}

/// A decoded record, which borrows the bytes of its group.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its place in the log.
    pub sequence: Sequence,
    /// Its transaction's number.
    pub transaction: TransactionId,
    /// Value of `now()`.
    pub timestamp: Micros,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Hash of its changes.
    pub digest: u64,
    /// The participating partitions.
    pub partitions: Partitions<'a>,
    /// Its command or rows.
    pub body: Body<'a>,
}

/// Command or rows of a record.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// Run a procedure.
    Call {
        /// Its name.
        procedure: &'a str,
        /// Version of the procedure that ran.
        version: u32,
        /// Its arguments.
        arguments: Values<'a>,
    },
    /// Run one statement.
    Statement {
        /// Its text.
        sql: &'a str,
        /// Values of `$1`, `$2`, ...
        parameters: Values<'a>,
    },
    /// Write these rows, and those of the preceding parts.
    Effects(Effects<'a>),
    /// Write these rows together with those of the next record.
    Part(Effects<'a>),
    /// Change the schema.
    Definition(&'a str),
    /// Insert rows, invisible until the load ends, into each of the partitions.
    Load(TableLoad, Images<'a>),
    /// Remove up to this many rows of a load from each of the partitions, first rows first.
    TakeBack(TableLoad, u32),
    /// End a load: its rows become visible, or those that remain are removed.
    LoadEnd(TableLoad, LoadOutcome),
}

/// Outcome of a load for its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOutcome {
    /// They stay.
    Kept,
    /// They go.
    TakenBack,
}

/// Images of rows, each preceded by its length.
#[derive(Debug, Clone, Copy)]
pub struct Images<'a> {
    count: u32,
    bytes: Bytes<'a>,
}

impl<'a> Images<'a> {
    /// `count` encoded images.
    pub const fn new(count: u32, bytes: &'a [u8]) -> Self {
        Self { count, bytes: Bytes::new(bytes) }
    }

    /// Calls `insert` with each image; an error if the bytes do not encode images, or an error of `insert`.
    pub fn each(&self, mut insert: impl FnMut(&'a [u8]) -> Result<()>) -> Result<()> {
        let mut bytes = self.bytes;
        for _ in 0..self.count {
            insert(bytes.counted().ok_or_else(unreadable)?)?;
        }
        if bytes.is_empty() { Ok(()) } else { Err(unreadable()) }
    }
}

/// The partitions of a record, ascending.
#[derive(Debug, Clone, Copy)]
pub struct Partitions<'a> {
    bytes: &'a [u8],
}

impl Partitions<'_> {
    /// Whether the record covers all partitions.
    pub const fn is_all(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The only partition, if the record has exactly one.
    pub fn single(&self) -> Option<PartitionId> {
        (self.bytes.len() == 2).then(|| self.iter().next()).flatten()
    }

    /// Each partition; none if the record covers all.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> {
        let mut bytes = Bytes::new(self.bytes);
        std::iter::from_fn(move || bytes.u16().map(PartitionId))
    }
}

/// The rows of a record, in the order in which they were first changed.
#[derive(Debug, Clone, Copy)]
pub struct Effects<'a> {
    count: u32,
    bytes: Bytes<'a>,
}

impl<'a> Effects<'a> {
    /// Calls `apply` with each row; an error if the bytes do not encode rows, or an error of `apply`.
    pub fn each(&self, mut apply: impl FnMut(Effect<'a>) -> Result<()>) -> Result<()> {
        let mut bytes = self.bytes;
        for _ in 0..self.count {
            apply(effect(&mut bytes).ok_or_else(unreadable)?)?;
        }
        if bytes.is_empty() { Ok(()) } else { Err(unreadable()) }
    }
}

fn unreadable() -> Error {
    Error::corrupt("the rows of a log record cannot be read")
}

fn effect<'a>(bytes: &mut Bytes<'a>) -> Option<Effect<'a>> {
    Some(Effect {
        partition: PartitionId(bytes.u16()?),
        table: TableId(bytes.u32()?),
        tuple: TupleId(bytes.u32()?),
        image: match bytes.u8()? {
            0 => None,
            1 => Some(bytes.counted()?),
            _ => return None,
        },
    })
}

/// Records of one partition that the log has not been given yet.
///
/// Their sequences and checksums are filled in when the group is written, outside the partitions' threads.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    records: u32,
    /// Bytes of effects after which another record begins.
    part_bytes: usize,
    /// Charge for the buffer, and while it grows for as much in the log's buffer, into which it is copied.
    charge: Charge,
}

/// Bytes of the buffer that an empty batch keeps.
const KEPT_BYTES: usize = 2 << 20;
/// Bytes up to which the buffer doubles; then it grows by a quarter, because it is charged twice.
const DOUBLING_BYTES: usize = 1 << 20;

impl Default for Batch {
    fn default() -> Self {
        Self::with_part_bytes(PART_BYTES)
    }
}

impl Batch {
    /// An empty batch that splits effects beyond this many bytes; for tests.
    pub fn with_part_bytes(part_bytes: usize) -> Self {
        Self { bytes: Vec::new(), records: 0, part_bytes, charge: Charge::default() }
    }

    /// Charges this budget for the memory of its records; records that it has no memory for are refused.
    #[must_use]
    pub fn charged(self, budget: &Arc<Budget>) -> Self {
        Self { charge: Charge::new(budget, Working::Log), ..self }
    }

    /// Makes room for this many more bytes.
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<()> {
        if self.bytes.capacity() - self.bytes.len() >= more { Ok(()) } else { self.grow(more) }
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<()> {
        let (held, capacity) = (self.bytes.len(), self.bytes.capacity());
        let capacity = (held + more).max(capacity + capacity.clamp(512, DOUBLING_BYTES.max(capacity / 4)));
        self.charge.resize(2 * capacity).map_err(|full| out_of_memory("a transaction's record in the log", full))?;
        self.bytes.reserve_exact(capacity - held);
        Ok(())
    }

    /// Number of records.
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// Bytes of the records.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no records.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends a call of a procedure.
    pub fn call(&mut self, head: &Head<'_>, procedure: &str, version: u32, arguments: &[Value]) -> Result<()> {
        self.record(head, kind::CALL, |batch| {
            batch.make_room(procedure.len() + values_bytes(arguments))?;
            let out = &mut batch.bytes;
            put_counted(out, procedure.as_bytes());
            out.extend_from_slice(&version.to_le_bytes());
            put_values(out, arguments)
        })
    }

    /// Appends a statement that was a transaction of its own.
    pub fn statement(&mut self, head: &Head<'_>, sql: &str, parameters: &[Value]) -> Result<()> {
        self.record(head, kind::STATEMENT, |batch| {
            batch.make_room(sql.len() + values_bytes(parameters))?;
            let out = &mut batch.bytes;
            put_counted(out, sql.as_bytes());
            put_values(out, parameters)
        })
    }

    /// Appends the rows that a transaction wrote or removed, each once, in as many records as needed.
    pub fn effects<'a>(&mut self, head: &Head<'_>, effects: impl IntoIterator<Item = Effect<'a>>) -> Result<()> {
        let (start, records) = (self.bytes.len(), self.records);
        let mut effects = effects.into_iter().peekable();
        loop {
            let (at, part_bytes) = (self.bytes.len(), self.part_bytes);
            let written = self.record(head, kind::EFFECTS, |batch| put_effects(batch, &mut effects, part_bytes));
            let bytes = self.bytes.len() - start;
            let written = written.and_then(|()| match bytes {
                0..=TRANSACTION_BYTES_MAX => Ok(()),
                _ => Err(Class::LimitExceeded.error(format_args!(
                    "a transaction that changes more than {TRANSACTION_BYTES_MAX} bytes of rows; make it several"
                ))),
            });
            if written.is_err() {
                self.bytes.truncate(start);
                self.records = records;
                return written;
            }
            if effects.peek().is_none() {
                return Ok(());
            }
            put_at(&mut self.bytes, at + AT_KIND, &[kind::PART]);
        }
    }

    /// Appends a change of the schema.
    pub fn definition(&mut self, head: &Head<'_>, sql: &str) -> Result<()> {
        self.record(head, kind::DEFINITION, |batch| {
            batch.make_room(sql.len() + 4)?;
            put_counted(&mut batch.bytes, sql.as_bytes());
            Ok(())
        })
    }

    /// Appends rows of a load.
    pub fn load(&mut self, head: &Head<'_>, of: TableLoad, images: Images<'_>) -> Result<()> {
        self.record(head, kind::LOAD, |batch| {
            batch.make_room(LOAD_BYTES + images.bytes.rest().len())?;
            let out = &mut batch.bytes;
            put_load(out, of);
            out.extend_from_slice(&images.count.to_le_bytes());
            out.extend_from_slice(images.bytes.rest());
            Ok(())
        })
    }

    /// Appends the removal of rows of a load.
    pub fn take_back(&mut self, head: &Head<'_>, of: TableLoad, rows: u32) -> Result<()> {
        self.record(head, kind::TAKE_BACK, |batch| {
            batch.make_room(LOAD_BYTES)?;
            let out = &mut batch.bytes;
            put_load(out, of);
            out.extend_from_slice(&rows.to_le_bytes());
            Ok(())
        })
    }

    /// Appends the end of a load.
    pub fn load_end(&mut self, head: &Head<'_>, of: TableLoad, outcome: LoadOutcome) -> Result<()> {
        self.record(head, kind::LOAD_END, |batch| {
            batch.make_room(LOAD_BYTES)?;
            let out = &mut batch.bytes;
            put_load(out, of);
            out.push(u8::from(outcome == LoadOutcome::Kept));
            Ok(())
        })
    }

    /// Current position, for [`Batch::rewind`].
    pub const fn mark(&self) -> (usize, u32) {
        (self.bytes.len(), self.records)
    }

    /// Drops the records after a mark.
    pub fn rewind(&mut self, (bytes, records): (usize, u32)) {
        self.bytes.truncate(bytes);
        self.records = records;
    }

    /// Drops all records and keeps a moderate amount of memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records = 0;
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
        // Shrinking a charge is never refused.
        let _ = self.charge.resize(self.bytes.capacity());
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a record; an error leaves the batch unchanged.
    fn record(&mut self, head: &Head<'_>, kind: u8, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.bytes.len();
        let result = self.write(head, kind, body);
        match result {
            Ok(()) => self.records += 1,
            Err(_) => self.bytes.truncate(start),
        }
        result
    }

    fn write(&mut self, head: &Head<'_>, kind: u8, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let count = u16::try_from(head.partitions.len()).map_err(|_| Error::internal("more than 65535 partitions"))?;
        self.make_room(HEADER_BYTES + 2 * head.partitions.len())?;
        let out = &mut self.bytes;
        let start = out.len();
        // Length, checksum and sequence are filled in later.
        out.extend_from_slice(&[0; AT_TRANSACTION]);
        out.extend_from_slice(&head.transaction.0.to_le_bytes());
        out.extend_from_slice(&head.timestamp.0.to_le_bytes());
        out.extend_from_slice(&head.seed.to_le_bytes());
        out.extend_from_slice(&head.digest.to_le_bytes());
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&count.to_le_bytes());
        for partition in head.partitions {
            out.extend_from_slice(&partition.0.to_le_bytes());
        }
        body(self)?;
        let length = self.bytes.len() - start;
        match u32::try_from(length) {
            Ok(bytes) if length <= RECORD_BYTES_MAX => put_at(&mut self.bytes, start, &bytes.to_le_bytes()),
            _ => return Err(too_large(length)),
        }
        Ok(())
    }
}

/// Appends effects up to and including the first that exceeds this size.
fn put_effects<'a>(batch: &mut Batch, effects: &mut impl Iterator<Item = Effect<'a>>, bytes: usize) -> Result<()> {
    /// Upper bound for an effect without its image.
    const HEAD_BYTES: usize = 16;
    batch.make_room(4)?;
    let at = batch.bytes.len();
    batch.bytes.extend_from_slice(&[0; 4]);
    let mut count = 0_u32;
    for effect in effects {
        batch.make_room(HEAD_BYTES + effect.image.map_or(0, <[u8]>::len))?;
        let out = &mut batch.bytes;
        out.extend_from_slice(&effect.partition.0.to_le_bytes());
        out.extend_from_slice(&effect.table.0.to_le_bytes());
        out.extend_from_slice(&effect.tuple.0.to_le_bytes());
        out.push(u8::from(effect.image.is_some()));
        if let Some(image) = effect.image {
            put_counted(out, image);
        }
        count += 1;
        if out.len() - at >= bytes {
            break;
        }
    }
    put_at(&mut batch.bytes, at, &count.to_le_bytes());
    Ok(())
}

/// Upper bound for the encoded values of a record.
fn values_bytes(values: &[Value]) -> usize {
    /// Upper bound for a value without its text.
    const VALUE_BYTES: usize = 24;
    values.iter().map(|value| VALUE_BYTES + value.heap_bytes()).sum::<usize>() + VALUE_BYTES
}

/// Upper bound for a load record without its header and rows.
const LOAD_BYTES: usize = 24;

fn put_load(out: &mut Vec<u8>, TableLoad { table, load }: TableLoad) {
    out.extend_from_slice(&load.0.to_le_bytes());
    out.extend_from_slice(&table.0.to_le_bytes());
}

fn put_values(out: &mut Vec<u8>, values: &[Value]) -> Result<()> {
    let count = u16::try_from(values.len());
    let count = count.map_err(|_| Class::LimitExceeded.error("more than 65535 arguments or parameters"))?;
    out.extend_from_slice(&count.to_le_bytes());
    for value in values {
        put_value(out, value.as_ref());
    }
    Ok(())
}

fn too_large(bytes: usize) -> Error {
    Class::LimitExceeded
        .error(format_args!("a transaction of {bytes} bytes or more; the log takes {RECORD_BYTES_MAX} at most"))
}

/// Fills in the sequences, from `first` on, and the checksums of consecutive records; returns their number.
pub(super) fn seal(records: &mut [u8], first: Sequence) -> u64 {
    let (mut rest, mut sequence) = (records, first);
    while let Some(length) = length_of(rest)
        && let Some((record, behind)) = rest.split_at_mut_checked(length)
    {
        put_at(record, AT_SEQUENCE, &sequence.0.to_le_bytes());
        let checksum = checksum_of(record);
        put_at(record, AT_CHECKSUM, &checksum.to_le_bytes());
        sequence = sequence.next();
        rest = behind;
    }
    sequence.0 - first.0
}

/// The length in a record's header, if it is possible.
fn length_of(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(Bytes::new(bytes).u32()?).ok()?;
    (HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length).then_some(length)
}

fn checksum_of(record: &[u8]) -> u32 {
    let (length, rest) = record.split_at_checked(AT_SEQUENCE).unwrap_or_default();
    crc32c_append(crc32c(length.get(..AT_CHECKSUM).unwrap_or_default()), rest)
}

/// Takes the next record off the front; `None` if the bytes are not a record with this sequence.
pub(super) fn check(bytes: &mut &[u8], sequence: Sequence) -> Option<()> {
    let (record, rest) = bytes.split_at_checked(length_of(bytes)?)?;
    let checksum = Bytes::new(record.get(AT_CHECKSUM..)?).u32()?;
    let whole = checksum == checksum_of(record) && parse(record)?.sequence == sequence;
    *bytes = if whole { rest } else { bytes };
    whole.then_some(())
}

/// Takes the next [checked](check) record off the front; `None` after the last.
pub(super) fn read_checked<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
    let (record, rest) = bytes.split_at_checked(length_of(bytes)?)?;
    *bytes = rest;
    parse(record)
}

fn parse(record: &[u8]) -> Option<Record<'_>> {
    let mut bytes = Bytes::new(record.get(AT_SEQUENCE..)?);
    let sequence = Sequence(bytes.u64()?);
    let transaction = TransactionId(bytes.u64()?);
    let timestamp = Micros(bytes.i64()?);
    let (seed, digest) = (bytes.u64()?, bytes.u64()?);
    let (kind, _) = (bytes.u8()?, bytes.u8()?);
    let count = bytes.u16()?;
    let partitions = Partitions { bytes: bytes.take(usize::from(count) * 2)? };
    let body = match kind {
        kind::CALL => {
            let procedure = bytes.text()?;
            let version = bytes.u32()?;
            Body::Call { procedure, version, arguments: Values::new(bytes)? }
        }
        kind::STATEMENT => {
            let sql = bytes.text()?;
            Body::Statement { sql, parameters: Values::new(bytes)? }
        }
        kind::EFFECTS | kind::PART => {
            let effects = Effects { count: bytes.u32()?, bytes };
            if kind == kind::PART { Body::Part(effects) } else { Body::Effects(effects) }
        }
        kind::DEFINITION => Body::Definition(bytes.text().filter(|_| bytes.is_empty())?),
        kind::LOAD | kind::TAKE_BACK | kind::LOAD_END => {
            let load = LoadId(bytes.u64()?);
            let of = TableLoad { table: TableId(bytes.u32()?), load };
            match kind {
                kind::LOAD => Body::Load(of, Images { count: bytes.u32()?, bytes }),
                kind::TAKE_BACK => Body::TakeBack(of, bytes.u32().filter(|_| bytes.is_empty())?),
                _ => match bytes.u8().filter(|_| bytes.is_empty())? {
                    0 => Body::LoadEnd(of, LoadOutcome::TakenBack),
                    1 => Body::LoadEnd(of, LoadOutcome::Kept),
                    _ => return None,
                },
            }
        }
        _ => return None,
    };
    Some(Record { sequence, transaction, timestamp, seed, digest, partitions, body })
}

#[cfg(test)]
pub(super) mod tests;
