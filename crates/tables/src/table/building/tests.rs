//! Indexes built beside random changes, compared with indexes built at once.

use std::collections::BTreeMap;

use thermocline_machine::random::Random;
use thermocline_types::{DataType, Value, ValueRef};

use super::*;
use crate::schema::{Change, ColumnDefinition, IndexId, IndexKind, fixture};
use crate::table::{ROW_BYTES_MAX, Undo};

/// Indexes of the table: kind, uniqueness, columns; rows seldom satisfy the third.
const INDEXES: [(IndexKind, bool, &[&str]); 7] = [
    (IndexKind::Ordered, false, &["b"]),
    (IndexKind::Hash, false, &["b"]),
    (IndexKind::Ordered, true, &["d"]),
    (IndexKind::Ordered, true, &["b", "d"]),
    (IndexKind::Hash, true, &["b", "d"]),
    (IndexKind::Ordered, false, &["c", "-d"]),
    (IndexKind::Hash, false, &["c"]),
];

fn table() -> Arc<TableDefinition> {
    let columns = [
        ("a", DataType::BigInt, false),
        ("b", DataType::BigInt, false),
        ("c", DataType::Text, true),
        ("d", DataType::Integer, true),
    ];
    Arc::new(fixture::table(&columns, IndexKind::Hash, &["a"]))
}

/// Definitions of the table without an index and with it, and the index.
fn definitions(
    (kind, unique, columns): (IndexKind, bool, &[&str]),
) -> (Arc<TableDefinition>, Change, Arc<TableDefinition>, IndexId) {
    let before = table();
    let (table, index) = fixture::with_index(TableDefinition::clone(&before), kind, unique, columns);
    let table = Arc::new(table);
    (before, Change::CreateIndex { table: Arc::clone(&table), index }, table, index)
}

fn undo() -> Undo {
    Undo::new(1 << 30)
}

fn take_back(table: &mut Table, undo: &mut Undo, length: usize) {
    while undo.len() > length {
        let change = undo.get(undo.len() - 1).unwrap();
        table.restore(change.id, change.before).unwrap();
        undo.forget_last();
    }
}

/// One change, which may fail.
fn change_row(random: &mut Random, table: &mut Table, undo: &mut Undo) {
    let ids = u64::from(table.id_bound().0) + 1;
    let found = table.next(TupleId(u32::try_from(random.below(ids)).unwrap()));
    let most = if random.one_in(40) { 600 } else { 4 };
    let text = "x".repeat(random.index(most));
    let b = ValueRef::Int(random.below(12).cast_signed());
    let c = if random.one_in(5) { ValueRef::Null } else { ValueRef::Text(&text) };
    let d = if random.one_in(9) { ValueRef::Null } else { ValueRef::Int(random.below(400).cast_signed()) };
    let a = ValueRef::Int(random.below(2000).cast_signed());
    match (random.below(8), found) {
        (0 | 1, Some(id)) => table.delete(id, undo).unwrap(),
        (2, Some(id)) => drop(table.update(id, &[(1, b), (3, d)], undo)),
        (3, Some(id)) => table.update(id, &[(2, c)], undo).unwrap(),
        (4, Some(id)) => drop(table.update(id, &[(0, a), (2, c), (3, d)], undo)),
        _ => drop(table.insert(&[a, b, c, d], undo)),
    }
}

/// A transaction, which may roll back, also in part.
fn transaction(random: &mut Random, table: &mut Table) {
    let mut undo = undo();
    for _ in 0..1 + random.below(12) {
        change_row(random, table, &mut undo);
        if random.one_in(6) {
            let length = random.index(undo.len() + 1);
            take_back(table, &mut undo, length);
        }
        if random.one_in(5) {
            table.check().unwrap();
        }
    }
    if random.one_in(3) {
        take_back(table, &mut undo, 0);
    }
}

/// Ids of the rows by their keys in the index.
fn keys(table: &Table, index: &Index) -> BTreeMap<Vec<u8>, Vec<TupleId>> {
    let mut keys: BTreeMap<Vec<u8>, Vec<TupleId>> = BTreeMap::new();
    for id in table.scan() {
        let mut key = Vec::new();
        index.key(table.row(id).unwrap(), &mut key).unwrap();
        keys.entry(key).or_default().push(id);
    }
    keys
}

