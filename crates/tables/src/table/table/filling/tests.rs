use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_types::{DataType, Value};

use super::*;
use crate::schema::{IndexKind, fixture};
use crate::table::Budget;

/// Primary keys of the tables, which have indexes of every kind: with keys of each width, texts, NULLs, and keys shared
/// by many rows.
const TABLES: [(IndexKind, &[&str]); 4] = [
    (IndexKind::Hash, &["a"]),
    (IndexKind::Ordered, &["a", "d"]),
    (IndexKind::Hash, &["c"]),
    (IndexKind::Ordered, &["a", "c"]),
];
const INDEXES: [(IndexKind, bool, &[&str]); 5] = [
    (IndexKind::Ordered, false, &["d"]),
    (IndexKind::Hash, false, &["d"]),
    (IndexKind::Ordered, true, &["b"]),
    (IndexKind::Hash, true, &["b"]),
    (IndexKind::Ordered, false, &["-c", "a"]),
];

fn definition((primary, key): (IndexKind, &[&str]), indexes: &[(IndexKind, bool, &[&str])]) -> Arc<TableDefinition> {
    let columns = [
        ("a", DataType::BigInt, true),
        ("b", DataType::Integer, true),
        ("c", DataType::Varchar(50), true),
        ("d", DataType::Integer, false),
    ];
    let table = fixture::table(&columns, primary, key);
    Arc::new(indexes.iter().fold(table, |table, (kind, unique, key)| fixture::with_index(table, *kind, *unique, key).0))
}

fn table(definition: &Arc<TableDefinition>) -> (Table, Arc<Budget>) {
    let budget = Arc::new(Budget::unlimited());
    (Table::new(Arc::clone(definition), Arc::clone(&budget), 5).unwrap(), budget)
}

/// Row `number`: keys are in no order, and values of `b` other than NULL are distinct.
fn row(number: i64, random: &mut StdRng) -> Vec<Value> {
    let key = number.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 8;
    let b = if random.random_bool(0.3) { Value::Null } else { Value::Int(number * 7919 % 1_000_003) };
    vec![Value::Int(key), b, Value::Text(format!("{key:x}").into()), Value::Int(random.random_range(0..300))]
}

fn fill(from: &Table, into: &mut Table) -> Result<()> {
    let mut indexes = into.begin_filling();
    from.scan().try_for_each(|id| into.fill(&mut indexes, None, id, from.row(id)?.image()))?;
    for (load, ids) in from.loads() {
        ids.iter().try_for_each(|id| into.fill(&mut indexes, Some(load), id, from.row(id)?.image()))?;
    }
    finish(into, indexes, &mut || Ok(()))
}

fn finish(table: &mut Table, indexes: Vec<IndexFilling>, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let budget = Arc::clone(&table.budget);
    indexes.into_iter().try_for_each(|index| table.take_filled(index.finish(&budget, between)))
}

#[test]
fn a_table_that_is_filled_at_once_is_one_whose_rows_came_one_by_one() {
    for (seed, create) in TABLES.into_iter().enumerate() {
        for rows in [0, 1, 50, 40_000] {
            println!("table {seed}, {rows} rows");
            let definition = definition(create, &INDEXES);
            let mut random = StdRng::seed_from_u64(seed as u64);
            let ((mut one_by_one, _), (mut filled, budget)) = (table(&definition), table(&definition));
            let mut undo = Undo::new(usize::MAX);
            for number in 0..rows {
                let values = row(number, &mut random);
                let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                one_by_one.insert(&values, &mut undo).unwrap();
                undo.clear();
            }
            for id in 0..rows / 5 {
                let id = TupleId(random.random_range(0..(id as u32 + 1) * 4));
                if one_by_one.get(id).unwrap().is_some() {
                    one_by_one.delete(id, &mut undo).unwrap();
                }
            }
            undo.clear();
            for number in rows..rows + rows / 100 {
                let mut image = Vec::new();
                let values = row(number, &mut random);
                one_by_one.layout().encode(&mut image, |column| values[column].as_ref()).unwrap();
                one_by_one.insert_hidden(LoadId(3), &image, &mut undo).unwrap();
                undo.clear();
            }
            fill(&one_by_one, &mut filled).unwrap();
            filled.check().unwrap();
            assert_eq!(filled.state_hash(), one_by_one.state_hash());
            assert_eq!(filled.rows(), one_by_one.rows());
            assert_eq!(budget.used(), filled.memory().total() as u64);
            for index in &definition.indexes {
                if filled.index(index.id).unwrap().range(Bound::Unbounded, Bound::Unbounded).is_some() {
                    let all = |table: &Table| -> Vec<(Vec<u8>, TupleId)> {
                        let entries = table.range(index.id, Bound::Unbounded, Bound::Unbounded).unwrap();
                        entries.map(|(key, id)| (key.to_vec(), id)).collect()
                    };
                    assert_eq!(all(&filled), all(&one_by_one), "index {}", index.name);
                }
            }
            // The table then works like any other.
            for number in 2 * rows..2 * rows + 1000 {
                let values = row(number, &mut random);
                let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                filled.insert(&values, &mut undo).unwrap();
            }
            let ids: Vec<TupleId> = filled.scan().step_by(2).collect();
            ids.iter().for_each(|id| filled.delete(*id, &mut undo).unwrap());
            filled.check().unwrap();
            drop(filled);
            assert_eq!(budget.used(), 0);
        }
    }
}

#[test]
fn rows_that_cannot_be_together_are_refused() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let definition = Arc::new(fixture::table(&[("a", DataType::Integer, false)], kind, &["a"]));
        let image = |table: &Table, number: i64| {
            let mut image = Vec::new();
            table.layout().encode(&mut image, |_| ValueRef::Int(number)).unwrap();
            image
        };
        let (mut twice, budget) = table(&definition);
        let mut indexes = twice.begin_filling();
        for (id, number) in [(0, 7), (1, 8), (2, 7)] {
            let image = image(&twice, number);
            twice.fill(&mut indexes, None, TupleId(id), &image).unwrap();
        }
        let nine = image(&twice, 9);
        let error = twice.fill(&mut indexes, None, TupleId(1), &nine).unwrap_err();
        assert!(matches!(&error, Error::Corrupt(message) if message.contains("is there twice")), "{error}");
        assert!(matches!(twice.fill(&mut indexes, None, TupleId(9), b"no row"), Err(Error::Corrupt(_))));
        assert!(matches!(twice.fill(&mut indexes, None, TupleId(u32::MAX), &nine), Err(Error::Corrupt(_))));
        let error = finish(&mut twice, indexes, &mut || Ok(())).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("(7)")), ("23505", true), "{error}");
        drop(twice);
        assert_eq!(budget.used(), 0);
        let (mut stopped, _) = table(&definition);
        let mut indexes = stopped.begin_filling();
        for id in 0..40_000 {
            let image = image(&stopped, id.into());
            stopped.fill(&mut indexes, None, TupleId(id), &image).unwrap();
        }
        let mut stop = || Err(Error::Cancelled("stopped".into()));
        assert_eq!(finish(&mut stopped, indexes, &mut stop).unwrap_err().sqlstate(), "57014");
    }
}
