//! `bench ssb-sweep`: all of its figures, tables and records, in the quick variant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use thermocline_database::cache_policy_names;
use thermocline_pushdown::Mode;

use crate::support::figure::Figure;
use crate::support::program::{BINARY, text};
use crate::support::record::QUERY_FIELDS;

/// Queries of a batch.
const BATCH: usize = 2;

fn sweep(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(["bench", "ssb-sweep", "--quick"]).args(arguments).output().unwrap()
}

/// Fields of a configuration, which has one line for its batch and one for each run of each query.
const CONFIGURATION: [&str; 9] =
    ["format", "mode", "policy", "cache_bytes", "cache_share", "egress_bytes_per_s", "batch", "theta", "pinned"];
/// Further fields of every line.
const SHARED: [&str; 10] = [
    "workload",
    "scale",
    "run",
    "seconds",
    "kind",
    "seed",
    "pass",
    "working_set_bytes",
    "bytes_from_storage",
    "bytes_to_storage",
];
/// Fields of a batch's line.
const OF_BATCH: [&str; 6] = [
    "queries",
    "cores_compute",
    "cpu_seconds_compute",
    "cpu_seconds_storage",
    "cpu_seconds_compute_dedicated",
    "dollars",
];

fn number(record: &Value, field: &str) -> f64 {
    record[field].as_f64().unwrap_or_else(|| panic!("{field} in {record}"))
}

/// Checks that each configuration ran once, with a line for its timed batch that sums up those of its queries; returns
/// the lines of batches.
fn check_records(json: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(json).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    // Warm-up and timed queries since the last line of a batch.
    let (mut warmup, mut timed): (Vec<&Value>, Vec<&Value>) = (vec![], vec![]);
    let (mut batches, mut configurations) = (vec![], BTreeSet::new());
    for record in &records {
        let is_query = record["kind"] == "query";
        let own = if is_query { &QUERY_FIELDS[..] } else { &OF_BATCH };
        let fields = CONFIGURATION.iter().chain(&SHARED).chain(own);
        let missing: Vec<_> = fields.filter(|field| record.get(field).is_none()).collect();
        assert!(missing.is_empty(), "{record} without {missing:?}");
        if is_query {
            let hash = record["result_hash"].to_string();
            let known = hashes.entry(record["sql"].to_string()).or_insert_with(|| hash.clone());
            assert_eq!(*known, hash, "{record}");
            if record["run"] == "warmup" {
                warmup.push(record)
            } else {
                timed.push(record)
            }
            continue;
        }
        assert_eq!((record["run"].as_str(), record["kind"].as_str()), (Some("timed"), Some("batch")), "{record}");
        assert_eq!((warmup.len(), timed.len()), (BATCH, BATCH), "{record}");
        for field in ["seconds", "bytes_from_storage", "bytes_to_storage", "dollars"] {
            let sum: f64 = timed.iter().map(|query| number(query, field)).sum();
            assert!((sum - number(record, field)).abs() <= 1e-9 * sum.abs(), "{field}: {sum} of {record}");
        }
        let dedicated = number(record, "seconds") * number(record, "cores_compute");
        assert!((dedicated - number(record, "cpu_seconds_compute_dedicated")).abs() < 1e-9, "{record}");
        assert!(number(record, "cpu_seconds_compute") >= 0.0 && number(record, "cpu_seconds_storage") >= 0.0);
        let cached: f64 = timed.iter().map(|query| number(query, "segments_hit")).sum();
        let cache = record["cache_share"].as_f64().unwrap_or_default();
        assert!(cache > 0.0 || cached == 0.0, "{record} has {cached} hits");
        // Mode auto loads what pays for itself, over several batches.
        if cache == 1.0 && record["mode"] != "auto" {
            // What is estimated above its real size may not fit at the end.
            let missed: f64 = timed.iter().map(|query| number(query, "segments_missed")).sum();
            assert!(missed * 5.0 < cached, "{record} has {cached} hits and {missed} misses");
        }
        let configuration = CONFIGURATION.map(|field| record[field].to_string()).join(" ");
        assert!(configurations.insert(configuration), "{record} comes twice");
        batches.push(record.clone());
        (warmup, timed) = (vec![], vec![]);
    }
    assert!(warmup.is_empty() && timed.is_empty(), "the last line is a batch's");
    batches
}

/// Checks the texts and the legend of a figure.
fn check_figure(folder: &Path, name: &str, title: &str, axes: &[&str], legend: &[&str]) -> Figure {
    let figure = Figure::read(folder, name);
    assert_eq!(figure.texts[0], title, "{name}");
    assert!(figure.texts[1].starts_with("ssb, scale 0.01, "), "{name}: {}", figure.texts[1]);
    assert_eq!(figure.texts[2..2 + legend.len()], *legend, "{name}");
    assert_eq!(figure.series, legend.len(), "{name}");
    for axis in axes {
        assert!(figure.texts.iter().any(|text| text == axis), "{name} has no axis '{axis}': {:?}", figure.texts);
    }
    figure
}

