use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_machine::ids::{DatabaseId, Identity, Micros, PartitionId, Sequence, TransactionId};
use thermocline_machine::random::Random;
use thermocline_tables::partition::{Head, Partition, Transaction};
use thermocline_tables::schema::{
    Change, ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId,
};
use thermocline_tables::table::{Budget, TupleId, Working};
use thermocline_types::{DataType, Error, ValueRef};

use super::*;
use crate::disk::{Crash, Disk, Faults, SimulatedDisk};

const IDENTITY: Identity = Identity { database: DatabaseId(1), partitions: 1 };
const POSITION: Sequence = Sequence(5);

/// A table `t0` or `t1` with a key and a text.
pub fn table(id: u32) -> Arc<TableDefinition> {
    let column =
        |name: &str, data_type| ColumnDefinition { name: name.into(), data_type, nullable: false, default: None };
    let columns = vec![IndexColumn { column: 0, descending: false }];
    let primary = IndexDefinition {
        id: IndexId::PRIMARY,
        name: format!("t{id}_pkey").into(),
        kind: IndexKind::Hash,
        unique: true,
        columns,
    };
    Arc::new(TableDefinition {
        id: TableId(id),
        name: format!("t{id}").into(),
        columns: vec![column("k", DataType::BigInt), column("v", DataType::Text)],
        indexes: vec![primary],
        partition_by: Some(0),
        evictable: true,
        has_row_key: false,
        checks: Vec::new(),
    })
}

struct Run {
    partition: Partition,
    transaction: Transaction,
    random: Random,
    key_next: i64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut partition = Partition::new(PartitionId(0), 1, Arc::new(Budget::unlimited()), 0);
        for id in 0..2 {
            partition.define(&Change::CreateTable(table(id))).unwrap();
        }
        let transaction = Transaction::new(Head::default(), 1 << 20);
        Self { partition, transaction, random: Random::new(seed), key_next: 0 }
    }

    /// A few random changes, committed or rolled back.
    fn transact(&mut self) {
        for _ in 0..self.random.below(8) {
            let table = TableId(u32::try_from(self.random.below(2)).unwrap());
            let ids: Vec<TupleId> = self.partition.table(table).unwrap().scan().collect();
            let text = "x".repeat(self.random.index(50));
            let (partition, transaction) = (&mut self.partition, &mut self.transaction);
            match (self.random.below(4), self.random.pick(&ids)) {
                (0, Some(id)) => partition.delete(table, *id, transaction).unwrap(),
                (1, Some(id)) => {
                    partition.update(table, *id, &[(1, ValueRef::Text(&text))], transaction).unwrap();
                }
                _ => {
                    self.key_next += 1;
                    let values = [ValueRef::Int(self.key_next), ValueRef::Text(&text)];
                    partition.insert(table, &values, transaction).unwrap();
                }
            }
        }
        if self.random.one_in(4) {
            self.partition.abort(&mut self.transaction).unwrap();
        } else {
            self.partition.commit(&mut self.transaction);
        }
    }

    fn rows(&self) -> BTreeMap<(TableId, TupleId), Vec<u8>> {
        let mut rows = BTreeMap::new();
        for table in self.partition.tables() {
            for id in table.scan() {
                rows.insert((table.definition().id, id), table.row(id).unwrap().image().to_vec());
            }
        }
        rows
    }
}

fn writer(disk: &SimulatedDisk) -> SnapshotWriter {
    let head = (POSITION, TransactionId(9), Micros(3));
    SnapshotWriter::begin(Arc::new(disk.clone()), IDENTITY, head, "-- nothing").unwrap().unwrap()
}

