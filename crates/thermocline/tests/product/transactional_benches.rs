//! The benches of the row engine as a program: their output, and the removal of their files.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Fields of every record.
const FIELDS: [&str; 16] = [
    "workload",
    "engine",
    "mix",
    "skew",
    "data_bytes",
    "memory_limit_bytes",
    "partitions",
    "seconds",
    "transactions",
    "transactions_per_s",
    "aborts",
    "restarts",
    "p50_us",
    "p99_us",
    "p999_us",
    "rss_max_bytes",
];

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermocline")).arg("bench").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a quick bench and reads its records.
fn records(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let (json, databases) = (folder.join("records.json"), folder.join("databases"));
    let common = ["--quick", "--directory", databases.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let output = bench(&[arguments, &common].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(&databases).unwrap().count(), 0, "databases are removed");
    let lines = std::fs::read_to_string(json).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &records {
        let missing: Vec<&str> = FIELDS.into_iter().filter(|field| record.get(field).is_none()).collect();
        assert!(missing.is_empty(), "{record} without {missing:?}");
        let number = |field: &str| record[field].as_f64().unwrap_or_else(|| panic!("{field} in {record}"));
        assert!(number("transactions") > 0.0 && number("data_bytes") > 1e6, "{record}");
        assert!(number("p50_us") <= number("p99_us") && number("p99_us") <= number("p999_us"), "{record}");
        assert!(number("rss_max_bytes") > number("data_bytes"), "{record}");
        let rate = number("transactions") / number("seconds");
        assert!((rate / number("transactions_per_s") - 1.0).abs() < 1e-6, "{record}");
    }
    records
}

#[test]
fn ycsb_has_a_record_for_each_combination() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["ycsb", "--rows", "5000", "--mix", "A,100/0", "--skew", "0.5,1", "--log", "on,off"];
    let records = records(folder.path(), &arguments);
    // Two mixes, two skews, two partition counts, two kinds of log.
    assert_eq!(records.len(), 16);
    assert!(records.iter().all(|record| record["aborts"] == 0 && record["restarts"] == 0));
    assert_eq!(records.iter().filter(|record| record["mix"] == "100/0").count(), 8);
    assert_eq!(records.iter().filter(|record| record["skew"] == 1.0 && record["partitions"] == 2).count(), 4);
    assert_eq!(records.iter().filter(|record| record["log"] == false).count(), 8);
}

#[test]
fn ycsb_reports_evictions_where_rows_exceed_memory() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["ycsb", "--rows", "40000", "--memory-limit", "24MiB", "--partitions", "1", "--mix", "90/10"];
    for record in records(folder.path(), &arguments) {
        let eviction = &record["eviction"];
        for field in ["evicted_rows", "returned_rows", "written_bytes", "reads", "read_bytes", "waits", "held_us_max"] {
            assert!(eviction[field].as_u64().unwrap() > 0, "{field} in {record}");
        }
        let timeline = record["timeline"].as_array().unwrap();
        assert!(timeline.len() >= 5, "{record}");
        let evicted: u64 = timeline.iter().map(|moment| moment["evicted_rows"].as_u64().unwrap()).sum();
        assert_eq!(Some(evicted), eviction["evicted_rows"].as_u64());
    }
}

#[test]
fn tpcc_checks_its_conditions_and_counts_new_orders() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(folder.path(), &["tpcc", "--seconds", "2", "--remote", "on,off", "--procedures", "rust,lua"]);
    assert_eq!(records.len(), 8);
    for record in &records {
        let share = record["new_orders_per_s"].as_f64().unwrap() / record["transactions_per_s"].as_f64().unwrap();
        assert!((0.40..0.50).contains(&share), "{record}");
        assert!(record["aborts"].as_u64().unwrap() > 0, "{record}");
        let remote = record["remote"] == true && record["partitions"] == 2;
        assert_eq!(record["restarts"].as_u64().unwrap() > 0, remote, "{record}");
    }
}

#[test]
fn ycsb_aggregates_the_table_beside_the_clients() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["ycsb", "--rows", "40000", "--memory-limit", "24MiB", "--partitions", "1,2", "--scan"];
    let records = records(folder.path(), &arguments);
    assert_eq!(records.len(), 4);
    for pair in records.chunks(2) {
        assert!(pair[0]["scans"].is_null(), "{}", pair[0]);
        assert!(
            pair[1]["scans"].as_u64().unwrap() > 0 && pair[1]["scan_seconds"].as_f64().unwrap() > 0.0,
            "{}",
            pair[1]
        );
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, expected) in [
        (&["ycsb", "--mix", "60/60"][..], "is no mix"),
        (&["ycsb", "--skew=-1"], "is no exponent"),
        (&["ycsb", "--partitions", "0"], "0 is not in"),
        (&["ycsb", "--procedures", "perl"], "none of rust, lua, sql"),
        (&["ycsb", "--log", "maybe"], "neither on nor off"),
        (&["ycsb", "--seconds", "x"], "is no number of seconds"),
        (&["tpcc", "--warehouses", "0"], "0 is not in"),
        (&["tpcc", "--quick", "--procedures", "sql"], "SQL has no loops"),
        (&["ycsb", "--quick", "--seconds", "0"], "--seconds"),
        (&["ycsb", "--partitions", "1,1"], "--partitions names 1 twice"),
        (&["ycsb", "--log", "on,on"], "--log names on twice"),
        (&["ycsb", "--mix", "50/50,A"], "--mix names"),
        (&["ycsb", "--skew", "1,1.0"], "--skew names 1 twice"),
        (&["tpcc", "--remote", "on,on"], "--remote names on twice"),
    ] {
        let output = bench(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let full = bench(&["ycsb", "--quick", "--memory-limit", "1MiB"]);
    assert!(!full.status.success() && text(&full.stderr).contains("out of memory"), "{}", text(&full.stderr));
}