#[test]
fn a_quick_sweep_has_every_figure_table_and_record() {
    let folder = tempfile::tempdir().unwrap();
    let (figures, json) = (folder.path().join("figures"), folder.path().join("records.json"));
    let data = folder.path().join("data");
    let batch = BATCH.to_string();
    let bench = sweep(&[
        "--scale",
        "0.01",
        "--batch",
        &batch,
        "--data",
        data.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--figures",
        figures.to_str().unwrap(),
    ]);
    assert!(bench.status.success(), "{}", text(&bench.stderr));

    let modes = Mode::ALL.map(Mode::name);
    let policies = [cache_policy_names(), vec!["belady"]].concat();
    let (cache_size, theta, bandwidth) = ("cache size / working set", "theta (skew over years)", "bandwidth in Mbit/s");
    let over_skew = "Cache policies over skew, queries of mixed selectivity";
    let bytes_over_skew = format!("{over_skew}: bytes");
    let over_bandwidth = "Cache policies over bandwidth, queries of mixed selectivity";
    for (name, title, x, legend, panels) in [
        ("7a", "Modes over cache size", cache_size, &modes[..], 1),
        ("7b", "Modes over skew", theta, &modes, 1),
        ("8a", "Modes over cache size", cache_size, &modes, 1),
        ("8b", "Modes over skew", theta, &modes, 1),
        ("10", "Modes over cache size, Parquet and CSV", cache_size, &modes, 4),
        ("11", over_skew, theta, &policies, 1),
        ("11-bytes", &bytes_over_skew, theta, &policies, 1),
        ("12a", "Modes over bandwidth", bandwidth, &modes, 1),
        ("12b", over_bandwidth, bandwidth, &policies, 1),
    ] {
        let y = if name == "11-bytes" { "MiB from and to storage" } else { "seconds" };
        let figure = check_figure(&figures, &format!("ssb-figure-{name}"), title, &[x, y], legend);
        assert_eq!(figure.lines, panels * legend.len(), "{name}");
    }
    let speed_ups = "Speed-up over pullup, geometric mean by kind of query";
    let figure = check_figure(&figures, "ssb-figure-9", speed_ups, &["seconds of pullup / seconds"], &modes);
    assert!(figure.bars >= modes.len(), "there is a kind of query");
    assert_eq!(std::fs::read_dir(&figures).unwrap().count(), 10);

    let batches = check_records(&json);
    let values = |field: &str| -> BTreeSet<String> {
        let known = batches.iter().map(|record| record[field].as_str().unwrap_or_default().to_owned());
        known.filter(|value| !value.is_empty()).collect()
    };
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(values("mode"), all(&modes));
    assert_eq!(values("policy"), all(&policies));
    assert_eq!(values("format"), all(&["csv", "parquet"]));
    assert_eq!(values("batch"), all(&["mixed-selectivity", "star"]));

    let printed = text(&bench.stdout);
    for table in ["\ntable 2: network", "\ntable 3: CPU seconds", "\ntable 4: CPU seconds", "\ndollars"] {
        let (_, table) = printed.split_once(table).unwrap_or_else(|| panic!("no {table} in {printed}"));
        let rows = table.lines().skip(2).take(modes.len()).map(|line| line.split_whitespace().next().unwrap());
        assert_eq!(rows.collect::<Vec<_>>(), modes);
    }
}

#[test]
fn one_table_runs_each_mode_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, json) = (folder.path().to_str().unwrap(), folder.path().join("records.json"));
    let arguments = ["--table", "2", "--scale", "0.01", "--batch", "2", "--modes", "pullup,hybrid", "--data", data];
    let bench = sweep(&[&arguments[..], &["--format", "csv", "--json", json.to_str().unwrap()]].concat());
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    let batches = check_records(&json);
    assert_eq!(batches.iter().map(|record| record["mode"].as_str().unwrap()).collect::<Vec<_>>(), ["pullup", "hybrid"]);
    assert!(batches.iter().all(|record| record["format"] == "csv"));
    assert!(number(&batches[0], "bytes_from_storage") > number(&batches[1], "bytes_from_storage"));
    assert!(text(&bench.stdout).contains("table 2") && !text(&bench.stdout).contains("table 3"));
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (arguments, expected) in [
        (&["--figure", "6"][..], "--figure"),
        (&["--table", "5"], "--table"),
        (&["--modes", "fast"], "unknown mode 'fast'"),
        (&["--modes", "pullup,pullup"], "--modes names pullup twice"),
        (&["--policies", "fifo"], "--policies"),
        (&["--policies", "lru,lru"], "--policies names lru twice"),
        (&["--cache-shares", "1.5"], "is no share"),
        (&["--cache-share", "nan"], "is no share"),
        (&["--thetas=-1"], "is no exponent"),
        (&["--egress-limit", "fast"], "--egress-limit"),
        (&["--egress-multiples", "0"], "is no multiple"),
        (&["--batch", "0"], "--batch"),
        (&["--passes", "0"], "--passes"),
        (&["--partition-size", "1KiB"], "--partition-size"),
        (&["--scale", "0"], "--scale"),
        (&["--set", "cache_policy=lru"], "cache_policy"),
    ] {
        let refused = sweep(&[arguments, &["--data", data.to_str().unwrap()]].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(expected), "{arguments:?}: {}", text(&refused.stderr));
    }
    assert!(!data.exists());
}
