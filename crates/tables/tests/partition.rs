//! Transactions in a partition: commits can be replayed from their effects, aborts leave nothing, and pre-images
//! restore the earlier state.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_machine::ids::PartitionId;
use thermocline_tables::partition::{Head, Partition, PreImages, Transaction};
use thermocline_tables::schema::{
    Change, ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId,
};
use thermocline_tables::table::{self, Budget, TupleId};
use thermocline_types::{DataType, Value, ValueRef};
use thermocline_types::{Error, Result};

fn definition(id: u32) -> Arc<TableDefinition> {
    let column =
        |name: &str, data_type| ColumnDefinition { name: name.into(), data_type, nullable: false, default: None };
    let index = |id, column, unique, kind| IndexDefinition {
        id: IndexId(id),
        name: format!("i{id}").into(),
        kind,
        unique,
        columns: vec![IndexColumn { column, descending: false }],
    };
    Arc::new(TableDefinition {
        id: TableId(id),
        name: format!("t{id}").into(),
        columns: vec![column("a", DataType::BigInt), column("b", DataType::Text)],
        indexes: vec![index(0, 0, true, IndexKind::Hash), index(1, 1, false, IndexKind::Ordered)],
        partition_by: Some(0),
        evictable: true,
        has_row_key: false,
        checks: Vec::new(),
    })
}

fn partition() -> Partition {
    let mut partition = Partition::new(PartitionId(0), 1, Arc::new(Budget::new(1 << 30)), 1);
    for id in [0, 2] {
        partition.define(&Change::CreateTable(definition(id))).unwrap();
    }
    partition
}

/// Some changes of rows; those that meet a duplicate are skipped.
fn change(rng: &mut StdRng, partition: &mut Partition, transaction: &mut Transaction) {
    for _ in 0..rng.random_range(1..8) {
        let table = TableId([0, 2][rng.random_range(0..2)]);
        let text = "x".repeat(rng.random_range(0..40));
        let key = rng.random_range(0..200);
        let found = partition.table(table).unwrap().next(TupleId(rng.random_range(0..150)));
        match (rng.random_range(0..4), found) {
            (0, Some(id)) => partition.delete(table, id, transaction).unwrap(),
            (1, Some(id)) => partition.update(table, id, &[(1, ValueRef::Text(&text))], transaction).unwrap(),
            (2, Some(id)) => drop(partition.update(table, id, &[(0, ValueRef::Int(key))], transaction)),
            _ => drop(partition.insert(table, &[ValueRef::Int(key), ValueRef::Text(&text)], transaction)),
        }
    }
}

type Before = Arc<Mutex<BTreeMap<(TableId, TupleId), Option<Vec<u8>>>>>;

struct Watch(Before);

impl PreImages for Watch {
    fn changed(&mut self, change: table::Change<'_>) -> bool {
        self.0.lock().unwrap().entry((change.table, change.id)).or_insert_with(|| change.before.map(<[u8]>::to_vec));
        true
    }

    fn defined(&mut self) {}
}

#[test]
fn effects_replay_aborts_vanish_and_pre_images_lead_back() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut one, mut same, mut from_effects) = (partition(), partition(), partition());
        let mut transactions = [0, 1].map(|_| Transaction::new(Head::default(), 1 << 20));
        let mut watched: Option<(Before, BTreeMap<TableId, u64>)> = None;
        for number in 0..300 {
            let before = one.state_hashes().unwrap();
            if number == 150 {
                let images = Before::default();
                one.watch(Box::new(Watch(Arc::clone(&images))));
                watched = Some((images, before.clone()));
            }
            let run: u64 = rng.random();
            let [transaction, other] = &mut transactions;
            change(&mut StdRng::seed_from_u64(run), &mut one, transaction);
            if rng.random_bool(0.3) {
                one.abort(transaction).unwrap();
                assert_eq!(one.state_hashes().unwrap(), before);
                continue;
            }
            change(&mut StdRng::seed_from_u64(run), &mut same, other);
            assert_eq!(transaction.undo.digest(), other.undo.digest());
            from_effects.apply(one.effects(transaction).map(Result::unwrap).collect::<Vec<_>>().into_iter()).unwrap();
            one.commit(transaction);
            same.commit(other);
            assert!(transaction.is_read_only());
        }
        assert_eq!(one.state_hashes().unwrap(), same.state_hashes().unwrap());
        assert_eq!(one.state_hashes().unwrap(), from_effects.state_hashes().unwrap());
        one.check().unwrap();
        from_effects.check().unwrap();
        let (images, then) = watched.unwrap();
        let images = images.lock().unwrap();
        one.apply(images.iter().map(|((table, id), image)| (*table, *id, image.as_deref()))).unwrap();
        assert_eq!(one.state_hashes().unwrap(), then);
    }
}

#[test]
fn a_definition_that_is_stopped_changes_nothing() {
    let budget = Arc::new(Budget::new(1 << 30));
    let mut partition = Partition::new(PartitionId(0), 1, Arc::clone(&budget), 1);
    let before = definition(0);
    partition.define(&Change::CreateTable(Arc::clone(&before))).unwrap();
    let mut transaction = Transaction::new(Head::default(), 64 << 20);
    for key in 0..10_000 {
        partition
            .insert(TableId(0), &[ValueRef::Int(key), ValueRef::Text(&key.to_string())], &mut transaction)
            .unwrap();
    }
    partition.commit(&mut transaction);
    let mut with_index = (*before).clone();
    let columns = vec![IndexColumn { column: 0, descending: true }];
    let (name, kind) = ("i2".into(), IndexKind::Ordered);
    with_index.indexes.push(IndexDefinition { id: IndexId(2), name, kind, unique: false, columns });
    let mut with_column = with_index.clone();
    let name = "c".into();
    with_column.columns.push(ColumnDefinition { name, data_type: DataType::BigInt, nullable: true, default: None });
    for change in [
        Change::CreateIndex { table: Arc::new(with_index), index: IndexId(2) },
        Change::AddColumn { table: Arc::new(with_column), fill: Value::Int(7) },
    ] {
        let (state, used) = (partition.state_hashes().unwrap(), budget.used());
        let mut looks: u32 = 0;
        loop {
            let left = std::cell::Cell::new(looks);
            let stopped = || -> Result<()> {
                let next = left.get().checked_sub(1).ok_or_else(|| Error::Cancelled("stopped".into()))?;
                left.set(next);
                Ok(())
            };
            match partition.define_unless(&change, &stopped) {
                Ok(()) => break,
                Err(error) => assert_eq!(error.sqlstate(), "57014"),
            }
            assert_eq!((partition.state_hashes().unwrap(), budget.used()), (state.clone(), used));
            partition.check().unwrap();
            looks += 1;
        }
        assert!((9..12).contains(&looks), "{looks} looks");
        partition.check().unwrap();
    }
}
