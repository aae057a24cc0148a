//! Records histories of concurrent clients and checks that they are strictly serializable; also checks that known
//! anomalies are found.
//!
//! `THERMOCLINE_HISTORY_STEPS` sets the number of recorded steps instead of 100 000, `THERMOCLINE_HISTORY_SEED` the
//! clients' choices of another run; the interleaving of threads differs each time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod anomalies;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_simulator::{Outcome, Step, Transaction, checker};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use workload::{World, client, final_reads, open};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Records the clients' history on this many partitions.
fn record(partitions: u16, steps: u64, seed: u64) -> Vec<Transaction> {
    let disk = SimulatedDisk::new(seed, Faults::default());
    let database = open(Arc::new(disk.clone()), partitions);
    workload::define(&database);
    let world = World::new(steps);
    let mut history: Vec<Transaction> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let (database, world) = (&database, &world);
                scope.spawn(move || client(database, world, number, seed))
            })
            .collect();
        // Snapshots must be invisible.
        while world.steps_left.load(Ordering::Relaxed) > 0 {
            database.snapshot().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    history.push(final_reads(&database, &world));
    // Recovery must be invisible, too.
    drop(database);
    let database = open(Arc::new(disk), partitions);
    history.push(final_reads(&database, &world));
    history
}

#[test]
fn histories_are_strictly_serializable() {
    let (steps, seed) = (number("THERMOCLINE_HISTORY_STEPS", 100_000), number("THERMOCLINE_HISTORY_SEED", 1));
    let mut total = 0;
    for partitions in [1, 2, 3] {
        let history = record(partitions, steps / 2, seed);
        let count: usize = history.iter().map(|transaction| transaction.steps.len()).sum();
        let of = |outcome| history.iter().filter(|transaction| transaction.outcome == outcome).count();
        println!(
            "{partitions} partitions, seed {seed}: {} transactions of {count} steps, {} aborted",
            history.len(),
            of(Outcome::Aborted)
        );
        assert!(of(Outcome::Aborted) > history.len() / 50 && of(Outcome::Unknown) == 0);
        if let Err(anomaly) = checker::check(&history) {
            panic!("seed {seed}: {}", anomaly.describe(&history));
        }
        total += count;
        if partitions == 3 {
            changed_histories_are_found(&history);
        }
    }
    assert!(total as u64 >= steps, "{total} steps");
}

/// Plants one violation at many places of the recorded history.
fn changed_histories_are_found(history: &[Transaction]) {
    let mut appends: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for step in &transaction.steps {
            if let Step::Append { key, value } = step {
                appends.insert((*key, *value), number);
            }
        }
    }
    let committed = |transaction: &&Transaction| transaction.outcome == Outcome::Committed;
    // Stale reads: a reader that began after the commit misses the last element of a list.
    let stale =
        history.iter().enumerate().filter(|(_, transaction)| committed(transaction)).filter_map(|(number, reader)| {
            let [Step::ReadList { key, list }] = &reader.steps[..] else { return None };
            let writer = &history[appends[&(*key, *list.last()?)]];
            (writer.end < reader.begin).then_some((number, *key, list.len() - 1))
        });
    let stale: Vec<_> = stale.collect();
    assert!(stale.len() > 20, "{} reads to change", stale.len());
    for (number, key, length) in stale.iter().step_by(stale.len() / 5) {
        let mut changed = history.to_vec();
        let Step::ReadList { list, .. } = &mut changed[*number].steps[0] else { panic!("a read") };
        list.truncate(*length);
        let found = checker::check(&changed).expect_err("a stale read");
        // Losing half of a transaction's appends is another anomaly.
        let name = found.name();
        assert!(
            name.contains("real time") || name.starts_with("G1b"),
            "T{number} of list {key}: {}",
            found.describe(&changed)
        );
    }
    // Lost updates: nobody ever sees a committed element.
    let lost: Vec<_> = appends.iter().filter(|(_, writer)| committed(&&history[**writer])).collect();
    for ((key, value), writer) in lost.iter().step_by(lost.len() / 5) {
        let mut changed = history.to_vec();
        for step in
            changed.iter_mut().enumerate().filter(|(number, _)| number != *writer).flat_map(|(_, of)| &mut of.steps)
        {
            if let Step::ReadList { key: of, list } = step
                && of == key
            {
                list.retain(|element| element != value);
            }
        }
        changed[**writer].steps.retain(|step| !matches!(step, Step::ReadList { .. }));
        assert!(checker::check(&changed).is_err(), "{value} is in list {key} no more");
    }
    // Dirty reads: a transaction whose writes were read has aborted.
    let seen = history[history.len() - 1].steps.iter().find_map(|step| match step {
        Step::ReadList { key, list } => Some((*key, *list.get(list.len() / 2)?)),
        _ => None,
    });
    let mut changed = history.to_vec();
    changed[appends[&seen.unwrap()]].outcome = Outcome::Aborted;
    assert!(checker::check(&changed).unwrap_err().name().starts_with("G1a"));
    // Fractured transaction: one append is there, the other is not.
    let half = history.iter().enumerate().find_map(|(number, transaction)| {
        let registers = transaction.steps.iter().filter(|step| matches!(step, Step::Replace { .. })).count();
        let lists = transaction.steps.iter().any(|step| matches!(step, Step::Append { .. }));
        (transaction.outcome == Outcome::Committed && registers > 0 && lists).then_some(number)
    });
    let mut changed = history.to_vec();
    changed[half.unwrap()].steps.retain(|step| !matches!(step, Step::Append { .. }));
    assert!(checker::check(&changed).unwrap_err().name() == "phantom");
}
