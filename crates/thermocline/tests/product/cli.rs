//! The command line as a program: exit codes, formats, databases, benches.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::figure::Figure;
use crate::support::record::QUERY_FIELDS;

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

/// [`generate`] for any workload.
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
fn a_query_ends_that_takes_memory_which_no_operator_accounts_for() {
    let greedy = "SELECT count(DISTINCT repeat('x', 50000) || i) FROM generate_series(1, 200000) AS g(i)";
    let script = format!("ALTER DATABASE SET query_memory_limit = '64MiB'; {greedy}");
    let done = thermocline(&["sql", "-c", &script]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stdout));
    let said = text(&done.stderr);
    assert!(said.contains("out of memory: queries take") && said.contains("is 64 MiB"), "{said}");
    // Memory used before the queries does not count.
    let done =
        thermocline(&["sql", "-c", &format!("SELECT repeat('x', 16000000) AS r; {}", script.replace("200000", "200"))]);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Whoever starts a node for a while may be killed; the node would keep its port and its core.
#[test]
fn a_node_of_a_bench_ends_with_its_standard_input() {
    let root = tempfile::tempdir().unwrap();
    let mut node = std::process::Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .arg("storage")
        .arg(root.path())
        .args(["--listen", "127.0.0.1:0", "--until-stdin-ends"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(node.stdout.take().unwrap()), &mut line).unwrap();
    assert!(line.contains("listening on 127.0.0.1:"), "{line}");
    assert!(node.try_wait().unwrap().is_none(), "it runs as long as its input is open");
    drop(node.stdin.take());
    assert!(node.wait().unwrap().success());
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
    let (data, json) = (folder.path().to_str().unwrap(), folder.path().join("records.json"));
    let common = ["bench", "operators", "--quick", "--scale", "0.01", "--data", data, "--figures", data];
    // Only bytes that leave storage cost anything.
    let mut prices = vec!["--set", "price_transferred_gb=1", "--json", json.to_str().unwrap()];
    for free in ["compute_hour=0", "requests_1000=0", "scanned_gb=0", "returned_gb=0"] {
        prices.extend(["--set", ["price_", free].concat().leak()]);
    }
    // It fails if two ways of running a query differ in their rows.
    let bench = thermocline(&[&common[..], &prices].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let table = text(&bench.stdout);
    for alternative in ["indexing", "bloom", "filtered", "K = 10000"] {
        assert!(table.contains(alternative), "{table}");
    }
    for line in std::fs::read_to_string(json).unwrap().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let (dollars, bytes) = (record["dollars"].as_f64().unwrap(), record["bytes_from_storage"].as_f64().unwrap());
        assert!((dollars - bytes / 1e9).abs() < 1e-12, "{line}");
    }
    for quantity in ["seconds", "bytes", "dollars"] {
        let figure = Figure::read(folder.path(), &format!("operators-{quantity}"));
        // 2 filters, 2 joins and 4 groupings in three ways, 3 top-K in two.
        assert_eq!((figure.series, figure.bars), (6, 2 * 3 + 2 * 3 + 4 * 3 + 3 * 2));
    }
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("bench-")), "indexes are removed: {left:?}");
    let tables = folder.path().join(left.iter().find(|name| name.starts_with("tpch")).unwrap());
    assert!(!tables.join(".thermocline").exists(), "the data is as it was");
    let wrong = thermocline(&[&common[..], &["--set", "price_scanned_gb=cheap"]].concat());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("'cheap' is not a price"), "{}", text(&wrong.stderr));
}

#[test]
fn a_quick_bench_of_many_objects_agrees_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let data = folder.path().to_str().unwrap();
    let bench = thermocline(&["bench", "objects", "--quick", "--data", data, "--json", json.to_str().unwrap()]);
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let lines = std::fs::read_to_string(json).unwrap();
    let records: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Two queries over two numbers of objects, and two over one object in two modes.
    assert_eq!(records.len(), 2 * 2 + 2 * 2);
    for record in &records {
        // Numbers come from timed runs: the object is cached by then, except in modes without a cache.
        let uncached = record["mode"] == "pullup" || record["mode"] == "pushdown";
        assert_eq!(record["requests"] != 0, uncached, "{record}");
        assert_eq!(record["bytes_from_storage"] != 0, uncached, "{record}");
    }
    // Given arguments apply with and without --quick.
    let given = ["--objects", "3", "--partitions", "2", "--columns", "4", "--passes", "1"];
    let bench = thermocline(&[&["bench", "objects", "--quick", "--data", data], &given[..]].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    assert!(text(&bench.stdout).contains("one object of 2 partitions and 4 columns"), "{}", text(&bench.stdout));
}

