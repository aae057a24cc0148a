//! Kills a process with clients on two partitions at random moments and opens its database again: everything that
//! clients were told is there, and no transaction is there in part.
//!
//! `THERMOCLINE_KILL_ROUNDS` sets the number of kills instead of 6, `THERMOCLINE_KILL_SEED` the moments of another run.
//! A killed process loses nothing in the operating system's cache; the simulator covers that loss.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod child;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use child::{ACCOUNTS, BALANCE, CLIENTS, DIRECTORY, Entry, SEED, open};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::database::RowEngine;
use thermocline_transactions::types::ValueRef;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Not a test: the body of the process that is killed.
#[test]
#[ignore = "run by the test below"]
fn clients() {
    let directory = std::env::var(DIRECTORY).unwrap();
    child::run(Path::new(&directory), number(SEED, 0));
}

/// Starts the process, kills it after a while, and returns the last transaction that each client was told of.
fn kill_one(directory: &Path, seed: u64, random: &mut StdRng) -> BTreeMap<i64, i64> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "clients", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let mut told = BTreeMap::new();
        for line in lines.map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["committed", client, number] = words[..]
                && let (Ok(client), Ok(number)) = (client.parse(), number.parse())
            {
                let before = told.insert(client, number);
                assert!(before.is_none_or(|before: i64| before + 1 == number), "{line} after {before:?}");
            }
        }
        told
    });
    // Sometimes during recovery or while creating its tables.
    let most = if random.random_bool(0.15) { 30 } else { 300 };
    std::thread::sleep(Duration::from_millis(random.random_range(0..most)));
    assert_eq!(process.try_wait().unwrap(), None, "the process has ended by itself");
    process.kill().unwrap();
    process.wait().unwrap();
    reader.join().unwrap()
}

fn int(value: ValueRef<'_>) -> i64 {
    let ValueRef::Int(value) = value else { panic!("{value:?}") };
    value
}

/// Rows of a table of integers.
fn rows(database: &RowEngine, table: &str) -> Vec<Vec<i64>> {
    let answer = database.session().execute(&format!("SELECT * FROM {table}"), &[]).unwrap();
    (0..answer.rows.len()).map(|row| answer.rows.row(row).map(int).collect()).collect()
}

/// Compares the database with the results that clients were told; returns each client's last transaction.
fn verify(database: &RowEngine, told: &BTreeMap<i64, i64>) -> BTreeMap<i64, i64> {
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut counters: BTreeMap<i64, i64> = (0..CLIENTS).map(|client| (client, 0)).collect();
    let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows(database, "journal") {
        let entry = Entry::of(&row);
        assert!(entry.id > 0, "what was rolled back is there: {entry:?}");
        balances[entry.from as usize] -= entry.amount;
        balances[entry.to as usize] += entry.amount;
        *counters.get_mut(&entry.client()).unwrap() += 1;
        found.entry(entry.client()).or_default().push(entry.number());
    }
    for (client, numbers) in &mut found {
        numbers.sort_unstable();
        let last = numbers.len() as i64;
        assert!(numbers.iter().copied().eq(1..=last), "client {client} has gaps: {numbers:?}");
        let told = told.get(client).copied().unwrap_or(0);
        assert!(last == told || last == told + 1, "client {client} was told up to {told}, and {last} is the last");
    }
    for client in told.keys() {
        assert!(found.contains_key(client), "nothing is left of client {client}");
    }
    let accounts: BTreeMap<i64, i64> = rows(database, "accounts").into_iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(accounts.len() as i64, ACCOUNTS);
    for (id, balance) in accounts {
        assert_eq!(balance, balances[id as usize], "account {id} is not what the journal says");
    }
    for row in rows(database, "counters") {
        assert_eq!(row[1], counters[&row[0]], "counter {} is not what the journal says", row[0]);
    }
    let last = found.iter().map(|(client, numbers)| (*client, numbers.len() as i64));
    last.collect()
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_there_in_part() {
    let (rounds, seed) = (number("THERMOCLINE_KILL_ROUNDS", 6), number("THERMOCLINE_KILL_SEED", 1));
    println!("{rounds} rounds, seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    child::define(&open(directory.path()).unwrap());
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let (mut snapshots, mut replayed) = (0, 0);
    for round in 0..rounds {
        let mut told = last.clone();
        told.extend(kill_one(directory.path(), seed * 1_000_000 + round, &mut random));
        let mut progress = thermocline_transactions::recovery::Progress::default();
        let database = child::open_with_progress(directory.path(), &mut |now| progress = *now).unwrap();
        println!("round {round}: told {:?}, {} rows, {} records", told.values(), progress.rows_total, progress.records);
        (snapshots, replayed) = (snapshots + u64::from(progress.rows_total > 0), replayed + progress.records);
        last = verify(&database, &told);
        if round % 4 == 3 {
            // Opening it again must give the same state.
            database.close().unwrap();
            verify(&open(directory.path()).unwrap(), &last);
        }
    }
    let committed: i64 = last.values().sum();
    println!("{committed} transactions, {snapshots} recoveries with a snapshot, {replayed} records replayed");
    assert!(committed > rounds as i64 && replayed > 0);
    assert!(rounds < 50 || snapshots > rounds / 4, "{snapshots} recoveries with a snapshot");
}