#[test]
fn an_index_that_is_built_in_steps_is_one_that_is_built_at_once() {
    let (mut built, mut refused) = (0, 0);
    for seed in 0..700 {
        let mut random = Random::new(seed);
        let (before, change, after, number) = definitions(INDEXES[random.index(INDEXES.len())]);
        let definition = after.index(number).unwrap();
        let budget = Arc::new(Budget::new(1 << 30));
        let mut table = Table::new(before, Arc::clone(&budget), seed).unwrap();
        (0..random.below(60)).for_each(|_| transaction(&mut random, &mut table));
        let used = budget.used();
        let build = Arc::new(Build::default());
        table.begin_build(&build, &change).unwrap();
        let (steps, rows) = (table.id_bound().0, 1 + u32::try_from(random.below(9)).unwrap());
        let mut result = Ok(BuildStep::More);
        for _ in 0..=steps / rows {
            if result != Ok(BuildStep::More) {
                break;
            }
            (0..random.below(3)).for_each(|_| transaction(&mut random, &mut table));
            result = table.build_step(&build, None, rows);
            table.check().unwrap();
        }
        if result.is_ok() {
            assert_eq!(result, Ok(BuildStep::Done), "{seed}: rows that came later count for nothing");
            (0..random.below(3)).for_each(|_| transaction(&mut random, &mut table));
            result = table.check_build(&build, None, &change).map(|()| BuildStep::Done);
        }
        // The same rows, with the index built at once.
        let other_budget = Arc::new(Budget::new(1 << 30));
        let mut other = Table::new(Arc::clone(table.definition()), other_budget, seed).unwrap();
        table.scan().for_each(|id| other.restore(id, Some(table.row(id).unwrap().image())).unwrap());
        let at_once = other.add_index(Arc::clone(&after), definition);
        match (result, at_once) {
            (Ok(_), Ok(())) => {
                table.install_build(after.clone(), None);
                table.check().unwrap();
                let (index, other_index) = (table.index(number).unwrap(), other.index(number).unwrap());
                for (key, ids) in keys(&table, index) {
                    assert!(index.lookup(&key).eq(ids.iter().copied()), "{seed}");
                    assert!(other_index.lookup(&key).eq(ids.iter().copied()), "{seed}");
                    assert_eq!(index.first(&key), other_index.first(&key));
                }
                // From now on it is unique like any other.
                for _ in 0..40 {
                    transaction(&mut random, &mut table);
                }
                table.check().unwrap();
                built += 1;
            }
            (Err(error), Err(other)) => {
                assert_eq!(error.sqlstate(), other.sqlstate(), "{seed}: {error}, {other}");
                build.give_up();
                table.drop_build_given_up();
                table.check().unwrap();
                refused += 1;
            }
            (steps, at_once) => panic!("{seed}: {steps:?} in steps, {at_once:?} at once"),
        }
        drop(table);
        assert_eq!(budget.used(), 0, "{seed}: {used} before");
    }
    assert!(built > 200 && refused > 100, "{built} {refused}");
}

#[test]
fn a_row_that_is_taken_back_violates_nothing() {
    for kind in [IndexKind::Ordered, IndexKind::Hash] {
        let (before, change, ..) = definitions((kind, true, &["b"]));
        let budget = Arc::new(Budget::new(1 << 30));
        let mut table = Table::new(before, budget, 1).unwrap();
        let row = |a: i64, b: i64| [ValueRef::Int(a), ValueRef::Int(b), ValueRef::Null, ValueRef::Null];
        for a in 0..4 {
            table.insert(&row(a, a), &mut undo()).unwrap();
        }
        let build = Arc::new(Build::default());
        table.begin_build(&build, &change).unwrap();
        assert_eq!(table.build_step(&build, None, 2), Ok(BuildStep::More));
        let mut changed = undo();
        // One duplicates a row after the cursor, one a row before it, and two each other.
        for (a, b) in [(10, 0), (11, 3), (12, 7), (13, 7)] {
            table.insert(&row(a, b), &mut changed).unwrap();
        }
        table.check().unwrap();
        take_back(&mut table, &mut changed, 0);
        table.check().unwrap();
        assert_eq!(table.build_step(&build, None, 100), Ok(BuildStep::Done));
        assert_eq!(table.check_build(&build, None, &change), Ok(()));
        // A duplicate that stays does.
        table.insert(&row(10, 2), &mut undo()).unwrap();
        let error = table.check_build(&build, None, &change).unwrap_err();
        assert_eq!(error.sqlstate(), "23505");
        assert!(error.to_string().contains("(2)"), "{error}");
        assert_eq!(table.build_step(&build, None, 1).unwrap_err(), error);
        assert!(!table.has_build(&build), "it has given its memory back");
        table.check().unwrap();
    }
}