fn read(disk: &dyn Disk) -> thermocline_types::Result<BTreeMap<(TableId, TupleId), Vec<u8>>> {
    let manifest = Manifest::read(disk, POSITION)?;
    assert_eq!(read_definitions(disk, &manifest)?, "-- nothing");
    let header = RowsHeader { database: IDENTITY.database, position: POSITION, partition: PartitionId(0) };
    let mut reader = RowFileReader::open(disk, header, manifest.partitions[0])?;
    let mut rows = BTreeMap::new();
    while let Some(chunk) = reader.next_chunk()? {
        for (id, image) in chunk.rows() {
            assert!(rows.insert((chunk.table, id), image.to_vec()).is_none(), "a row twice");
        }
    }
    Ok(rows)
}

#[test]
fn a_snapshot_holds_the_rows_of_the_barrier_whatever_happens_meanwhile() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed, Faults::default());
        let mut run = Run::new(seed);
        for _ in 0..run.random.below(60) {
            run.transact();
        }
        let expected = run.rows();
        let copier = Copier::begin(&mut run.partition, POSITION, 1 << 20);
        let mut writer = writer(&disk);
        loop {
            for _ in 0..run.random.below(4) {
                run.transact();
            }
            let ids = 1 + u32::try_from(run.random.below(20)).unwrap();
            let step = copier.step(&mut run.partition, ids).unwrap();
            while let Some(mut chunk) = copier.take_chunk() {
                writer.append(PartitionId(0), &mut chunk).unwrap();
                copier.give_back(chunk);
            }
            if step == Step::Done {
                break;
            }
        }
        assert!(copier.memory_bytes() < 1 << 10);
        drop(copier);
        run.transact();
        writer.complete(POSITION).unwrap();
        disk.restart(Crash::Power);
        assert_eq!(read(&disk).unwrap(), expected, "seed {seed}");
    }
}

/// A slow disk makes transactions wait, and none fails.
#[test]
fn a_copy_that_falls_behind_holds_up_its_partition() {
    let mut run = Run::new(1);
    let text = "x".repeat(100_000);
    for key in 0..20 {
        let values = [ValueRef::Int(key), ValueRef::Text(&text)];
        run.partition.insert(TableId(0), &values, &mut run.transaction).unwrap();
    }
    run.partition.commit(&mut run.transaction);
    let copier = Copier::begin(&mut run.partition, POSITION, 1_000_000);
    let mut deleted = 0;
    while run.partition.held_up().is_none() {
        run.partition.delete(TableId(0), TupleId(deleted), &mut run.transaction).unwrap();
        run.partition.commit(&mut run.transaction);
        deleted += 1;
    }
    assert!((9..=16).contains(&deleted), "{deleted}");
    assert!(copier.is_pressed());
    assert!((1_000_000..1_700_000).contains(&copier.memory_bytes()), "{}", copier.memory_bytes());
    assert_eq!(run.partition.budget().working(Working::Snapshots), copier.memory_bytes() as u64);
    while run.partition.held_up().is_some() {
        assert!(copier.take_chunk().is_some(), "it waits for nothing");
    }
    // The changes of one transaction are kept in any case.
    for id in deleted..20 {
        run.partition.delete(TableId(0), TupleId(id), &mut run.transaction).unwrap();
    }
    run.partition.commit(&mut run.transaction);
    assert_eq!(copier.step(&mut run.partition, u32::MAX), Ok(Step::Done));
    drop(copier);
    assert!(run.partition.held_up().is_none(), "nobody copies any more");
    assert_eq!(run.partition.budget().working_total(), 0);
    run.transact();
}

/// Regression: a copy failed where memory was full, so that the log only grew. Before, the last chunk was dropped, and
/// the snapshot completed without its rows.
#[test]
fn a_copy_needs_no_room_in_the_budget() {
    let run = &mut Run::new(1);
    while run.rows().is_empty() {
        run.transact();
    }
    let expected = run.rows();
    let copier = Copier::begin(&mut run.partition, POSITION, 1 << 20);
    run.partition.budget().set_limit(0, 0);
    assert_eq!(copier.step(&mut run.partition, u32::MAX), Ok(Step::Done));
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut writer = writer(&disk);
    while let Some(mut chunk) = copier.take_chunk() {
        writer.append(PartitionId(0), &mut chunk).unwrap();
    }
    writer.complete(POSITION).unwrap();
    assert_eq!(read(&disk).unwrap(), expected);
}

