//! The same transactions with every way of evicting rows, and with none: the same hashes of all tables.
//!
//! A database runs them with many in flight, in a memory that its rows exceed, and keeps its log. Each replay of that log
//! compares the digest of every record with that of its first run, evicts in another way, and ends in the same state.
//! `THERMOCLINE_STATE_TRANSACTIONS` sets their number: 1000000 takes an hour.

use std::path::Path;
use std::sync::Arc;

use thermocline_transactions::blocks::{BlockStoreSettings, Merge, SamplingRate, Victims};
use thermocline_transactions::database::{RowEngine, Settings, SnapshotSettings};
use thermocline_transactions::disk::RealDisk;
use thermocline_transactions::error::Class;
use thermocline_transactions::log::LogSettings;
use thermocline_transactions::procedure::Registration;
use thermocline_workloads::oltp::{Calls, Language};
use thermocline_workloads::tpcc::{self, Remote, Scale, Terminal, Transaction};
use thermocline_workloads::ycsb::{self, FIELD_BYTES, Skew, YcsbCalls};

/// Calls in flight in the first run.
const IN_FLIGHT: usize = 64;

/// Size of the runs.
#[derive(Clone, Copy)]
struct Size {
    transactions: u64,
    memory_bytes: u64,
    ycsb_rows: u64,
    customers: u32,
}

impl Size {
    /// The size for the number of transactions, with this memory for many of them.
    fn chosen(memory_bytes: u64) -> Self {
        let transactions = std::env::var("THERMOCLINE_STATE_TRANSACTIONS");
        let transactions = transactions.map_or(2000, |text| text.parse().unwrap());
        match transactions < 100_000 {
            true => Self { transactions, memory_bytes: 8 << 20, ycsb_rows: 16_000, customers: 100 },
            false => Self { transactions, memory_bytes, ycsb_rows: 128_000, customers: 1000 },
        }
    }
}

fn open(
    directory: &Path,
    memory_bytes_max: u64,
    blocks: Option<BlockStoreSettings>,
    of: Vec<Registration>,
) -> RowEngine {
    let settings = Settings {
        partitions: 2,
        memory_bytes_max,
        eviction: blocks,
        log: LogSettings { synchronous_commit: false, ..LogSettings::default() },
        // Everything is replayed.
        snapshots: SnapshotSettings {
            log_bytes: u64::MAX,
            interval: None,
            closing_log_bytes: u64::MAX,
            ..SnapshotSettings::default()
        },
        procedures: of,
        seed: 1,
        ..Settings::default()
    };
    RowEngine::open(Arc::new(RealDisk::open(directory.to_owned()).unwrap()), settings).unwrap()
}

/// Runs this many calls, in turns of the clients that draw them.
fn run(database: &RowEngine, procedures: &[&str], mut calls: Vec<Box<dyn Calls>>, transactions: u64) {
    let works: Vec<_> = procedures.iter().map(|name| database.procedure(name).unwrap()).collect();
    let mut client = database.client();
    let (mut submitted, mut on_their_way) = (0, 0);
    while submitted < transactions || on_their_way > 0 {
        while submitted < transactions && on_their_way < IN_FLIGHT {
            let of = submitted as usize % calls.len();
            let call = calls[of].next_call();
            client.submit(Arc::clone(&works[call.procedure]), call.arguments, 0).unwrap();
            (submitted, on_their_way) = (submitted + 1, on_their_way + 1);
        }
        client.send();
        for reply in client.receive() {
            on_their_way -= 1;
            // One NewOrder in a hundred is rolled back on purpose.
            if let Err(error) = reply.result {
                assert_eq!(error.sqlstate(), Class::Raised.sqlstate(), "{error}");
            }
        }
    }
}