#[test]
fn a_row_with_a_key_that_is_too_long_violates_nothing_unless_it_stays() {
    let (before, change, ..) = definitions((IndexKind::Ordered, false, &["c"]));
    let mut table = Table::new(before, Arc::new(Budget::new(1 << 30)), 1).unwrap();
    let build = Arc::new(Build::default());
    table.begin_build(&build, &change).unwrap();
    let long = "x".repeat(100_000);
    let row = [ValueRef::Int(1), ValueRef::Int(1), ValueRef::Text(&long), ValueRef::Null];
    let id = table.insert(&row, &mut undo()).unwrap();
    table.check().unwrap();
    table.update(id, &[(2, ValueRef::Text("short"))], &mut undo()).unwrap();
    assert_eq!(table.build_step(&build, None, 1), Ok(BuildStep::Done));
    table.update(id, &[(2, ValueRef::Text(&long))], &mut undo()).unwrap();
    table.check().unwrap();
    assert_eq!(table.check_build(&build, None, &change).unwrap_err().sqlstate(), "54000");
}

#[test]
fn an_index_without_memory_fails_and_writers_do_not() {
    let (before, change, ..) = definitions((IndexKind::Ordered, false, &["b", "c"]));
    for room in [0_u64, 10_000, 60_000, 200_000] {
        let budget = Arc::new(Budget::new(1 << 30));
        let mut table = Table::new(Arc::clone(&before), Arc::clone(&budget), 1).unwrap();
        let text = "y".repeat(100);
        let row = |a: i64| [ValueRef::Int(a), ValueRef::Int(a), ValueRef::Text(&text), ValueRef::Null];
        for a in 0..2000 {
            table.insert(&row(a), &mut undo()).unwrap();
        }
        let used = budget.used();
        budget.set_limit(used + room, 0);
        let build = Arc::new(Build::default());
        table.begin_build(&build, &change).unwrap();
        let mut result = Ok(BuildStep::More);
        while result == Ok(BuildStep::More) {
            result = table.build_step(&build, None, 50);
            assert!(budget.used() <= used + room);
            // An update in place needs no memory of the table.
            table.update(TupleId(0), &[(1, ValueRef::Int(budget.used().cast_signed()))], &mut undo()).unwrap();
            table.check().unwrap();
        }
        assert_eq!(result.unwrap_err().sqlstate(), "53200", "{room}");
        assert_eq!(budget.used(), used, "{room}");
        drop(table);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn columns_that_are_added_in_steps_are_those_that_are_added_at_once() {
    let (mut built, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let long = "e".repeat(ROW_BYTES_MAX - 300);
        let number = random.below(4);
        let (data_type, nullable, fill) = match number {
            0 => (DataType::BigInt, true, Value::Null),
            1 => (DataType::Integer, false, Value::Int(7)),
            2 => (DataType::Text, true, Value::Text("there".into())),
            _ => (DataType::Text, false, Value::Text(long.into())),
        };
        let before = table();
        let mut after = TableDefinition::clone(&before);
        after.columns.push(ColumnDefinition { name: "e".into(), data_type, nullable, default: None });
        let after = Arc::new(after);
        let change = Change::AddColumn { table: Arc::clone(&after), fill: fill.clone() };
        let budget = Arc::new(Budget::new(1 << 40));
        let mut table = Table::new(before, Arc::clone(&budget), seed).unwrap();
        (0..random.below(if number == 3 { 4 } else { 60 })).for_each(|_| transaction(&mut random, &mut table));
        let build = Arc::new(Build::default());
        table.begin_build(&build, &change).unwrap();
        let rows = 1 + u32::try_from(random.below(9)).unwrap();
        let mut result = Ok(BuildStep::More);
        while result == Ok(BuildStep::More) {
            (0..random.below(3)).for_each(|_| transaction(&mut random, &mut table));
            result = table.build_step(&build, None, rows);
            table.check().unwrap();
        }
        if result.is_ok() {
            (0..random.below(3)).for_each(|_| transaction(&mut random, &mut table));
            result = table.check_build(&build, None, &change).map(|()| BuildStep::Done);
        }
        let mut other = Table::new(Arc::clone(table.definition()), Arc::new(Budget::new(1 << 40)), seed).unwrap();
        table.scan().for_each(|id| other.restore(id, Some(table.row(id).unwrap().image())).unwrap());
        let at_once = other.change_columns(Arc::clone(&after), &fill);
        match (result, at_once) {
            (Ok(_), Ok(())) => {
                table.install_build(Arc::clone(&after), None);
                table.check().unwrap();
                assert_eq!(table.state_hash(), other.state_hash(), "{seed}");
                built += 1;
            }
            (Err(error), Err(other)) => {
                assert_eq!(error.sqlstate(), other.sqlstate(), "{seed}: {error}, {other}");
                build.give_up();
                table.drop_build_given_up();
                table.check().unwrap();
                refused += 1;
            }
            (steps, at_once) => panic!("{seed}: {steps:?} in steps, {at_once:?} at once"),
        }
        drop(table);
        assert_eq!(budget.used(), 0, "{seed}");
    }
    assert!(built > 200 && refused > 10, "{built} {refused}");
}
