//! Tables compared with a plain map, under random changes, aborts and full memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_tables::key;
use thermocline_tables::schema::{
    ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId,
};
use thermocline_tables::table::{Budget, Table, TupleId, Undo};
use thermocline_types::Error;
use thermocline_types::{DataType, Decimal, Value, ValueRef};

/// Name, kind, uniqueness, columns and whether they descend.
type IndexLike<'a> = (&'a str, IndexKind, bool, &'a [(usize, bool)]);

/// The table that most tests use, with these columns as its primary key, and some indexes.
fn definition(primary: &[usize], indexes: &[IndexLike<'_>]) -> Arc<TableDefinition> {
    let column =
        |name: &str, data_type, nullable| ColumnDefinition { name: name.into(), data_type, nullable, default: None };
    let primary: Vec<(usize, bool)> = primary.iter().map(|column| (*column, false)).collect();
    let indexes = [("t_pkey", IndexKind::Hash, true, &*primary)].into_iter().chain(indexes.iter().copied());
    Arc::new(TableDefinition {
        id: TableId(3),
        name: "t".into(),
        columns: vec![
            column("a", DataType::BigInt, false),
            column("b", DataType::Text, true),
            column("c", DataType::Integer, true),
            column("d", DataType::Varchar(20), false),
        ],
        indexes: indexes.enumerate().map(|(id, index)| index_definition(id as u32, index)).collect(),
        partition_by: Some(0),
        evictable: true,
        has_row_key: false,
        checks: Vec::new(),
    })
}

fn index_definition(
    id: u32,
    (name, kind, unique, columns): (&str, IndexKind, bool, &[(usize, bool)]),
) -> IndexDefinition {
    let columns = columns.iter().map(|(column, descending)| IndexColumn { column: *column, descending: *descending });
    IndexDefinition { id: IndexId(id), name: name.into(), kind, unique, columns: columns.collect() }
}

fn definitions() -> [Arc<TableDefinition>; 3] {
    [
        definition(
            &[0],
            &[
                ("t_b", IndexKind::Ordered, false, &[(1, false)]),
                ("t_c", IndexKind::Hash, false, &[(2, false)]),
                ("t_cd", IndexKind::Ordered, true, &[(2, true), (3, false)]),
            ],
        ),
        definition(
            &[0, 3],
            &[
                ("t_b", IndexKind::Hash, true, &[(1, false)]),
                ("t_c", IndexKind::Ordered, false, &[(2, false), (1, false)]),
            ],
        ),
        definition(&[0], &[]),
    ]
}

fn random_value(rng: &mut StdRng, column: usize) -> Value {
    match column {
        0 => Value::Int(rng.random_range(0..400)),
        1 if rng.random_bool(0.2) => Value::Null,
        1 => {
            let length = if rng.random_bool(0.05) { rng.random_range(0..900) } else { rng.random_range(0..12) };
            Value::Text((0..length).map(|_| rng.random_range('a'..'e')).collect())
        }
        2 if rng.random_bool(0.1) => Value::Null,
        2 => Value::Int(rng.random_range(-3..60)),
        _ => Value::Text((0..rng.random_range(0..8)).map(|_| rng.random_range('x'..='z')).collect()),
    }
}

type Model = BTreeMap<u32, Vec<Value>>;

/// A row of the model, other than `except`, with the key that `row` has in some unique index.
fn violates(definition: &TableDefinition, model: &Model, row: &[Value], except: Option<u32>) -> bool {
    definition.indexes.iter().filter(|index| index.unique).any(|index| {
        let key = |row: &[Value]| index.columns.iter().map(|column| row[column.column].clone()).collect::<Vec<_>>();
        let wanted = key(row);
        !wanted.iter().any(Value::is_null) && model.iter().any(|(id, row)| Some(*id) != except && key(row) == wanted)
    })
}

fn references(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

fn compare(table: &Table, model: &Model) {
    assert_eq!(table.rows(), model.len());
    assert!(table.scan().map(|id| id.0).eq(model.keys().copied()));
    for (id, values) in model {
        let row = table.row(TupleId(*id)).unwrap();
        assert!(values.iter().enumerate().all(|(column, value)| row.value(column).to_value() == *value), "row {id}");
    }
    let definition = table.definition();
    for index in &definition.indexes {
        let columns = definition.key_columns(index);
        let mut keys: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
        for (id, values) in model {
            let mut bytes = Vec::new();
            for (column, place) in columns.iter().zip(&index.columns) {
                key::encode(&mut bytes, *column, values[place.column].as_ref()).unwrap();
            }
            keys.entry(bytes).or_default().push(*id);
        }
        for (key, ids) in &keys {
            assert!(table.lookup(index.id, key).unwrap().map(|id| id.0).eq(ids.iter().copied()), "{}", index.name);
            assert!(table.lookup(index.id, key).unwrap().rev().map(|id| id.0).eq(ids.iter().rev().copied()));
            assert!(ids.contains(&table.find(index.id, key).unwrap().unwrap().0));
        }
        if let Ok(entries) = table.range(index.id, Bound::Unbounded, Bound::Unbounded) {
            let expected = keys.iter().flat_map(|(key, ids)| ids.iter().map(move |id| (key.as_slice(), TupleId(*id))));
            assert!(entries.eq(expected), "{}", index.name);
        }
    }
    table.check().unwrap();
}

struct Run {
    table: Table,
    budget: Arc<Budget>,
    model: Model,
    undo: Undo,
    full: usize,
    duplicates: usize,
}

impl Run {
    fn new(definition: Arc<TableDefinition>, limit: u64) -> Self {
        let budget = Arc::new(Budget::new(limit));
        let table = Table::new(definition, Arc::clone(&budget), 42).unwrap();
        Self { table, budget, model: Model::new(), undo: Undo::new(1 << 20), full: 0, duplicates: 0 }
    }

    /// Checks whether the change was made: exactly if the model allows it, unless memory is full.
    fn outcome<T>(&mut self, result: Result<T, Error>, violation: bool) -> Option<T> {
        match result {
            Ok(value) => {
                assert!(!violation, "a duplicate got in");
                Some(value)
            }
            Err(error) if error.sqlstate() == "53200" => {
                self.full += 1;
                None
            }
            Err(error) => {
                assert_eq!(error.sqlstate(), "23505", "{error}");
                assert!(violation, "{error}");
                self.duplicates += 1;
                None
            }
        }
    }

    fn change(&mut self, rng: &mut StdRng, grow: f64) {
        let some = self.model.keys().nth(rng.random_range(0..self.model.len().max(1))).copied();
        match some {
            Some(id) if rng.random_bool(1.0 - grow) => {
                self.table.delete(TupleId(id), &mut self.undo).unwrap();
                self.model.remove(&id);
            }
            Some(id) if rng.random_bool(0.6) => {
                let columns: Vec<usize> = (0..4).filter(|_| rng.random_bool(0.3)).collect();
                let changes: Vec<(usize, Value)> =
                    columns.into_iter().map(|column| (column, random_value(rng, column))).collect();
                let mut row = self.model[&id].clone();
                for (column, value) in &changes {
                    row[*column] = value.clone();
                }
                let violation = violates(self.table.definition(), &self.model, &row, Some(id));
                let changes: Vec<(usize, ValueRef<'_>)> =
                    changes.iter().map(|(column, value)| (*column, value.as_ref())).collect();
                let result = self.table.update(TupleId(id), &changes, &mut self.undo);
                if self.outcome(result, violation).is_some() {
                    self.model.insert(id, row);
                }
            }
            _ => {
                let row: Vec<Value> = (0..4).map(|column| random_value(rng, column)).collect();
                let violation = violates(self.table.definition(), &self.model, &row, None);
                let expected = (0..).find(|id| !self.model.contains_key(id)).unwrap();
                let result = self.table.insert(&references(&row), &mut self.undo);
                if let Some(id) = self.outcome(result, violation) {
                    assert_eq!(id.0, expected, "the lowest free id");
                    self.model.insert(id.0, row);
                }
            }
        }
        assert_eq!(self.budget.used(), self.table.memory().total() as u64);
    }

    fn abort(&mut self) {
        for number in (0..self.undo.len()).rev() {
            let change = self.undo.get(number).unwrap();
            self.table.restore(change.id, change.before).unwrap();
        }
        self.undo.clear();
    }
}

#[test]
fn a_table_is_what_a_plain_map_is() {
    let mut refused = [0, 0];
    for seed in 0..30 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let limit = if seed % 3 == 2 { 14_000 } else { 1 << 30 };
        let mut run = Run::new(definitions()[seed as usize / 3 % 3].clone(), limit);
        for transaction in 0..150 {
            let grow = if transaction % 50 < 35 { 0.9 } else { 0.2 };
            let before = (run.table.state_hash().unwrap(), run.model.clone());
            for _ in 0..rng.random_range(1..20) {
                run.change(&mut rng, grow);
            }
            if rng.random_bool(0.4) {
                run.abort();
                run.model = before.1;
                assert_eq!(run.table.state_hash().unwrap(), before.0);
            }
            run.undo.clear();
            if transaction % 10 == 0 {
                compare(&run.table, &run.model);
            }
        }
        compare(&run.table, &run.model);
        refused[usize::from(limit < 1 << 30)] += run.full;
        assert!(run.duplicates > 0);
        // Another table with the same rows, inserted in another order, has the same hash.
        let copy = Arc::new(Budget::unlimited());
        let mut other = Table::new(Arc::clone(run.table.definition()), copy, 7).unwrap();
        for id in run.table.scan().collect::<Vec<_>>().into_iter().rev() {
            other.load(id, run.table.row(id).unwrap().image()).unwrap();
        }
        compare(&other, &run.model);
        assert_eq!(other.state_hash().unwrap(), run.table.state_hash().unwrap());
        drop(run.table);
        assert_eq!(run.budget.used(), 0);
    }
    assert!(refused[0] == 0 && refused[1] > 100, "{refused:?} refused for memory");
}

#[test]
fn indexes_and_columns_come_and_go() {
    for seed in 0..10 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut run = Run::new(definition(&[0], &[]), 1 << 30);
        for _ in 0..300 {
            run.change(&mut rng, 0.9);
        }
        let with = |run: &Run, index: IndexDefinition| {
            let mut definition = TableDefinition::clone(run.table.definition());
            definition.indexes.push(index.clone());
            (Arc::new(definition), index)
        };
        for (id, index) in [
            ("one", IndexKind::Ordered, false, &[(2, false), (1, false)][..]),
            ("two", IndexKind::Hash, false, &[(3, false)]),
        ]
        .into_iter()
        .enumerate()
        {
            let (definition, index) = with(&run, index_definition(id as u32 + 1, index));
            run.table.add_index(definition, &index).unwrap();
            compare(&run.table, &run.model);
        }
        // c has duplicates, so this fails and changes nothing.
        let (definition, index) = with(&run, index_definition(3, ("three", IndexKind::Ordered, true, &[(2, false)])));
        assert_eq!(run.table.add_index(definition, &index).unwrap_err().sqlstate(), "23505");
        assert_eq!(run.budget.used(), run.table.memory().total() as u64);
        compare(&run.table, &run.model);

        let mut definition = TableDefinition::clone(run.table.definition());
        let data_type = DataType::Decimal { precision: 5, scale: 2 };
        definition.columns.push(ColumnDefinition { name: "e".into(), data_type, nullable: false, default: None });
        let fill = Value::Decimal(Decimal::parse("1.50").unwrap());
        run.table.change_columns(Arc::new(definition), &fill).unwrap();
        run.model.values_mut().for_each(|row| row.push(fill.clone()));
        compare(&run.table, &run.model);
        assert_eq!(run.budget.used(), run.table.memory().total() as u64);

        let mut definition = TableDefinition::clone(run.table.definition());
        definition.indexes.remove(1);
        run.table.drop_index(Arc::new(definition), IndexId(1));
        compare(&run.table, &run.model);
        assert_eq!(run.budget.used(), run.table.memory().total() as u64);
    }
}

/// Any tenth, third or most of the rows are removed: their memory goes with them, in steps.
#[test]
fn memory_of_removed_rows_comes_back() {
    // Rows of one size class, and of four.
    for (share, lengths, classes) in [(0.1, 500..501, 1), (0.33, 500..700, 4), (0.9, 500..700, 4)] {
        let mut rng = StdRng::seed_from_u64(classes);
        let definition = definition(&[0], &[("t_c", IndexKind::Ordered, false, &[(2, false)])]);
        let mut run = Run::new(definition, 1 << 30);
        for a in 0..100_000 {
            let b = "b".repeat(rng.random_range(lengths.clone()));
            let row = [Value::Int(a), Value::Text(b.into()), Value::Int(a % 7), Value::Text("d".into())];
            let id = run.table.insert(&references(&row), &mut run.undo).unwrap();
            run.undo.clear();
            run.model.insert(id.0, row.into());
        }
        let before = run.table.memory().rows;
        assert_eq!(run.table.compact(usize::MAX), 0, "nothing was removed");
        let mut bytes = 0;
        for id in run.model.keys().copied().collect::<Vec<_>>() {
            if rng.random_bool(share) {
                bytes += run.table.row(TupleId(id)).unwrap().image().len();
                run.table.delete(TupleId(id), &mut run.undo).unwrap();
                run.undo.clear();
                run.model.remove(&id);
            }
        }
        let hash = run.table.state_hash().unwrap();
        let mut steps = 0;
        while run.table.compact(100) == 100 {
            assert_eq!(run.budget.used(), run.table.memory().total() as u64);
            steps += 1;
        }
        assert!(steps > 0);
        let freed = before - run.table.memory().rows;
        println!("{bytes} bytes of rows of {before} removed, {freed} given back in {steps} steps");
        // One in 32 may stay free, and an arena and a half of each size class.
        assert!(freed + before / 32 + classes as usize * (3 << 20) > bytes, "{freed}");
        assert_eq!(run.table.state_hash().unwrap(), hash);
        compare(&run.table, &run.model);
        for _ in 0..100 {
            run.change(&mut rng, 0.6);
            run.undo.clear();
            run.table.compact(3);
        }
        compare(&run.table, &run.model);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let mut definition =
        TableDefinition::clone(&definition(&[0], &[("t_b", IndexKind::Ordered, false, &[(1, false)])]));
    definition.columns.truncate(2);
    definition.columns.push(ColumnDefinition { name: "c".into(), ..definition.columns[1].clone() });
    let definition = Arc::new(definition);
    let mut run = Run::new(definition, 1 << 30);
    let insert = |run: &mut Run, a: i64, b: &str, c: &str| {
        run.table.insert(&[ValueRef::Int(a), ValueRef::Text(b), ValueRef::Text(c)], &mut run.undo)
    };
    insert(&mut run, 1, "b", "c").unwrap();
    let hash = run.table.state_hash().unwrap();
    let large = "x".repeat(3 << 20);
    for (b, c, what) in [("b", &*large, "a row larger than an arena"), (&large[..2000], "c", "a long key")] {
        assert_eq!(insert(&mut run, 2, b, c).unwrap_err().sqlstate(), "54000", "{what}");
        let changes = [(1, ValueRef::Text(b)), (2, ValueRef::Text(c))];
        let error = run.table.update(TupleId(0), &changes, &mut run.undo).unwrap_err();
        assert!(["54000", "53200"].contains(&error.sqlstate()), "{what}: {error}");
    }
    assert_eq!(run.undo.len(), 1);
    assert_eq!(run.table.state_hash().unwrap(), hash);
    run.table.check().unwrap();
    assert_eq!(run.budget.used(), run.table.memory().total() as u64);
    let null = run.table.insert(&[ValueRef::Null], &mut run.undo).unwrap_err();
    assert_eq!(null.sqlstate(), "23502");
    // Bytes from a file that are not a row.
    let image = run.table.row(TupleId(0)).unwrap().image().to_vec();
    let mut wrong = 0;
    for at in 0..image.len() {
        for bit in 0..8 {
            let mut image = image.clone();
            image[at] ^= 1 << bit;
            let mut copy = Table::new(Arc::clone(run.table.definition()), Arc::new(Budget::unlimited()), 1).unwrap();
            match copy.load(TupleId(5), &image) {
                Ok(()) => copy.check().unwrap(),
                Err(error) => {
                    assert_eq!(error.sqlstate(), "XX001");
                    wrong += 1;
                }
            }
        }
        assert!(run.table.load(TupleId(1), &image[..at]).is_err());
    }
    assert!(wrong > 50, "{wrong}");
}

#[test]
fn a_row_costs_48_bytes_beyond_its_own_at_most() {
    let mut definition = TableDefinition::clone(&definition(&[0], &[]));
    definition.columns.truncate(1);
    definition.columns.push(ColumnDefinition { name: "b".into(), ..definition.columns[0].clone() });
    let definition = Arc::new(definition);
    let mut run = Run::new(definition, 1 << 30);
    let mut worst = 0.0f64;
    for key in 0..1_500_000i64 {
        let scattered = key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        run.table.insert(&[ValueRef::Int(scattered), ValueRef::Int(key)], &mut run.undo).unwrap();
        run.undo.clear();
        // Arenas and chunks of 2 MiB are a few bytes per row only from here on.
        if key > 500_000 && key % 1000 == 0 {
            let arenas = 2.0 * (2 << 20) as f64;
            worst = worst.max((run.table.memory().total() as f64 - arenas) / (key + 1) as f64 - 16.0);
        }
    }
    println!("{worst} bytes");
    assert!(worst <= 48.0, "{worst} bytes");
}
