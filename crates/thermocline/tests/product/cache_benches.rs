//! `bench cache-sim` over recorded lookups, `bench dashboard` and `bench shift`.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::program::text;

fn bench(arguments: &[&str], data: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.arg("bench").args(arguments).env("XDG_CACHE_HOME", data);
    command.output().unwrap()
}

#[test]
fn recorded_lookups_are_replayed_and_damaged_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let file = trace.to_str().unwrap();
    let recording =
        ["ssb", "--scale", "0.01", "--queries", "1.1,2.1,3.1", "--passes", "2", "--egress-limit", "200Mbps"];
    for mode in ["auto", "hybrid"] {
        let recorded = bench(&[&recording[..], &["--modes", mode, "--trace", file]].concat(), folder.path());
        assert!(recorded.status.success(), "{}", text(&recorded.stderr));
        let replayed = bench(&["cache-sim", file, "--sizes", "25,50", "--quick"], folder.path());
        let printed = text(&replayed.stdout);
        assert!(replayed.status.success(), "{}", text(&replayed.stderr));
        for part in ["lookups over", "25 %", "50 %", "bound, seconds", "LRU", "GDSF", "S3-FIFO", "Belady"] {
            assert!(printed.contains(part), "{mode}: no {part} in {printed}");
        }
    }

    let belady = format!("belady:{file}");
    let tpch = ["tpch", "--scale", "0.01", "--queries", "6", "--modes", "hybrid", "--policy", &belady];
    for (arguments, why) in [
        (&tpch[..], "recorded with workload ssb, not tpch"),
        (&[&recording[..], &["--modes", "auto", "--trace", file, "--json", file]].concat(), "name the same file"),
        (&["cache-sim", file, "--sizes", "25,25.0"], "--sizes names 25 twice"),
        (&["ssb-sweep", "--quick", "--policies", "lfu,LFU"], "--policies names lfu twice"),
        (&["ssb-sweep", "--quick", "--policies", "belady:"], "belady:FILE"),
        (&["ssb-sweep", "--quick", "--policy", &belady], "recorded with scale 0.01, not 0.02"),
    ] {
        let refused = bench(arguments, folder.path());
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }

    let lines = std::fs::read_to_string(&trace).unwrap();
    let cut = &lines[..lines.trim_end().len() - 5];
    std::fs::write(&trace, cut).unwrap();
    let refused = bench(&["cache-sim", file], folder.path());
    assert_eq!(refused.status.code(), Some(1));
    let number = lines.lines().count();
    let said = text(&refused.stderr);
    assert!(said.contains(file) && said.contains(&format!("line {number}")), "{said}");

    let two = bench(&[&recording[..], &["--modes", "auto,hybrid", "--trace", file]].concat(), folder.path());
    assert_eq!(two.status.code(), Some(2));
    assert!(text(&two.stderr).contains("--trace records one mode"), "{}", text(&two.stderr));
}

#[test]
fn a_dashboard_has_the_same_rows_with_and_without_kept_answers() {
    let folder = tempfile::tempdir().unwrap();
    let run = bench(&["dashboard", "--quick", "--scale", "0.01", "--rounds", "2"], folder.path());
    let printed = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for part in ["20 queries, 2 rounds", "without kept answers", "x fewer bytes"] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
}

#[test]
fn a_link_and_a_node_change_between_queries_and_no_row_does() {
    let folder = tempfile::tempdir().unwrap();
    let run = bench(&["shift", "--quick", "--scale", "0.01", "--queries", "2"], folder.path());
    let printed = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for part in ["link: 2 queries", "power: 2 queries", "adapting", "as long as the best other mode"] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
}
