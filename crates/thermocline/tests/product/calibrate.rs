//! `thermocline calibrate` over a storage node behind a limited link, what becomes of a calibration, and `bench model-map`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use thermocline_workloads::Workload;
use thermocline_workloads::generate::{Format, GenerateOptions};

use crate::support::figure::Figure;
use crate::support::program::{BINARY, output, rows, text};
use crate::support::topology::NodeProcess;

const FILE: &str = "calibration.json";
const LIMIT: [&str; 2] = ["--egress-limit", "400Mbps"];

/// SSB in objects of 64 KiB, so that there are partitions of small data.
fn data(root: &Path) {
    let options = GenerateOptions {
        scale: 0.02,
        format: Format::Parquet,
        partition_size: 64 << 10,
        out: root.into(),
        threads: 0,
    };
    (Workload::SSB.generate)(&options, &|_| {}).unwrap();
}

fn node(root: &Path, listen: &str, more: &[&str]) -> NodeProcess {
    NodeProcess::start(root.to_str().unwrap(), listen, &[&LIMIT[..], more].concat(), &[])
}

fn calibrate(database: &Path, arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("calibrate").arg(database).args(arguments).output().unwrap()
}

fn define(database: &Path, table: &str, location: &str) {
    rows(Some(database), &format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}/{table}'"));
}

const STATE: &str = "SELECT node, format, mode, state, changes, table_name, version <> '' AS told, cores > 0 AS cores, \
                     bytes_per_s > 0 AS link FROM system.calibration ORDER BY mode";
const SCAN: &str = "SELECT sum(lo_quantity) FROM lineorder WHERE lo_discount < 3; ";

/// The printed lines whose first word is a mode's name.
fn lines_of<'a>(said: &'a str, mode: &str) -> Vec<&'a str> {
    said.lines().filter(|line| line.split_whitespace().next() == Some(mode)).collect()
}