/// Rows that were evicted and that came back.
fn moves(database: &RowEngine) -> (u64, u64) {
    let statistics = database.session().statistics().unwrap();
    let tables = statistics.partitions.iter().flat_map(|partition| &partition.tables);
    tables.fold((0, 0), |(out, back), table| (out + table.evicted_total, back + table.returned_total))
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Every merge strategy with every policy of victims and size of blocks.
fn ways() -> impl Iterator<Item = BlockStoreSettings> {
    let policies = [(Victims::Sampled, SamplingRate::default()), (Victims::Chain, "0.3".parse().unwrap())];
    [Merge::Tuple, Merge::Block].into_iter().flat_map(move |merge| {
        policies.into_iter().flat_map(move |(victims, chain_sampling)| {
            [4 << 10, 64 << 10, 1 << 20].map(|block_bytes| BlockStoreSettings {
                block_bytes: Some(block_bytes),
                merge,
                victims,
                chain_sampling,
                ..BlockStoreSettings::default()
            })
        })
    })
}

/// Runs with `first`, then replays the log in every way.
fn compare(size: Size, registrations: impl Fn() -> Vec<Registration>, first: impl FnOnce(&RowEngine)) {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), size.memory_bytes, Some(BlockStoreSettings::default()), registrations());
    first(&database);
    let (hashes, (evicted, returned)) = (database.state_hashes().unwrap(), moves(&database));
    println!("{} transactions: {evicted} rows evicted, {returned} came back", size.transactions);
    assert!(evicted > size.transactions / 10 && returned > size.transactions / 100);
    database.close().unwrap();
    for way in std::iter::once(None).chain(ways().map(Some)) {
        let copied = tempfile::tempdir().unwrap();
        copy(directory.path(), copied.path());
        let memory = if way.is_some() { size.memory_bytes } else { 16 << 30 };
        let replayed = open(copied.path(), memory, way, registrations());
        assert!(replayed.read_only().is_none(), "{way:?}: {:?}", replayed.read_only());
        let (evicted, returned) = moves(&replayed);
        println!("{way:?}: {evicted} rows evicted, {returned} came back");
        assert_eq!(evicted > 0, way.is_some(), "{way:?}");
        assert_eq!(replayed.state_hashes().unwrap(), hashes, "{way:?}");
    }
}

#[test]
fn states_of_ycsb_do_not_depend_on_eviction() {
    let size = Size::chosen(64 << 20);
    let registrations = || ycsb::registrations(Language::Rust).unwrap();
    compare(size, registrations, |database| {
        ycsb::define(&mut database.session(), FIELD_BYTES, Language::Rust).unwrap();
        ycsb::load(database, size.ycsb_rows, FIELD_BYTES, 2).unwrap();
        let (rows, skew) = ((size.ycsb_rows, FIELD_BYTES), Skew { exponent: 0.9, scrambled: true });
        let client = |number| YcsbCalls::new(rows, skew, "50/50".parse().unwrap(), Language::Rust, number);
        let clients = (0..2).map(|number| Box::new(client(number)) as Box<dyn Calls>).collect();
        let procedures = ycsb::procedures(Language::Rust);
        run(database, &procedures.iter().map(String::as_str).collect::<Vec<_>>(), clients, size.transactions);
    });
}

#[test]
fn states_of_tpcc_do_not_depend_on_eviction() {
    // Keys stay in memory, and a million transactions insert five million rows.
    let size = Size::chosen(256 << 20);
    let scale = Scale { warehouses: 2, items: 10_000, customers: size.customers };
    compare(
        size,
        || tpcc::registrations(Language::Rust).unwrap(),
        |database| {
            tpcc::define(&mut database.session(), Language::Rust).unwrap();
            tpcc::load(database, scale, 2).unwrap();
            let terminal = |number| Terminal::new(scale, Remote::Standard, 7, number);
            let clients = (0..2).map(|number| Box::new(terminal(number)) as Box<dyn Calls>).collect();
            run(database, &Transaction::PROCEDURES, clients, size.transactions);
        },
    );
}
