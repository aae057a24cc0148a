//! The command line as a program: exit codes, formats, databases, benches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Output};

fn thermocline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermocline")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// SSB at a scale of a few thousand rows, below `folder`; returns the statements that define it.
fn generate(folder: &Path, format: &str) -> String {
    generate_workload("ssb", folder, format)
}

/// As [`generate`], for any workload.
fn generate_workload(workload: &str, folder: &Path, format: &str) -> String {
    let out = folder.join(format);
    let generated = thermocline(&[
        "generate",
        workload,
        "--scale",
        "0.001",
        "--format",
        format,
        "--partition-size",
        "64KiB",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(generated.status.success(), "{}", text(&generated.stderr));
    text(&generated.stdout)
}

#[test]
fn a_database_is_defined_once_and_queried_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["parquet", "csv"] {
        let database = folder.path().join(format!("db-{format}"));
        let database = database.to_str().unwrap();
        let definitions = generate(folder.path(), format);
        let defined = thermocline(&["sql", database, "-c", &definitions]);
        assert!(defined.status.success(), "{}", text(&defined.stderr));
        assert!(defined.stdout.is_empty(), "statements without rows print nothing");

        let sql = "SELECT count(*) AS n, min(d_year) AS y, NULL AS nothing FROM dates";
        let csv = thermocline(&["sql", database, "--format", "csv", "-c", sql]);
        assert_eq!(text(&csv.stdout), "n,y,nothing\n2557,1992,\n");
        let json = thermocline(&["sql", database, "--format", "json", "-c", sql]);
        let line: serde_json::Value = serde_json::from_str(&text(&json.stdout)).unwrap();
        assert_eq!(line, serde_json::json!({ "n": 2557, "y": 1992, "nothing": null }));
        let tables = thermocline(&["sql", database, "--format", "csv", "-c", "SHOW TABLES"]);
        assert_eq!(text(&tables.stdout).lines().count(), 6);
    }
}

#[test]
fn tpch_is_generated_with_its_definitions_once() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["parquet", "csv"] {
        let definitions = generate_workload("tpch", folder.path(), format);
        let sql = "SELECT count(*) AS n, arrow_typeof(max(l_quantity)) AS quantity, \
                   arrow_typeof(max(l_shipdate)) AS day FROM lineitem";
        let csv = thermocline(&["sql", "--format", "csv", "-c", &definitions, "-c", sql]);
        let expected = "n,quantity,day\n6005,\"Decimal128(15, 2)\",Date32\n";
        assert_eq!(text(&csv.stdout), expected, "{format}: {}", text(&csv.stderr));
    }
    let out = folder.path().join("csv");
    let again = thermocline(&["generate", "tpch", "--scale", "0.001", "--out", out.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is in the way"), "{}", text(&again.stderr));
    let small = thermocline(&["generate", "tpch", "--scale", "0.0001", "--out", out.to_str().unwrap()]);
    assert_eq!(small.status.code(), Some(2));
    assert!(text(&small.stderr).contains("at least 0.001"), "{}", text(&small.stderr));
}

#[test]
fn the_first_error_ends_a_script() {
    let failed = thermocline(&["sql", "--format", "csv", "-c", "SELECT 1 AS a", "-c", "SELECT x", "-c", "SELECT 2"]);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(text(&failed.stdout), "a\n1\n");
    assert!(text(&failed.stderr).starts_with("error: "), "{}", text(&failed.stderr));
    assert_eq!(thermocline(&["sql", "--set", "mode=fast", "-c", "SELECT 1"]).status.code(), Some(2));
    assert_eq!(thermocline(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn a_storage_node_that_cannot_serve_says_why() {
    let missing = thermocline(&["storage", "/nowhere/at/all", "--listen", "127.0.0.1:0"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nowhere/at/all"), "{}", text(&missing.stderr));
    let open = thermocline(&["storage", "/tmp", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(1));
    assert!(text(&open.stderr).contains("insecure-listen"), "{}", text(&open.stderr));
}

#[test]
fn explain_shows_the_fragment_and_explain_analyze_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let definitions = generate(folder.path(), "parquet");
    let explain = |statement: &str| {
        let query = "SELECT lo_discount, count(*) FROM lineorder WHERE lo_quantity < 5 GROUP BY lo_discount";
        let explained =
            thermocline(&["sql", "--set", "mode=pushdown", "-c", &definitions, "-c", &format!("{statement} {query}")]);
        text(&explained.stdout)
    };
    let plan = explain("EXPLAIN");
    for part in ["HybridScanExec: table=lineorder", "FragmentInput", "mode=Partial", "routes=[pushdown="] {
        assert!(plan.contains(part), "{plan}\nwithout {part}");
    }
    let analyzed = explain("EXPLAIN ANALYZE");
    for part in ["partitions_pushdown=", "bytes_from_storage=", "segments_hit=", "time_storage="] {
        assert!(analyzed.contains(part), "{analyzed}\nwithout {part}");
    }
}

#[test]
fn a_quick_operator_bench_agrees_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    // It fails if two ways of running a query differ in their rows.
    let bench = thermocline(&["bench", "operators", "--quick", "--scale", "0.01", "--data", data]);
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let table = text(&bench.stdout);
    for alternative in ["indexing", "bloom", "filtered", "K = 10000"] {
        assert!(table.contains(alternative), "{table}");
    }
}

#[test]
fn a_quick_bench_writes_every_field_and_the_modes_agree() {
    assert_eq!(quick_bench("ssb", &[]), 13);
    assert_eq!(quick_bench("tpch", &["--queries", "1,Q6,14", "--mode", "pullup", "--mode", "pushdown"]), 3);
    let unknown = thermocline(&["bench", "tpch", "--quick", "--queries", "23"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("tpch has no query '23'"), "{}", text(&unknown.stderr));
}

#[test]
fn a_quick_adaptive_bench_compares_all_strategies() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let (data, json_path) = (folder.path().to_str().unwrap(), json.to_str().unwrap());
    let bench = thermocline(&["bench", "adaptive", "--quick", "--scale", "0.01", "--data", data, "--json", json_path]);
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let mut asked: std::collections::HashMap<String, u64> = std::collections::HashMap::new();
    for line in std::fs::read_to_string(json).unwrap().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let count = |field: &str| record[field].as_u64().unwrap_or_else(|| panic!("{field} in {line}"));
        assert_eq!(count("admitted"), count("partitions_pushdown") - count("partitions_pushed_back"), "{line}");
        let strategy = record["strategy"].as_str().unwrap().to_owned();
        *asked.entry(strategy).or_default() += count("partitions_pushdown");
        assert!(record["compute_power"].is_f64() && record["concurrent"].is_boolean(), "{line}");
    }
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert_eq!(asked["no"], 0);
    assert!(asked.iter().all(|(strategy, asked)| strategy == "no" || *asked > 0), "{asked:?}");
}

#[test]
fn a_quick_bitmap_bench_has_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let (data, json_path) = (folder.path().to_str().unwrap(), json.to_str().unwrap());
    let common = ["bench", "bitmap", "--quick", "--scale", "0.01", "--data", data];
    let bench = thermocline(&[&common[..], &["--json", json_path]].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    // Bytes by query, direction and side, of the timed executions that select nine rows in ten.
    let mut bytes: std::collections::HashMap<(String, String, bool), u64> = std::collections::HashMap::new();
    for line in std::fs::read_to_string(json).unwrap().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let count = |field: &str| record[field].as_u64().unwrap_or_else(|| panic!("{field} in {line}"));
        let word = |field: &str| record[field].as_str().unwrap_or_else(|| panic!("{field} in {line}")).to_owned();
        let bitmaps = record["bitmaps"].as_bool().unwrap();
        assert!(bitmaps || count("partitions_bitmap") == 0, "{line}");
        if word("run") == "timed" && record["selectivity"].as_f64().unwrap() > 0.85 {
            bytes.insert((word("query"), word("direction"), bitmaps), count("bytes_from_storage"));
        }
    }
    assert_eq!(bytes.len(), 5 * 2 * 2);
    for query in ["Q14", "Q19"] {
        let of = |bitmaps| bytes[&(query.to_owned(), "storage".to_owned(), bitmaps)];
        assert!(of(true) * 10 < of(false), "{query} moves {} with bitmaps, {} without", of(true), of(false));
    }
    let unknown = thermocline(&[&common[..], &["--queries", "5"]].concat());
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("has no query '5'"), "{}", text(&unknown.stderr));
}

/// Runs a quick bench, checks its records, and returns how many queries it has.
fn quick_bench(workload: &str, arguments: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let common = [
        "bench",
        workload,
        "--quick",
        "--scale",
        "0.01",
        "--egress-limit",
        "1Gbps",
        "--reference",
        "--data",
        folder.path().to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ];
    let bench = thermocline(&[common.as_slice(), arguments].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let mut hashes = std::collections::HashMap::new();
    let records = std::fs::read_to_string(json).unwrap();
    for line in records.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = [
            "workload",
            "scale",
            "format",
            "mode",
            "policy",
            "cache_bytes",
            "egress_bytes_per_s",
            "query",
            "run",
            "seconds",
            "rows",
            "result_hash",
            "bytes_from_storage",
            "bytes_to_storage",
            "partitions_local",
            "partitions_load",
            "partitions_pushdown",
            "partitions_bitmap",
            "partitions_pullup",
            "partitions_pushed_back",
            "segments_hit",
            "segments_missed",
            "segments_admitted",
            "segments_evicted",
            "dollars",
        ];
        for field in fields {
            assert!(record.get(field).is_some(), "{line} has no {field}");
        }
        let (query, hash) = (record["query"].to_string(), record["result_hash"].to_string());
        assert_eq!(hashes.entry(query).or_insert_with(|| hash.clone()), &hash, "{line}");
    }
    hashes.len()
}