#[test]
fn a_snapshot_is_whole_or_not_there() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed, Faults::default());
        let run = &mut Run::new(seed);
        (0..5).for_each(|_| run.transact());
        let expected = run.rows();
        let copier = Copier::begin(&mut run.partition, POSITION, 1 << 20);
        assert_eq!(copier.step(&mut run.partition, u32::MAX), Ok(Step::Done));
        let mut chunks: Vec<_> = std::iter::from_fn(|| copier.take_chunk()).collect();
        disk.crash_after(Some(seed % 15));
        let mut take = || {
            let head = (POSITION, TransactionId(9), Micros(3));
            let mut writer = SnapshotWriter::begin(Arc::new(disk.clone()), IDENTITY, head, "-- nothing")?.unwrap();
            chunks.iter_mut().try_for_each(|chunk| writer.append(PartitionId(0), chunk))?;
            writer.complete(POSITION)
        };
        let finished = take().is_ok();
        disk.restart(if seed % 2 == 0 { Crash::Power } else { Crash::Process });
        let there = list_snapshots(&disk).unwrap() == [POSITION];
        assert!(there || !finished, "seed {seed}");
        if there {
            assert_eq!(read(&disk).unwrap(), expected, "seed {seed}");
        } else {
            remove_unfinished(&disk).unwrap();
            assert_eq!(disk.list().unwrap(), [""; 0]);
            take().unwrap();
            assert_eq!(read(&disk).unwrap(), expected, "seed {seed}");
        }
    }
}

#[test]
fn any_changed_bit_is_an_error() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed, Faults::default());
        let mut run = Run::new(seed);
        (0..10).for_each(|_| run.transact());
        let copier = Copier::begin(&mut run.partition, POSITION, 1 << 20);
        copier.step(&mut run.partition, u32::MAX).unwrap();
        let mut writer = writer(&disk);
        while let Some(mut chunk) = copier.take_chunk() {
            writer.append(PartitionId(0), &mut chunk).unwrap();
        }
        writer.complete(POSITION).unwrap();
        read(&disk).unwrap();
        let (name, offset) = disk.flip_bit().unwrap();
        let error = read(&disk).expect_err(&format!("seed {seed}: {name}, {offset}"));
        assert!(matches!(&error, Error::Corrupt(_) | Error::CannotOpen(_)) && error.to_string().contains(&name));
    }
}

#[test]
fn older_snapshots_go_when_a_newer_one_is_there() {
    let disk = SimulatedDisk::new(1, Faults::default());
    writer(&disk).complete(POSITION).unwrap();
    let head = (Sequence(8), TransactionId(9), Micros(3));
    let two = Identity { partitions: 2, ..IDENTITY };
    let newer = SnapshotWriter::begin(Arc::new(disk.clone()), two, head, "").unwrap().unwrap();
    assert!(remove_snapshots(&disk, Sequence(8)).is_err(), "not complete");
    newer.complete(Sequence(9)).unwrap();
    remove_snapshots(&disk, Sequence(8)).unwrap();
    assert_eq!(disk.list().unwrap().len(), 4);
    assert_eq!(list_snapshots(&disk).unwrap(), [Sequence(8)]);

    let again = SnapshotWriter::begin(Arc::new(disk.clone()), two, head, "").unwrap();
    assert!(again.is_none(), "it must not be touched");

    assert!(writer(&disk).complete(Sequence(4)).is_err(), "the log is behind");
    writer(&disk).abandon().unwrap();
    assert_eq!(disk.list().unwrap().len(), 4);
}

/// A chunk of these rows.
pub fn chunk(table: TableId, rows: &[(TupleId, &[u8])]) -> Vec<u8> {
    let mut builder = rows::ChunkBuilder::default();
    for (tuple, image) in rows {
        assert_eq!(builder.push(table, *tuple, image, &mut Vec::new()), None);
    }
    builder.take().unwrap()
}
