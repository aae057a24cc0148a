//! Several clients give a process with little memory every kind of request that takes memory, and it stays within its
//! limit: see [`workload`].
//!
//! `THERMOCLINE_MEMORY_STEPS` sets the steps of each client instead of 80, `THERMOCLINE_MEMORY_SEED` chooses others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod workload;

use std::process::Command;

use workload::{KIND, LIMIT_BYTES, SEED, STEPS};

/// Memory of a process outside of the limit: its code and stacks, what the allocator keeps, and the clients of the
/// test.
const MARGIN_BYTES: u64 = 300 << 20;

/// The same at a small limit: beyond it and a twentieth, a process takes 100 MiB at most, of which the program itself
/// has the larger part where it is the whole database.
const SMALL_MARGIN_BYTES: u64 = 50 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Not a test: the body of the observed process.
#[test]
#[ignore = "run by the tests below"]
fn child() {
    match std::env::var(KIND).unwrap().as_str() {
        workload::GIGABYTE => workload::gigabyte(),
        workload::THREADS => workload::threads(),
        workload::LARGE_ROWS => workload::large_rows(number(STEPS, 0)),
        kind => workload::run(kind, number(SEED, 0), number(STEPS, 0)),
    }
}

/// Runs a kind of work in a process of its own; returns its maximum resident bytes.
fn resident_bytes_max(kind: &str, seed: u64, steps: u64) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(KIND, kind)
        .env(SEED, seed.to_string())
        .env(STEPS, steps.to_string())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{kind}, seed {seed}: {}\n{text}\n{errors}", output.status);
    let line = text.lines().find_map(|line| line.strip_prefix("resident_bytes_max "));
    let bytes = line.unwrap_or_else(|| panic!("{kind}, seed {seed}: {text}\n{errors}")).parse().unwrap();
    println!("{kind}, seed {seed}, {steps} steps: {} MiB resident at most\n{text}", bytes >> 20);
    bytes
}

#[test]
fn a_random_workload_stays_within_the_limit() {
    let seed = number("THERMOCLINE_MEMORY_SEED", 14);
    let resident = resident_bytes_max("random", seed, number("THERMOCLINE_MEMORY_STEPS", 80));
    assert!(resident <= LIMIT_BYTES + MARGIN_BYTES, "{resident} bytes resident, seed {seed}");
}

/// One kind at a time, so that the one at fault is known.
#[test]
fn each_kind_of_work_stays_within_the_limit() {
    for (kind, _) in workload::KINDS {
        let resident = resident_bytes_max(kind, 1, 12);
        assert!(resident <= LIMIT_BYTES + MARGIN_BYTES, "{kind}: {resident} bytes resident");
    }
}

#[test]
fn what_many_threads_gave_back_does_not_stay() {
    let resident = resident_bytes_max(workload::THREADS, 1, 1);
    assert!(resident <= LIMIT_BYTES + MARGIN_BYTES, "{resident} bytes resident");
}

/// Rows of a mebibyte, at a limit that has room for some dozens: they are in a client's text, in the parser, in the
/// table, in the log and in blocks at once, and a result has them again.
#[test]
fn rows_of_a_mebibyte_stay_within_a_small_limit() {
    let resident = resident_bytes_max(workload::LARGE_ROWS, 1, number("THERMOCLINE_MEMORY_STEPS", 60));
    let most = workload::SMALL_LIMIT_BYTES + workload::SMALL_LIMIT_BYTES / 20 + SMALL_MARGIN_BYTES;
    assert!(resident <= most, "{resident} bytes resident of {most}");
}

#[test]
fn a_literal_of_a_gigabyte_is_refused_unread() {
    let more = resident_bytes_max(workload::GIGABYTE, 1, 1);
    assert!(more <= 16 << 20, "{more} bytes more than the text");
}