#[test]
fn a_calibration_is_kept_used_and_refused_once_the_node_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (root, database, figures) =
        (folder.path().join("data"), folder.path().join("db"), folder.path().join("figures"));
    data(&root);
    let storage = node(&root, "127.0.0.1:0", &[]);
    let address = storage.address.clone();
    define(&database, "lineorder", &format!("thermocline://{address}"));
    assert_eq!(rows(Some(&database), STATE).lines().count(), 1, "only the titles");

    let done = calibrate(&database, &["--table", "lineorder", "--quick", "--out", figures.to_str().unwrap()]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for mode in ["caching", "pushdown", "hybrid"] {
        let lines = lines_of(&said, mode);
        assert_eq!(lines.len(), 2, "errors and parameters of {mode} in {said}");
        assert!(lines[0].contains('%') && lines[1].contains("ms"), "{said}");
    }
    assert!(
        said.contains("the modes' models pick the fastest one for") && said.contains("auto begins with: link of"),
        "{said}"
    );
    assert!(said.contains("auto is as fast as the fastest mode (within 5 %) for"), "{said}");
    assert!(said.contains("auto expects the time of their scans with an error of"), "{said}");
    for (name, x) in [
        ("4-1", "selected rows in memory, MB (r c S / R)"),
        ("4-2", "answers over the link, MB (r c S)"),
        ("4-3", "hit ratio h"),
    ] {
        let figure = Figure::read(&figures, &format!("model-figure-{name}"));
        let has = |wanted: &str| figure.texts.iter().any(|text| text == wanted);
        assert!(has(x) && has("seconds"), "{name}: {:?}", figure.texts);
        assert!(figure.texts.iter().any(|text| text.contains("solid: measured, dashed: modelled")), "{name}");
        assert!(figure.lines > 0 && figure.series > 0, "{name}");
    }

    // Shown from the file, and by the database: before a table at the node is planned with, and after.
    let shown = calibrate(&database, &["--show"]);
    assert!(text(&shown.stdout).contains(&format!("storage {address}, parquet: version ")), "{}", text(&shown.stdout));
    assert!(text(&shown.stdout).contains("egress limit 400 Mbit/s"), "{}", text(&shown.stdout));
    let row = |mode: &str, state: &str| format!("{address},parquet,{mode},{state},,lineorder,true,true,true");
    let titles = "node,format,mode,state,changes,table_name,told,cores,link";
    let all = |state: &str| ["caching", "hybrid", "pushdown"].map(|mode| row(mode, state)).join("\n");
    assert_eq!(rows(Some(&database), STATE), format!("{titles}\n{}\n", all("unchecked")));
    assert!(rows(Some(&database), &format!("{SCAN}{STATE}")).ends_with(&format!("{titles}\n{}\n", all("used"))));

    assert!(!text(&output(Some(&database), &[], SCAN).stderr).contains("calibration"), "nothing to warn of");

    // The same address, and another node.
    drop(storage);
    let changed = node(&root, &address, &["--pushdown-slots", "7"]);
    let after = output(Some(&database), &[], &format!("{SCAN}{STATE}"));
    let (said, warned) = (text(&after.stdout), text(&after.stderr));
    assert_eq!(said.matches(",refused,").count(), 3, "{said}");
    assert!(said.contains("-> 7"), "{said}");
    let expected =
        format!("the calibration of storage node {address} is not used, because it has changed: pushdown slots");
    assert!(warned.contains(&expected), "{warned}");
    let command = format!("thermocline calibrate {} --table lineorder", database.display());
    assert!(warned.contains(&command), "{warned}");

    // What it says renews it.
    let again = calibrate(&database, &["--table", "lineorder", "--quick", "--seed", "2"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let after = output(Some(&database), &[], &format!("{SCAN}{STATE}"));
    assert_eq!(text(&after.stdout).matches(",used,").count(), 3, "{}", text(&after.stdout));
    assert!(!text(&after.stderr).contains("calibration"), "{}", text(&after.stderr));

    // Ctrl-C, early and late, leaves it as it is, and no file beside it.
    let before = std::fs::read(database.join(FILE)).unwrap();
    for wait in [300, 1500] {
        let mut process = Command::new(BINARY)
            .arg("calibrate")
            .arg(&database)
            .args(["--table", "lineorder", "--repeats", "1000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let sent = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(process.wait().unwrap().code(), Some(130));
        assert_eq!(std::fs::read(database.join(FILE)).unwrap(), before);
        assert!(!database.join("calibration.json.tmp").exists());
    }

    // A damaged file is an error where it is asked for, and a warning with the defaults elsewhere.
    std::fs::write(database.join(FILE), &before[..before.len() / 2]).unwrap();
    let shown = calibrate(&database, &["--show"]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(text(&shown.stderr).contains(FILE) && text(&shown.stderr).contains("damaged"), "{}", text(&shown.stderr));
    let after = output(Some(&database), &[], &format!("{SCAN}{STATE}"));
    assert!(after.status.success());
    assert!(text(&after.stderr).contains(FILE) && text(&after.stderr).contains("damaged"), "{}", text(&after.stderr));
    drop(changed);
}

#[test]
fn what_cannot_be_calibrated_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (root, database) = (folder.path().join("data"), folder.path().join("db"));
    let refused = |database: &Path, arguments: &[&str], code: i32, why: &str| {
        let done = calibrate(database, arguments);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    refused(&database, &["--table", "lineorder"], 1, "there is no database at");
    assert!(!database.exists(), "a wrong path makes none");
    data(&root);
    define(&database, "lineorder", root.to_str().unwrap());
    define(&database, "dates", root.to_str().unwrap());
    rows(Some(&database), "CREATE TABLE r (k BIGINT PRIMARY KEY) PARTITION BY (k)");
    refused(&database, &["--table", "orders"], 1, "\"orders\" does not exist");
    refused(&database, &["--table", "r"], 1, "there is no external table \"r\"");
    refused(&database, &["--table", "dates"], 1, "is too small to be calibrated");
    refused(&database, &["--table", "dates"], 1, "at least 8 partitions and 50000 rows");
    refused(&database, &["--table", "lineorder", "--node", "h:1"], 1, "has nothing at \"h:1\"");
    refused(&database, &[], 2, "--table");
    refused(&database, &["--table", "lineorder", "--size", "0"], 2, "nothing would be measured");
    refused(&database, &["--table", "lineorder", "--repeats", "0"], 2, "--repeats");
    refused(&database, &["--show", "--table", "lineorder"], 2, "--table");

    // What a newer version wrote, or what cannot be read, is left alone; queries run with a warning.
    let file = database.join(FILE);
    let newer = "thermocline calibration 2 sha256 0\n[]\n";
    std::fs::write(&file, newer).unwrap();
    for arguments in [&["--table", "lineorder", "--quick"][..], &["--show"]] {
        refused(&database, arguments, 1, "written by a newer version of Thermocline");
        refused(&database, arguments, 1, "move the file away");
    }
    let queried = output(Some(&database), &[], SCAN);
    assert!(queried.status.success());
    assert!(text(&queried.stderr).contains("newer version"), "{}", text(&queried.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap();
    for arguments in [&["--table", "lineorder", "--quick"][..], &["--show"]] {
        refused(&database, arguments, 1, "cannot be read");
    }
    std::fs::remove_file(&file).unwrap();

    refused(&database, &["--table", "lineorder", "--set", "mode=fast"], 2, "mode");
    refused(&database, &["--table", "lineorder", "--set", "mode=auto"], 2, "calibrate sets mode itself");
    refused(&database, &["--table", "lineorder", "--set", "compression=none"], 2, "ALTER DATABASE SET compression");
    let shown = calibrate(&database, &["--show"]);
    assert!(text(&shown.stdout).contains("no calibration"), "{}", text(&shown.stdout));

    // A node in the process has no link; what there is is fitted.
    let done = calibrate(&database, &["--table", "lineorder", "--quick", "--set", "request_timeout=20s"]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(said.contains("there is no link to this storage"), "{said}");
    assert_eq!((lines_of(&said, "caching").len(), lines_of(&said, "pushdown").len()), (2, 0), "{said}");
    let used = rows(Some(&database), &format!("{SCAN}SELECT mode, state FROM system.calibration"));
    assert!(used.ends_with("mode,state\ncaching,used\n"), "{used}");
}

#[test]
fn maps_of_the_model_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let figures = folder.path().join("figures");
    let map = |arguments: &[&str]| Command::new(BINARY).args(["bench", "model-map"]).args(arguments).output().unwrap();
    let done = map(&["--quick", "--figures", figures.to_str().unwrap()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    for (name, title) in [("4-4", "low"), ("4-5", "medium"), ("4-6", "high")] {
        let figure = Figure::read(&figures, &format!("model-figure-{name}"));
        assert!(figure.texts[0].starts_with(&format!("Fastest mode by the model, {title} selectivity")), "{name}");
        for wanted in
            ["BW_compute / BW_storage", "BW_network / BW_storage", "caching", "pushdown", "hybrid", "h = 0.25"]
        {
            assert!(figure.texts.iter().any(|text| text == wanted), "{name}: {:?}", figure.texts);
        }
    }
    // Section 4.5: pushdown is never the fastest at low and medium selectivity, and is at high with much of it cached.
    let said = text(&done.stdout);
    let pushdown = |figure: &str, hit: &str| -> String {
        let is_it = |words: &[&str]| words.first() == Some(&figure) && words.contains(&hit);
        let lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let words = lines.into_iter().find(|words| is_it(words)).unwrap_or_else(|| panic!("{figure} {hit}: {said}"));
        words[words.len() - 4].to_owned()
    };
    assert_eq!(
        (pushdown("4-4", "0.75"), pushdown("4-5", "0.75"), pushdown("4-6", "0.25")),
        ("0.0".into(), "0.0".into(), "0.0".into())
    );
    assert_ne!(pushdown("4-6", "0.75"), "0.0");
    for (arguments, code) in [
        (&["--hits", "2"][..], 2),
        (&["--hits", "0.5,0.5"], 2),
        (&["--size", "0"], 2),
        (&["--storage-rate", "fast"], 2),
        (&["--steps", "1"], 2),
        (&["--ratio-min", "3"], 2),
        (&["--calibration", folder.path().to_str().unwrap()], 1),
        (&["--node", "a"], 2),
    ] {
        assert_eq!(map(arguments).status.code(), Some(code), "{arguments:?}");
    }
}