#[test]
fn a_quick_bench_writes_every_field_and_the_modes_agree() {
    assert_eq!(quick_bench("ssb", &[]), 13);
    assert_eq!(quick_bench("tpch", &["--queries", "1,Q6,14", "--mode", "pullup", "--mode", "pushdown"]), 3);
    let unknown = thermocline(&["bench", "tpch", "--quick", "--queries", "23"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("tpch has no query '23'"), "{}", text(&unknown.stderr));
}

#[test]
fn a_quick_adaptive_bench_compares_all_strategies() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let (data, json_path) = (folder.path().to_str().unwrap(), json.to_str().unwrap());
    let common = ["bench", "adaptive", "--quick", "--scale", "0.01", "--data", data];
    let bench = thermocline(&[&common[..], &["--json", json_path, "--figures", data]].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let seconds = Figure::read(folder.path(), "adaptive-seconds");
    assert_eq!((seconds.series, seconds.lines), (4, 8 * 4), "a panel for each query, alone and at once");
    let admitted = Figure::read(folder.path(), "adaptive-admitted");
    assert_eq!((admitted.series, admitted.lines), (3, 4 * 3));
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
fn tpch_over_compute_power_compares_strategies_and_finds_where_they_are_even() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let (data, json_path) = (folder.path().to_str().unwrap(), json.to_str().unwrap());
    let common = ["bench", "tpch", "--quick", "--scale", "0.01", "--queries", "6,Q14", "--data", data];
    let sweep = ["--compute-power", "0.1,1", "--json", json_path, "--figures", data];
    let bench = thermocline(&[&common[..], &sweep].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let mut records = std::collections::BTreeSet::new();
    for line in std::fs::read_to_string(json).unwrap().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let count = |field: &str| record[field].as_u64().unwrap_or_else(|| panic!("{field} in {line}"));
        let key = ["query", "strategy", "compute_power", "run"].map(|field| record[field].to_string());
        assert_eq!(record["strategy"] == "no", count("partitions_pushdown") == 0, "{line}");
        assert!(records.insert(key), "{line} comes twice");
    }
    assert_eq!(records.len(), 2 * 3 * 2 * 2, "{records:?}");
    let table = text(&bench.stdout);
    let found = ["compute power 1\n", "compute power 0.1\n", "geometric mean", "break even"];
    assert!(found.iter().all(|part| table.contains(part)), "{table}");
    let figure = Figure::read(folder.path(), "tpch-compute-power");
    assert_eq!((figure.series, figure.lines), (3, (2 + 1) * 3), "the queries and their mean");
    for (wrong, why) in [
        (["--compute-power", "1.5"].as_slice(), "not a share of a core"),
        (&["--compute-power", "0.5", "--modes", "pullup"], "cannot be used with"),
        (&["--partition-size", "1MiB"], "--compute-power"),
    ] {
        let refused = thermocline(&[&common[..], wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_quick_bitmap_bench_has_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let (data, json_path) = (folder.path().to_str().unwrap(), json.to_str().unwrap());
    let common = ["bench", "bitmap", "--quick", "--scale", "0.01", "--data", data];
    let bench = thermocline(&[&common[..], &["--json", json_path, "--figures", data]].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    for name in ["bitmap-seconds", "bitmap-bytes"] {
        let figure = Figure::read(folder.path(), name);
        assert_eq!((figure.series, figure.lines), (3, 5 * 3), "no bitmap, and one from either side");
    }
    // Bytes by query, direction and side, of the timed runs that select nine rows in ten.
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
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("has no query '5'"), "{}", text(&unknown.stderr));
}

/// Runs a quick bench, checks its records, and returns the number of its queries.
fn quick_bench(workload: &str, arguments: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.json");
    let python = crate::support::oracle::python();
    let common = [
        "bench",
        workload,
        "--quick",
        "--scale",
        "0.01",
        "--egress-limit",
        "1Gbps",
        "--passes",
        "2",
        "--reference",
        "--duckdb",
        python.to_str().unwrap(),
        "--data",
        folder.path().to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--figures",
        folder.path().to_str().unwrap(),
    ];
    let bench = thermocline(&[common.as_slice(), arguments].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let mut modes = std::collections::HashSet::new();
    let mut turns = vec![];
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
            "run",
            "seconds",
            "bytes_from_storage",
            "bytes_to_storage",
        ];
        for field in fields.into_iter().chain(QUERY_FIELDS) {
            assert!(record.get(field).is_some(), "{line} has no {field}");
        }
        let (query, hash) = (record["query"].to_string(), record["result_hash"].to_string());
        let mode = record["mode"].as_str().unwrap();
        // DuckDB's rows are compared by value.
        match mode.starts_with("duckdb") {
            true => assert!(record["result_hash"].is_null(), "{line}"),
            false => assert_eq!(hashes.entry(query).or_insert_with(|| hash.clone()), &hash, "{line}"),
        }
        let ours = !mode.starts_with("duckdb") && !mode.starts_with("datafusion");
        for counted in ["bytes_from_storage", "partitions_pullup", "cache_bytes", "dollars", "egress_bytes_per_s"] {
            assert_eq!(record[counted].is_number(), ours, "{counted} in {line}");
        }
        turns.push((record["run"].as_str().unwrap().to_owned(), mode.to_owned()));
        modes.insert(mode.to_owned());
    }
    for other in ["datafusion-memory", "datafusion-files", "duckdb-memory", "duckdb-files"] {
        assert!(modes.contains(other), "{other} is not among {modes:?}");
        let line = text(&bench.stdout).lines().find(|line| line.starts_with(&format!("{other} "))).unwrap().to_owned();
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(columns.get(columns.len() - 2..), Some(&["-", "-"][..]), "nobody counts its bytes: {line}");
    }
    turns.dedup();
    assert_eq!(turns.len(), modes.len() * 3, "a pass to warm up and two timed ones, in each of which all take turns");
    // Plain DataFusion runs in three ways and DuckDB in two, none of which counts bytes.
    for (quantity, modes) in [("seconds", modes.len()), ("bytes", modes.len() - 5)] {
        let figure = Figure::read(folder.path(), &format!("{workload}-{quantity}"));
        assert_eq!((figure.series, figure.bars), (modes, 2 * hashes.len() * modes), "cold and warm");
    }
    hashes.len()
}

#[test]
fn arguments_of_benches_that_do_not_fit_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (arguments, names) in [
        (&["ssb", "--passes", "0"][..], "--passes"),
        (&["operators", "--passes", "0"], "--passes"),
        (&["adaptive", "--passes", "0"], "--passes"),
        (&["bitmap", "--passes", "0"], "--passes"),
        (&["objects", "--passes", "0"], "--passes"),
        (&["objects", "--objects", "0"], "--objects"),
        (&["objects", "--objects", "5,5"], "--objects names 5 twice"),
        (&["objects", "--partitions", "0"], "--partitions"),
        (&["objects", "--columns", "0"], "--columns"),
        (&["objects", "--figures", "x"], "--figures"),
        (&["objects", "--set", "partition_size=1MiB"], "partition_size"),
        (&["ssb", "--batch", "0"], "--batch"),
        (&["ssb", "--batch", "5", "--theta", "nan"], "--theta"),
        (&["ssb", "--batch", "5", "--theta=-1"], "--theta"),
        (&["ssb", "--theta", "1"], "--batch"),
        (&["ssb", "--seed", "1"], "--batch"),
        (&["ssb", "--set", "cache_size=1KiB"], "cache_size"),
        (&["ssb", "--set", "thermocline.Mode=pullup"], "Mode"),
        (&["ssb", "--modes", "pullup,Pullup"], "--modes names pullup twice"),
        (&["ssb", "--modes", "fast"], "unknown mode 'fast'"),
        (&["ssb", "--queries", "1.1,Q1.1"], "--queries names Q1.1 twice"),
        (&["ssb", "--queries", "9.9"], "has no query '9.9'"),
        (&["ssb", "--cache-size", "much"], "--cache-size"),
        (&["ssb", "--policy", "fifo"], "--policy"),
        (&["ssb", "--format", "orc"], "--format"),
        (&["ssb", "--egress-limit", "fast"], "--egress-limit"),
        (&["ssb", "--pushdown-slots", "0"], "--pushdown-slots"),
        (&["ssb", "--arbitration", "lifo"], "--arbitration"),
        (&["ssb", "--scale", "0"], "--scale"),
        (&["ssb", "--scale", "nan"], "--scale"),
        (&["tpch", "--scale", "0"], "--scale"),
        (&["tpch", "--scale", "0.5", "--compute-power", "1", "--partition-size", "0"], "--partition-size"),
        (&["tpch", "--compute-power", "1,0.5,1"], "--compute-power names 1 twice"),
        (&["tpch", "--compute-power", "1", "--scale", "nan"], "--scale"),
        (&["tpch", "--reference", "--duckdb", "/bin/true"], "--duckdb: /bin/true"),
        (&["adaptive", "--partition-size", "1KiB"], "--partition-size"),
        (&["adaptive", "--set", "mode=pullup"], "mode"),
        (&["operators", "--scale", "0"], "--scale"),
        (&["operators", "--set", "indexes=off"], "indexes"),
        (&["bitmap", "--quick", "--selectivities", "5,-1,nan"], "--selectivities"),
        (&["bitmap", "--selectivities", "0.5,0.5"], "--selectivities names 0.5 twice"),
        (&["bitmap", "--set", "bitmaps=off"], "bitmaps"),
        (&["bitmap", "--scale", "nan"], "--scale"),
    ] {
        let refused = thermocline(&[&["bench"], arguments, &["--data", data.to_str().unwrap()]].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", text(&refused.stderr));
        let error = text(&refused.stderr);
        assert!(error.contains(names) && !error.contains("making"), "{arguments:?}: {error}");
    }
    assert!(!data.exists());
}
